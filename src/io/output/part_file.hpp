// A file that is written under the temporary name `.NAME.UUID.part` in the same folder, and gets
// its final name only when it is complete. All outputs of the program are written in this way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/options.hpp"
#include "io/output/run_files.hpp"

namespace shardstream::io {

/// Reserves disk space for the first `bytes` bytes of `file` without changing its size. `path` is
/// for the message. Throws UsageError if there is not enough space. On a file system without
/// reservations, only the free space is checked.
void reserve_room(const Descriptor& file, const std::filesystem::path& path, std::uint64_t bytes);

/// Blocks until the names in the folder of `path` are on disk. Throws Error.
void sync_folder_of(const std::filesystem::path& path);

/// The root attribute `schema` of results, and of files that `generate` writes.
inline constexpr std::string_view result_schema = "shardstream";
inline constexpr std::string_view generated_schema = "shardstream-data";

/// The contents of a file. Error messages depend on it, and with Overwrite::own a file may only
/// replace files with the same contents.
enum class Contents { result, generated, trace, page };

/// The files that output.overwrite allows to replace.
enum class Overwrite {
  never,
  own,      ///< files of the same Contents that this program has written
  anything  ///< any regular file
};
Overwrite overwrite_of(const Options& options);

/// Throws UsageError if a PartFile of `path` could not be created or could not reserve `bytes`
/// bytes, as far as that can be checked without writing.
void expect_place(const std::filesystem::path& path, Overwrite overwrite, Contents contents,
                  std::uint64_t bytes);

class PartFile {
 public:
  /// Removes stale part files, creates the empty part file with access only for this user, and
  /// locks it, so that other processes know that its writer is alive. Throws UsageError if `path`
  /// cannot be created, or if it exists and may not be replaced. A device, FIFO or socket is never
  /// replaced.
  PartFile(std::filesystem::path path, Overwrite overwrite, const std::string& uuid,
           Contents contents);
  /// Removes the part file unless publish() has succeeded or keep() was called.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Reserves disk space for the first `bytes` bytes, or for the minimum size of a file, without
  /// changing the size of the file. Throws UsageError if there is not enough space. On a file
  /// system without reservations, only the free space is checked.
  void reserve(std::uint64_t bytes);

  /// Frees the disk space of the file, for a writer that must close it after a failure: on a full
  /// disk, closing needs some space.
  void abandon();

  /// Keeps the part file from now on, since a later run resumes from it. publish() then adds the
  /// final name as a second name. On a file system without hard links, the file only has the final
  /// name.
  void keep() { kept_ = true; }

  /// Gives the file the permissions of any new file of this user (umask), syncs it, gives it its
  /// final name and syncs the folder. Throws Error on failure, and if `path` exists by now and may
  /// not be replaced.
  void publish();
  /// Whether another run has published first: `path` exists and may not be replaced.
  bool is_overtaken() const;

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& part_path() const { return part_path_; }

 private:
  void create();
  bool lock_and_keep();
  void link_into_place();

  std::filesystem::path path_, part_path_;
  std::string uuid_;
  Overwrite overwrite_;
  Contents contents_;
  bool published_ = false, kept_ = false;
  Descriptor file_;
};

}  // namespace shardstream::io
