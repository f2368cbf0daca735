// What must not be left behind when a signal, or the watchdog, ends the process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardstream::launch {

/// While it lives, SIGTERM, SIGINT and SIGHUP remove the paths, which need not be there yet, before
/// they end the process as usual: launchers end the other ranks of a failed job so. All ranks hold
/// one for the same files: the rank that made them may be the one that was killed. Each then ends a
/// moment later, since Open MPI's launcher kills all that are left as soon as the first has ended.
/// Signals that are ignored stay so. They nest: the innermost paths count. For one thread, but
/// keep().
class RemoveOnSignal {
 public:
  static constexpr std::size_t most = 3;

  /// At most `most` paths; an empty one removes nothing.
  explicit RemoveOnSignal(const std::vector<std::filesystem::path>& paths = {});
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;

  /// From now on these signals, and end_at_once(), leave `paths` of the innermost one where they
  /// are and write `words`, a line of at most 4096 bytes, to standard error (empty: nothing); the
  /// signals end the process with ExitCode::checkpointed. Once; for any thread.
  void keep(const std::vector<std::filesystem::path>& paths, const std::string& words);

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

/// From now on a signal that RemoveOnSignal handles makes the eventfd(2) `descriptor` readable; -1:
/// none.
void tell_of_signals(int descriptor);

/// True once such a signal has come: the process ends in a moment.
bool signal_has_come();

/// Removes and writes what the innermost RemoveOnSignal would and ends the process without any
/// clean-up: no destructor runs, nothing is flushed. For any thread.
[[noreturn]] void end_at_once(ExitCode code);

}  // namespace shardstream::launch
