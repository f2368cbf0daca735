// Ends this process if the ranks take too long to start or to end: the watchdog cannot watch a rank
// before all ranks are connected, nor while MPI ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

namespace shardstream::watchdog {

/// While an object of this class lives, a thread waits for its end. After the time limit, it prints
/// that the ranks have not started or ended, and ends the process with exit code 1; the launcher
/// then ends the other ranks. Time during which this process did not run does not count. The first
/// rank that still runs prints. MPI is not called.
class StartGuard {
 public:
  enum class Stage { start, end };

  /// `timeout`: seconds of comm.timeout. To start or end takes seconds on a busy machine, so the
  /// limit is at least min_seconds. If no thread can be started, nothing is guarded: the watchdog
  /// needs a thread, too, and then all ranks report that together.
  StartGuard(Stage stage, double timeout);
  ~StartGuard();
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

  static constexpr double min_seconds = 15;

 private:
  void wait();
  [[noreturn]] void end_process() const;

  const Stage stage_;
  const double limit_;
  const std::optional<std::uint64_t> rank_;  // found before MPI changes the environment
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace shardstream::watchdog
