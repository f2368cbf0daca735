// The timeline of a run as a table of its result file and as a trace.
#pragma once

#include <string>
#include <vector>

#include "core/table.hpp"
#include "measure/track.hpp"
#include "report/trace.hpp"

namespace shardstream::execution {

/// The table `spans`. `rank_phase` is /timing/rank_phase, which has the phases of the spans.
Table spans_table(const measure::Timeline& timeline, const Table& rank_phase);

/// Writes the whole trace, but does not publish it. `processes` describes each rank; `study` is
/// that of the run, or empty.
void write_trace(report::TraceFile& trace, const measure::Timeline& timeline,
                 const Table& rank_phase, const std::vector<std::string>& processes,
                 const std::string& study);

}  // namespace shardstream::execution
