// The times of the steps from the start of a run to its end: the cost of a result besides the work.
#pragma once

#include <vector>

#include "measure/sample.hpp"
#include "result/tables.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::execution {

/// The steps of this run: `mpi` is ready; inputs and outputs are `open`; the phases of the
/// main track before the work (device, communicator, ceilings, allocate, load); `begin` of the
/// first timed repetition; the end of all `work`; `verify`; and `store`, which is the time of this
/// call. `first` and `last` are the times of the fastest and the slowest rank, in seconds from the
/// start of the process to the end of the step. `utc` is the time of the slowest rank in seconds
/// since 1970, on rank 0's clock. Collective.
std::vector<result::Step> gather_steps(const runtime::Runtime& runtime,
                                       const measure::Samples& samples);

}  // namespace shardstream::execution
