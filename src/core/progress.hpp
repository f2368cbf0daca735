// How far a long step has come: a bar on a terminal, elsewhere lines at growing intervals.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace shardstream {

/// The bar shows after 2 s. Without a terminal there is a line after 5 s; each interval to the next
/// line is twice the one before, up to 10 minutes. Silent if it is not `enabled`. One thread at a
/// time. The destructor clears the bar.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress(std::string what, bool enabled, std::FILE* out = stderr,
           Clock::time_point start = Clock::now());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` in any unit.
  void update(double done, double total, Clock::time_point now = Clock::now());

 private:
  std::string what_;
  bool enabled_, terminal_, shown_ = false;
  std::FILE* out_;
  Clock::time_point start_, next_;
  Clock::duration interval_;  ///< between the next two lines
};

}  // namespace shardstream
