#include "execution/timeline_output.hpp"

#include <cstdint>
#include <ranges>

#include "result/columns.hpp"

namespace shardstream::execution {
namespace {

/// The track and phase of each span, from the rows of rank_phase, which are ordered by rank and
/// track.
class TrackPhases {
 public:
  struct TrackPhase {
    int rank;
    std::uint32_t number;  ///< of the track, in its rank
    const std::string& track;
    const std::string& phase;
  };

  explicit TrackPhases(const std::vector<result::RankPhase>& rank_phase) {
    for (const result::RankPhase& phase : rank_phase) {
      const int rank = static_cast<int>(phase.rank);
      std::uint32_t number = 0;
      if (!places_.empty() && places_.back().rank == rank) {
        number = places_.back().number + (places_.back().track == phase.track ? 0 : 1);
      }
      while (first_.size() <= static_cast<std::size_t>(rank)) first_.push_back(places_.size());
      places_.push_back({rank, number, phase.track, phase.phase});
    }
  }

  const std::vector<TrackPhase>& all() const { return places_; }
  const TrackPhase& of(const measure::Timeline::Span& span) const {
    return places_.at(first_.at(span.rank) + span.phase);
  }

 private:
  std::vector<TrackPhase> places_;
  std::vector<std::size_t> first_;  // row of each rank
};

}  // namespace

void write_spans(io::ResultFile& file, const measure::Timeline& timeline,
                 const std::vector<result::RankPhase>& rank_phase) {
  const TrackPhases places(rank_phase);
  const auto span_of = [&](const measure::Timeline::Span& span) {
    const auto& place = places.of(span);
    return result::Span{.rank = place.rank,
                        .track = place.track,
                        .phase = place.phase,
                        .batch = span.batch,
                        .start_ns = span.start_ns,
                        .dur_ns = span.dur_ns};
  };
  result::write<result::Span>(file, timeline.spans | std::views::transform(span_of));
}

void write_trace(report::TraceFile& trace, const measure::Timeline& timeline,
                 const std::vector<result::RankPhase>& rank_phase,
                 const std::vector<std::string>& processes, const std::string& study) {
  const TrackPhases places(rank_phase);
  trace.begin(timeline.alignment_error, study);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    trace.process(static_cast<int>(rank), processes[rank]);
  }
  const TrackPhases::TrackPhase* before = nullptr;
  for (const auto& place : places.all()) {
    const bool known = before && before->rank == place.rank && before->number == place.number;
    if (!known) trace.thread(place.rank, place.number, place.track);
    before = &place;
  }
  for (const auto& span : timeline.spans) {
    const auto& place = places.of(span);
    trace.span(place.rank, place.number, place.phase, span.batch, span.start_ns, span.dur_ns);
  }
  trace.end();
}

}  // namespace shardstream::execution
