// When each step of a run's start was done: what a result costs beside the work itself.
#pragma once

#include "core/table.hpp"
#include "measure/sample.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::run {

/// A row for each step that this run had: `mpi` is ready; inputs and outputs are `open`; the phases
/// of the main track before the work (device, communicator, ceilings, allocate, load); `begin` of
/// the first timed repetition; the end of all `work`; `verify`; and `store`, which is this call.
/// `first` and `last` are the seconds from the start of a rank's process to the end of the step, of
/// the first and of the last rank to get there; `utc` is the time of the last, in seconds since
/// 1970. Rank 0's own clock gives `utc`. Collective.
Table startup_table(const runtime::Runtime& runtime, const measure::Samples& samples);

}  // namespace shardstream::run
