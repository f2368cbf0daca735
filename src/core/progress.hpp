// How far a long step has come: a bar on a terminal, elsewhere lines at growing intervals.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

namespace shardstream {

/// The bar shows after 2 s. Without a terminal there is a line after 5 s; each interval to the next
/// line is twice the one before, up to 10 minutes. Silent if it is not `enabled`. Thread-safe. The
/// destructor clears the bar.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `total` in any unit.
  Progress(std::string what, double total, bool enabled, std::FILE* out = stderr,
           Clock::time_point start = Clock::now());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `part` more of the total is done.
  void add(double part, Clock::time_point now = Clock::now());

 private:
  std::mutex mutex_;  // guards everything below
  std::string what_;
  double total_, done_ = 0;
  bool enabled_, terminal_, shown_ = false;
  std::FILE* out_;
  Clock::time_point start_, next_;
  Clock::duration interval_;  ///< between the next two lines
};

}  // namespace shardstream
