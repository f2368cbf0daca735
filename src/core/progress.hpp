// How far a long step has come: a bar on a terminal, one line a minute elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace shardstream {

/// Silent for the first two seconds (a minute without a terminal) and when it is not `enabled`.
/// One thread at a time. The destructor clears the bar.
class Progress {
 public:
  Progress(std::string what, bool enabled, std::FILE* out = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` in any unit.
  void update(double done, double total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool enabled_, terminal_, shown_ = false;
  std::FILE* out_;
  Clock::time_point start_ = Clock::now(), next_;
};

}  // namespace shardstream
