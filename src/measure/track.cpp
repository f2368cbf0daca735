#include "measure/track.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "measure/nvtx.hpp"

namespace shardstream::measure {
namespace {

using Clock = std::chrono::steady_clock;

/// The number of event pairs that a device track makes beforehand. Until they are used up, no event
/// is queried. So in short runs, the host waits for a stream only where the schedule does: the test
/// dropped_waits relies on that.
constexpr std::size_t ready_events = 16;

/// The spans of one rank on rank 0's clock.
std::vector<Timeline::Span> spans_of(const Recorder& recorder, std::uint32_t rank,
                                     const ClockAlignment& clock) {
  std::vector<Timeline::Span> spans;
  std::uint32_t first_phase = 0;
  for (const Track* track : tracks_of(recorder)) {
    for (const KeptSpan& kept : track->spans()) {
      spans.push_back(
          {rank, first_phase + kept.phase, kept.batch, clock.on_rank0(kept.start_ns), kept.dur_ns});
    }
    first_phase += static_cast<std::uint32_t>(track->phases().size());
  }
  return spans;
}

}  // namespace

std::string_view word_of(PhaseKind kind) {
  constexpr std::array<std::string_view, 4> words = {"useful", "transfer", "communication",
                                                     "waiting"};
  return words.at(static_cast<std::size_t>(kind));
}

std::size_t Track::find_or_add(std::string_view phase, PhaseKind kind) {
  const auto found = std::ranges::find_if(
      phases_, [&](const Phase& known) { return known.name == phase && known.kind == kind; });
  const auto index = static_cast<std::size_t>(found - phases_.begin());
  if (found == phases_.end()) phases_.push_back({.name = std::string(phase), .kind = kind});
  return index;
}

void Track::add(std::size_t phase, double seconds, double timed, std::uint64_t bytes) {
  phases_[phase].seconds += seconds;
  phases_[phase].timed += timed;
  phases_[phase].calls += 1;
  phases_[phase].bytes += bytes;
}

HostTrack::Span::Span(HostTrack& track, std::size_t phase, std::uint64_t bytes, std::int64_t batch)
    : track_(track), phase_(phase), bytes_(bytes) {
  if (track.keeps_spans_) {  // allocated now, since the destructor must not throw
    kept_ = &track.spans_.emplace_back(KeptSpan{static_cast<std::uint32_t>(phase), batch, 0, 0});
  }
  push_range(track.phases_[phase].name.c_str());
  start_ = Clock::now();
}

HostTrack::Span::~Span() {
  using std::chrono::nanoseconds;
  const auto end = Clock::now();
  const auto duration = end - start_;
  pop_range();
  track_.phases_[phase_].last_end = end;
  const auto since = track_.timed_since_.load(std::memory_order_relaxed);
  const Clock::time_point timed_start = std::max(start_, Clock::time_point(Clock::duration(since)));
  const auto timed = since == 0 ? Clock::duration::zero() : end - timed_start;
  track_.add(phase_, std::chrono::duration<double>(duration).count(),
             std::chrono::duration<double>(timed).count(), bytes_);
  if (kept_ == nullptr) return;
  kept_->start_ns = nanoseconds(start_.time_since_epoch()).count();
  kept_->dur_ns = nanoseconds(duration).count();
}

DeviceTrack::DeviceTrack(std::string name, device::Device& device, const DeviceClock* clock,
                         const TimedSince& timed_since)
    : Track(std::move(name), clock != nullptr, timed_since), device_(device), clock_(clock) {
  for (std::size_t i = 0; i < ready_events; ++i) free_.push_back(make_events());
}

void DeviceTrack::begin(device::Stream& stream, std::string_view phase, PhaseKind kind,
                        std::uint64_t bytes, std::int64_t batch) {
  Events events = open_ ? std::move(open_->events) : take_events();
  open_ = Span{std::move(events), find_or_add(phase, kind), bytes, batch};
  stream.record(*open_->events.start);
}

void DeviceTrack::end(device::Stream& stream) {
  expect(open_.has_value(), "a span of the device ends after it has begun");
  stream.record(*open_->events.end);
  ended_.push_back(std::move(*open_));
  open_.reset();
}

void DeviceTrack::fold_all() {
  while (!ended_.empty()) {
    ended_.front().events.end->synchronize();
    fold_first();
  }
}

DeviceTrack::Events DeviceTrack::make_events() {
  return {device_.make_timed_event(), device_.make_timed_event()};
}

DeviceTrack::Events DeviceTrack::take_events() {
  if (free_.empty()) {
    while (!ended_.empty() && ended_.front().events.end->reached()) fold_first();
  }
  if (free_.empty()) return make_events();
  Events events = std::move(free_.back());
  free_.pop_back();
  return events;
}

void DeviceTrack::fold_first() {
  Span& span = ended_.front();
  const double seconds = span.events.end->seconds_since(*span.events.start);
  // Recorder::settle() has added spans of earlier work before the repetition began.
  const bool is_timed = timed_since_.load(std::memory_order_relaxed) != 0;
  add(span.phase, seconds, is_timed ? seconds : 0, span.bytes);
  if (keeps_spans_) {
    spans_.push_back({static_cast<std::uint32_t>(span.phase), span.batch,
                      clock_->on_host(*span.events.start), std::llround(seconds * 1e9)});
  }
  free_.push_back(std::move(span.events));
  ended_.pop_front();
}

Recorder::Recorder(bool keeps_spans, ranks::Heartbeat* heartbeat)
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

std::vector<const Track*> tracks_of(const Recorder& recorder) {
  std::vector<const Track*> tracks;
  for (const auto& track : recorder.host_tracks()) tracks.push_back(&track);
  for (const auto& track : recorder.device_tracks()) tracks.push_back(&track);
  return tracks;
}

Timeline gather_timeline(const ranks::Session& session, const Recorder& recorder,
                         const ClockOffset& start) {
  const ClockAlignment clock(start, compare_clocks(session));
  Timeline timeline;
  const std::int64_t error_ns = clock.error() + recorder.device_clock_error();
  timeline.alignment_error = session.max(static_cast<double>(error_ns) / 1e9);
  const auto rank = static_cast<std::uint32_t>(session.rank());
  timeline.spans = session.collect(spans_of(recorder, rank, clock));
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const auto& span : timeline.spans) first = std::min(first, span.start_ns);
  for (auto& span : timeline.spans) span.start_ns -= first;
  return timeline;
}

}  // namespace shardstream::measure
