// A file that is written under the temporary name `.NAME.UUID.part` in the same folder, and gets
// its final name only when it is complete. All outputs of the program are written in this way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/descriptor.hpp"
#include "io/output/replacement.hpp"
#include "io/output/temporary_files.hpp"

namespace shardstream::io {

/// Reserves disk space for the first `bytes` bytes of `file` without changing its size.
/// `destination` is for the message. Throws UsageError if there is not enough space. On a file
/// system without reservations, only the free space is checked.
void reserve_room(const Descriptor& file, const Destination& destination, std::uint64_t bytes);

/// Blocks until the names in the folder of `path` are on disk. Throws Error.
void sync_folder_of(const std::filesystem::path& path);

/// Throws UsageError if a PartFile of `destination` could not be created or could not reserve
/// `bytes` bytes, as far as that can be checked without writing.
void expect_destination(const Destination& destination, std::uint64_t bytes);

class PartFile {
 public:
  /// Removes stale part files, creates the empty part file with access only for this user, and
  /// locks it, so that other processes know that its writer is alive. Throws UsageError if the
  /// file cannot be created, or if it exists and may not be replaced (replacement.hpp).
  PartFile(Destination destination, const std::string& uuid);
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
  /// final name and syncs the folder. Throws Error on failure, and if a file with this name exists
  /// by now and may not be replaced.
  void publish();
  /// Whether another run has published first: the file exists and may not be replaced.
  bool is_overtaken() const;

  const std::filesystem::path& path() const { return destination_.path; }
  const std::filesystem::path& part_path() const { return part_path_; }

 private:
  void create();
  bool lock_and_keep();
  void link_into_place();

  Destination destination_;
  std::filesystem::path part_path_;
  std::string uuid_;
  bool published_ = false, kept_ = false;
  Descriptor file_;
};

}  // namespace shardstream::io
