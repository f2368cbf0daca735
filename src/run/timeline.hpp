// The timeline of a finished run as a table and as a trace.
#pragma once

#include <string>
#include <vector>

#include "core/table.hpp"
#include "measure/timeline.hpp"
#include "report/trace.hpp"

namespace shardstream::run {

/// Table `spans`. `rank_phase` is /timing/rank_phase, which names what the spans belong to.
Table spans_table(const measure::Timeline& timeline, const Table& rank_phase);

/// Writes all but publish(). `processes` says of each rank what it is.
void write_trace(report::TraceFile& trace, const measure::Timeline& timeline,
                 const Table& rank_phase, const std::vector<std::string>& processes);

}  // namespace shardstream::run
