// What must not be left behind when a signal, or the watchdog, ends the process.
#pragma once

#include <filesystem>
#include <memory>

#include "core/error.hpp"

namespace shardstream::launch {

/// While it lives, SIGTERM, SIGINT and SIGHUP remove both paths, which need not be there yet,
/// before they end the process as usual: launchers end the other ranks of a failed job so. All
/// ranks hold one for the same paths: the rank that made the files may be the one that was killed.
/// Each then ends a moment later, since Open MPI's launcher kills all that are left as soon as the
/// first has ended. Signals that are ignored stay so. They nest: the innermost paths count, and an
/// empty one removes nothing. For one thread.
class RemoveOnSignal {
 public:
  explicit RemoveOnSignal(const std::filesystem::path& path,
                          const std::filesystem::path& another = {});
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

/// From now on a signal that RemoveOnSignal handles makes the eventfd(2) `descriptor` readable; -1:
/// none.
void tell_of_signals(int descriptor);

/// True once such a signal has come: the process ends in a moment.
bool signal_has_come();

/// Removes what the innermost RemoveOnSignal would and ends the process without any clean-up: no
/// destructor runs, nothing is flushed. For any thread.
[[noreturn]] void end_at_once(ExitCode code);

}  // namespace shardstream::launch
