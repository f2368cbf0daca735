// The spans of all ranks on one clock.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/session.hpp"
#include "measure/clock.hpp"
#include "measure/recorder.hpp"

namespace shardstream::measure {

/// One rank's tracks, the host's before the device's: the order in which phases are counted
/// through.
std::vector<const Track*> tracks_of(const Recorder& recorder);

struct Timeline {
  struct Span {
    std::uint32_t rank;
    std::uint32_t phase;            ///< the rank's n-th, counted through its tracks
    std::int64_t batch;             ///< no_batch if it is of none
    std::int64_t start_ns, dur_ns;  ///< on rank 0's clock, from the first span of the run on
  };
  std::vector<Span> spans;     ///< of all ranks, on rank 0; on others none
  double alignment_error = 0;  ///< seconds that any span may be off at the most; on every rank
};

/// `start` is what compare_clocks() said when the run began; it is asked again. No span may be
/// open. Collective.
Timeline gather_timeline(const launch::Session& session, const Recorder& recorder,
                         const ClockOffset& start);

}  // namespace shardstream::measure
