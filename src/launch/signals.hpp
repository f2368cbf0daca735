// What must not be left behind when a signal ends the process.
#pragma once

#include <filesystem>

namespace shardstream::launch {

/// While it lives, SIGTERM, SIGINT and SIGHUP remove both paths, which need not be there yet,
/// before they end the process as usual: launchers end the other ranks of a failed job so. Ranks
/// that have nothing to remove hold one with empty paths, and end a moment later: Open MPI's
/// launcher kills all that are left as soon as the first has ended. Signals that are ignored stay
/// so. One at a time in a process.
class RemoveOnSignal {
 public:
  explicit RemoveOnSignal(const std::filesystem::path& path,
                          const std::filesystem::path& another = {});
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;
};

}  // namespace shardstream::launch
