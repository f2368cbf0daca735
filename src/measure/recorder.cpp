#include "measure/recorder.hpp"

#include <algorithm>

namespace shardstream::measure {

Recorder::Recorder(bool keeps_spans, launch::Heartbeat* heartbeat)
    : keeps_spans_(keeps_spans), heartbeat_(heartbeat) {
  host_tracks_.emplace_back("main", keeps_spans, timed_since_);
}

HostTrack& Recorder::host_track(std::string_view name) {
  const auto found = std::ranges::find(host_tracks_, name, &HostTrack::name);
  if (found != host_tracks_.end()) return *found;
  return host_tracks_.emplace_back(std::string(name), keeps_spans_, timed_since_);
}

DeviceTrack& Recorder::device_track(std::string_view name, device::Device& device) {
  const auto found = std::ranges::find(device_tracks_, name, &DeviceTrack::name);
  if (found != device_tracks_.end()) return *found;
  if (keeps_spans_ && !clock_) clock_ = std::make_unique<DeviceClock>(device);
  return device_tracks_.emplace_back(std::string(name), device, clock_.get(), timed_since_);
}

void Recorder::settle() {
  for (auto& track : device_tracks_) track.fold_all();
  if (clock_) clock_->renew();
}

void Recorder::begin_work(bool timed) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  timed_since_.store(timed ? now : 0, std::memory_order_relaxed);
}

}  // namespace shardstream::measure
