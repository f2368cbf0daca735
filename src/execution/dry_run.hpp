// The dry run, which predicts plan and time without MPI and without GPUs, for example on a login
// node.
#pragma once

#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "measure/machine.hpp"

namespace shardstream::execution {

/// Opens the inputs as a run would, and returns the lines of its plan. Unmeasured rates and memory
/// are assumed and marked in the lines. Throws the errors that would end a run before it computes,
/// except errors of writing, and UsageError if measure.rates is not a result. Logs warnings if the
/// result does not have all rates of this run, or if ranks have no work.
std::string dry_run(const Options& options, const measure::PlannedRanks& planned, Log& log);

}  // namespace shardstream::execution
