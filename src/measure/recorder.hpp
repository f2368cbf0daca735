// Where a run's time goes: one rank's tracks.
#pragma once

#include <deque>
#include <memory>
#include <string_view>

#include "device/device.hpp"
#include "launch/heartbeat.hpp"
#include "measure/device_clock.hpp"
#include "measure/track.hpp"

namespace shardstream::measure {

/// For the thread that made it, but that other threads write to tracks of their own. To be
/// destroyed before the device.
class Recorder {
 public:
  /// Sums phases; also keeps every span if told so. Phases of the main thread are told to
  /// `heartbeat`, if there is one, as they begin.
  explicit Recorder(bool keeps_spans = false, launch::Heartbeat* heartbeat = nullptr);

  /// A phase of the main thread, until the span goes.
  [[nodiscard]] HostTrack::Span phase(std::string_view name, Kind kind, std::uint64_t bytes = 0) {
    if (heartbeat_ != nullptr) heartbeat_->enter(name);
    return main().phase(name, kind, bytes);
  }
  HostTrack& main() { return host_tracks_.front(); }

  /// The track of that name, made at the first call; it stays where it is. Threads get theirs
  /// before they start.
  HostTrack& host_track(std::string_view name);
  /// All of one device.
  DeviceTrack& device_track(std::string_view name, device::Device& device);

  /// Folds all spans of the device that have ended, waiting for them, and relates the device's
  /// clock to the host's anew if spans are kept. For between repetitions.
  void settle();

  /// Between repetitions, after settle(): whether the work that now begins is a timed repetition.
  void begin_work(bool timed);

  bool keeps_spans() const { return keeps_spans_; }
  const std::deque<HostTrack>& host_tracks() const { return host_tracks_; }  ///< main comes first
  const std::deque<DeviceTrack>& device_tracks() const { return device_tracks_; }
  /// How far from the host's clock the device's spans may be put, in nanoseconds.
  std::int64_t device_clock_error() const { return clock_ ? clock_->error() : 0; }

 private:
  bool keeps_spans_;
  launch::Heartbeat* heartbeat_;
  TimedSince timed_since_ = 0;
  std::unique_ptr<DeviceClock> clock_;
  std::deque<HostTrack> host_tracks_;
  std::deque<DeviceTrack> device_tracks_;
};

}  // namespace shardstream::measure
