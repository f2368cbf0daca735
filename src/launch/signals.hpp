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
/// Signals that are ignored stay so. They nest: the innermost counts. For one thread, except
/// keep().
class RemoveOnSignal {
 public:
  static constexpr std::size_t max_paths = 3;

  /// At most `max_paths` paths; an empty one removes nothing.
  explicit RemoveOnSignal(const std::vector<std::filesystem::path>& paths = {});
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;

  /// From now on these signals, and end_at_once(), leave `paths` and write `words` to standard
  /// error, a line of at most 4096 bytes (empty: nothing) in which "{}" stands for " by SIGTERM",
  /// or for nothing if no signal ends the process; the signals end it with ExitCode::checkpointed.
  /// But if the first of `paths` is not there when it comes to that, because another rank has had
  /// nothing to keep, all are removed as before. Once; for any thread.
  void keep(const std::vector<std::filesystem::path>& paths, const std::string& words);

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

/// From now on a signal that RemoveOnSignal handles makes the eventfd(2) `descriptor` readable; -1:
/// none.
void tell_of_signals(int descriptor);

/// Does what such a signal does about other ranks, which then do not take this one for lost when it
/// ends; the caller ends the process. Async-signal-safe; returns when they have had time to hear.
void announce_end();

/// True once such a signal has come: the process ends in a moment.
bool signal_has_come();

/// Removes and writes what the innermost RemoveOnSignal would and ends the process without any
/// clean-up: no destructor runs, nothing is flushed. For any thread.
[[noreturn]] void end_at_once(ExitCode code);

}  // namespace shardstream::launch
