// Where a run's time goes: named phases, each the sum of its spans.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/heartbeat.hpp"

namespace shardstream::measure {

struct Phase {
  std::string name;
  double seconds = 0;  ///< host time between the spans' begin and end
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< moved, as the callers counted them
};

/// One rank's phases, in the order in which they began. For one thread.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Each phase that begins is told to `heartbeat`, if there is one.
  explicit Recorder(launch::Heartbeat* heartbeat = nullptr) : heartbeat_(heartbeat) {}

  /// Ends its phase when it goes.
  class Span {
   public:
    Span(Recorder& recorder, std::size_t phase, std::uint64_t bytes)
        : recorder_(recorder), phase_(phase), bytes_(bytes) {}
    ~Span() { recorder_.end(phase_, start_, bytes_); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Recorder& recorder_;
    std::size_t phase_;
    std::uint64_t bytes_;
    Clock::time_point start_ = Clock::now();
  };

  [[nodiscard]] Span phase(std::string_view name, std::uint64_t bytes = 0);
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  void end(std::size_t phase, Clock::time_point start, std::uint64_t bytes);
  std::vector<Phase> phases_;
  launch::Heartbeat* heartbeat_;
};

}  // namespace shardstream::measure
