// Removes unfinished files when a signal or the watchdog ends the process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardstream::ranks {

/// While an object of this class lives, SIGTERM, SIGINT and SIGHUP remove `paths` before they end
/// the process as usual. Launchers send such signals to the other ranks of a failed job. All ranks
/// hold an object for the same files, since the rank that made the files may have been killed. The
/// files need not exist yet. After removing files, each rank waits a moment, since Open MPI's
/// launcher kills all remaining ranks as soon as the first has ended. Ignored signals stay ignored.
/// Objects nest; the innermost one applies. Not thread-safe, except keep().
class RemoveOnSignal {
 public:
  static constexpr std::size_t max_paths = 3;

  /// At most `max_paths` paths; an empty path is ignored.
  explicit RemoveOnSignal(const std::vector<std::filesystem::path>& paths = {});
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;

  /// From now on, these signals and end_at_once() do not remove `paths`. They write `words` to
  /// standard error, a line of at most 4096 bytes (or nothing if it is empty), in which "{}" is
  /// replaced by " by SIGTERM", or by nothing if no signal ends the process. The signals then end
  /// the process with ExitCode::checkpointed. However, if the first of `paths` does not exist at
  /// that moment, because another rank had nothing to keep, all paths are removed as before. A
  /// later call replaces an earlier one. Call it from any thread.
  void keep(const std::vector<std::filesystem::path>& paths, const std::string& words);

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

/// From now on, a signal that RemoveOnSignal handles makes the eventfd(2) `descriptor` readable. -1
/// ends this.
void notify_of_signals(int descriptor);

/// Notifies the other ranks as such a signal does, so that they do not report this rank as lost
/// when it ends, and waits until they have had time to react. The caller then ends the process.
/// Async-signal-safe.
void announce_end();

/// True after such a signal: the process is about to end.
bool signal_has_come();

/// Removes and writes the same as a signal would and ends the process without any clean-up: no
/// destructor runs, and nothing is flushed. Thread-safe.
[[noreturn]] void end_at_once(ExitCode code);

}  // namespace shardstream::ranks
