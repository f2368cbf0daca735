// The timeline of a run as a table of its result file and as a trace.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5/result_file.hpp"
#include "measure/track.hpp"
#include "report/trace.hpp"
#include "result/tables.hpp"

namespace shardstream::execution {

/// Writes the table /timeline/spans. `rank_phase` has the phases of the spans.
void write_spans(io::ResultFile& file, const measure::Timeline& timeline,
                 const std::vector<result::RankPhase>& rank_phase);

/// Writes the whole trace, but does not publish it. `processes` describes each rank; `study` is
/// that of the run, or empty.
void write_trace(report::TraceFile& trace, const measure::Timeline& timeline,
                 const std::vector<result::RankPhase>& rank_phase,
                 const std::vector<std::string>& processes, const std::string& study);

}  // namespace shardstream::execution
