#include "ranks/heartbeat.hpp"

#include <fmt/format.h>

namespace shardstream::ranks {

void Heartbeat::enter(std::string_view phase) {
  {
    const std::lock_guard lock(phase_mutex_);
    phase_ = phase;
    what_.store(nullptr, std::memory_order_relaxed);
  }
  move();
}

Pulse Heartbeat::pulse() const {
  Pulse pulse;
  pulse.moves = moves_.load(std::memory_order_relaxed);
  pulse.waiting = waits_.load(std::memory_order_relaxed) > 0;
  const std::lock_guard lock(phase_mutex_);
  pulse.phase = phase_;
  if (const char* what = what_.load(std::memory_order_relaxed)) {
    pulse.step = fmt::format("{} {}", what, number_.load(std::memory_order_relaxed));
  }
  return pulse;
}

Heartbeat::AtHang::AtHang(Heartbeat& heartbeat, std::function<void()> stop)
    : heartbeat_(heartbeat) {
  const std::lock_guard lock(heartbeat_.stops_mutex_);
  place_ = heartbeat_.stops_.insert(heartbeat_.stops_.end(), std::move(stop));
}

Heartbeat::AtHang::~AtHang() {
  const std::lock_guard lock(heartbeat_.stops_mutex_);
  heartbeat_.stops_.erase(place_);
}

void Heartbeat::stop_all() {
  const std::lock_guard lock(stops_mutex_);
  for (const auto& stop : stops_) stop();
}

}  // namespace shardstream::ranks
