// What a result says about its streamed source, and about the sizes that were chosen.
#pragma once

#include "io/source/source.hpp"
#include "measure/source_ceilings.hpp"
#include "pipeline/stream_limits.hpp"
#include "ranks/session.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::stream {

/// Adds the state of the page cache when the run began.
void describe(const measure::PageCache& cache, Outcome& outcome);

/// Adds the attributes of the input and the resolved options. Collective.
void describe(const ranks::Session& session, const io::Source& source, const pipeline::Sizes& sizes,
              Outcome& outcome);

}  // namespace shardstream::workloads::stream
