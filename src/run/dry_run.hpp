// `run WORKLOAD --dry-run`: what a run would do and about how long it would take, told on a login
// node, without MPI and without GPUs.
#pragma once

#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "measure/machine.hpp"

namespace shardstream::run {

/// Opens the inputs as a run would, and returns its plan in lines, for rank 0. Rates and memory
/// that nobody has measured are assumed, which the lines say. Throws the errors that a run would
/// end with before it computes, except those that only writing shows, and UsageError if
/// `request.rates` is no result. Warns if the rates tell only in part of this run, and of ranks
/// without work.
std::string dry_run(const Options& options, const measure::Request& request, Log& log);

}  // namespace shardstream::run
