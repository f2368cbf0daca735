// The dry run, which predicts plan and time without MPI and without GPUs, for example on a login
// node.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "core/metric.hpp"
#include "core/options.hpp"
#include "measure/machine.hpp"
#include "workloads/workload.hpp"

namespace shardstream::execution {

/// The plan of a run.
struct DryRun {
  std::string workload;
  std::uint64_t ranks, ranks_on_host;
  workloads::Prediction prediction;
  double speedup;  ///< over the prediction for one rank; NaN if one rank cannot do the work
  std::vector<measure::Machine::UsedRate> rates;
  std::vector<std::string> lines;  ///< of the form "name: words"
};

/// Opens the inputs as a run would, and plans it. Unmeasured rates and memory are assumed and
/// marked in the lines. Throws the errors that would end a run before it computes, except errors of
/// writing, and UsageError if measure.rates is not a result. Logs warnings if the result does not
/// have all rates of this run, or if ranks have no work.
DryRun dry_run(const Options& options, const measure::PlannedRanks& planned, Log& log);

/// One plan in full, or a table of several for the same options. `printing` is text or json.
std::string to_output(std::span<const DryRun> runs, Printing printing);

}  // namespace shardstream::execution
