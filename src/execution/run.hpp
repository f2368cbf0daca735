// A run from its options to its published file, and the dry run, which predicts plan and time
// without MPI and without GPUs, for example on a login node.
#pragma once

#include <filesystem>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "measure/machine.hpp"
#include "ranks/session.hpp"

namespace shardstream::execution {

/// The command that started a run.
struct Invocation {
  std::string command_line;   ///< quoted for a shell; becomes the attribute argv
  std::filesystem::path ini;  ///< the configuration file, which a result never replaces; or empty
};

/// Runs the workload of run.workload, writes its result file and prints its metrics on rank 0.
/// Throws AgreedError, Unverified if the result has failed its verification, and Error. Collective.
void run_workload(const ranks::Session& session, const Options& options, Log& log,
                  const Invocation& invocation);

/// Opens the inputs as a run would, and returns the lines of its plan. Unmeasured rates and memory
/// are assumed and marked in the lines. Throws the errors that would end a run before it computes,
/// except errors of writing, and UsageError if measure.rates is not a result. Logs warnings if the
/// result does not have all rates of this run, or if ranks have no work.
std::string dry_run(const Options& options, const measure::PlannedRanks& planned, Log& log);

}  // namespace shardstream::execution
