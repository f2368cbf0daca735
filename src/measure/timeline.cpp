#include "measure/timeline.hpp"

#include <algorithm>
#include <limits>

namespace shardstream::measure {
namespace {

/// One rank's, on rank 0's clock.
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

std::vector<const Track*> tracks_of(const Recorder& recorder) {
  std::vector<const Track*> tracks;
  for (const auto& track : recorder.host_tracks()) tracks.push_back(&track);
  for (const auto& track : recorder.device_tracks()) tracks.push_back(&track);
  return tracks;
}

Timeline gather_timeline(const launch::Session& session, const Recorder& recorder,
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
