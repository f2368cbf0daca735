// The lock of a study's folder: one `scale` at a time makes the launches there, or several make one
// launch each (--only). The system releases the lock when the process ends, however it ends.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/descriptor.hpp"
#include "core/log.hpp"

namespace shardstream::study_folder {

/// Locks bytes of .scale.lock (byte_lock.hpp). The commands that this process starts do not inherit
/// the locks (O_CLOEXEC). The file stays in the folder, since two processes could hold the lock if
/// one removed it.
class FolderLock {
 public:
  /// Locks the whole folder for `launch` 0, else only this launch, whose number the caller chooses.
  /// Throws UsageError with host, process and start of the holder if another process has a lock
  /// that excludes this one. On a file system without locks, warns and does not lock.
  FolderLock(const std::filesystem::path& folder, std::uint64_t launch, Log& log);

 private:
  bool open_file();
  void sign(std::uint64_t launch);
  std::string holder() const;
  [[noreturn]] void fail_as_held() const;

  std::filesystem::path folder_, path_;
  Descriptor file_;
};

}  // namespace shardstream::study_folder
