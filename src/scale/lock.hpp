// The lock of a study's folder: one `scale` at a time makes the launches there, or several make one
// launch each (--only). The system releases the lock when the process ends, however it ends.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/descriptor.hpp"
#include "core/log.hpp"

namespace shardstream::scale {

/// The lock file in the folder. It stays there, since two processes could hold the lock if one
/// removed it.
inline constexpr const char* lock_name = ".scale.lock";

/// Locks of open file descriptions (fcntl), which also hold between the hosts of an NFS server.
/// Unlike those of a process, they do not end when another descriptor of the file is closed. The
/// commands that this process starts do not inherit them (O_CLOEXEC).
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

}  // namespace shardstream::scale
