// A file that is written under a name of its own, `.NAME.UUID.part` in the same folder, and appears
// under its final name only when it is complete. Result files and generated data are both made so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/options.hpp"
#include "io/output/run_files.hpp"

namespace shardstream::io {

/// Reserves room on disk for the first `bytes` of `file` without changing its size. `path` is the
/// output's, for the message. Throws UsageError if there is not enough. A file system that cannot
/// reserve is only asked what it has free now.
void reserve_room(const Descriptor& file, const std::filesystem::path& path, std::uint64_t bytes);

/// Returns when the names in the folder of `path` are on disk. Throws Error.
void sync_folder_of(const std::filesystem::path& path);

/// The root attribute `schema` of results and of what `generate` writes.
inline constexpr std::string_view result_schema = "shardstream";
inline constexpr std::string_view generated_schema = "shardstream-data";

/// What a file is for. Error messages depend on it, and files of one kind replace their like.
enum class Contents { result, generated, trace, page };

/// What output.overwrite allows to be replaced.
enum class Overwrite {
  never,
  own,      ///< files of the same Contents that this program has written
  anything  ///< any regular file
};
Overwrite overwrite_of(const Options& options);

/// Throws UsageError if a PartFile of `path` could not be made, or could not reserve `bytes`, as
/// far as that can be seen without writing.
void expect_place(const std::filesystem::path& path, Overwrite overwrite, Contents contents,
                  std::uint64_t bytes);

class PartFile {
 public:
  /// Removes stale parts, creates the empty part file, readable and writable for this user alone,
  /// and holds a lock on it that tells other processes that its writer lives. Throws UsageError if
  /// `path` exists and may not be replaced (a device, FIFO or socket never may), or cannot be made.
  PartFile(std::filesystem::path path, Overwrite overwrite, const std::string& uuid,
           Contents contents);
  /// Removes the part file unless it was published or is to be kept.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Reserves room on disk for the first `bytes`, or the little that any file takes if that is
  /// more, without changing the file's size. Throws UsageError when there is not enough. A file
  /// system that cannot reserve is only asked for what it has free now.
  void reserve(std::uint64_t bytes);

  /// Gives back what the file takes on disk, for a writer that must still close it after a failure:
  /// on a full disk that needs some room.
  void abandon();

  /// From now on the part file stays: a later run resumes from it. What is published then is the
  /// same file under a second name; where the file system has no hard links it has that one alone.
  void keep() { kept_ = true; }

  /// Gives the file the permissions of any new file of this user (umask), syncs it, gives it its
  /// final name and syncs the folder. Throws Error if `path` exists by now and may not be replaced,
  /// or on any failure.
  void publish();
  /// Whether `path` exists and may not be replaced: another run has published first.
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
