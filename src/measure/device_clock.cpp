#include "measure/device_clock.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "measure/clock.hpp"

namespace shardstream::measure {

DeviceClock::DeviceClock(device::Device& device) : stream_(device.make_stream()) {
  for (Anchor* anchor : {&anchor_, &best_, &next_}) anchor->event = device.make_timed_event();
  renew();
}

void DeviceClock::renew() {
  constexpr int looks = 16;  // the first are slow, and any may be interrupted
  look(best_);
  for (int i = 1; i < looks; ++i) {
    look(next_);
    if (next_.error_ns < best_.error_ns) std::swap(next_, best_);
  }
  error_ = std::max(error_, best_.error_ns);
  if (anchored_) error_ = std::max(error_, std::abs(on_host(*best_.event) - best_.host_ns));
  std::swap(anchor_, best_);
  anchored_ = true;
}

std::int64_t DeviceClock::on_host(const device::Event& event) const {
  return anchor_.host_ns + std::llround(event.seconds_since(*anchor_.event) * 1e9);
}

void DeviceClock::look(Anchor& anchor) {
  const std::int64_t before = steady_ns();
  stream_->record(*anchor.event);
  while (!anchor.event->reached()) std::this_thread::yield();  // a thread that sleeps wakes up late
  const std::int64_t after = steady_ns();
  anchor.host_ns = before + (after - before) / 2;
  anchor.error_ns = (after - before + 1) / 2;
}

}  // namespace shardstream::measure
