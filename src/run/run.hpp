// A run from its options to its published file; and `--dry-run`: what it would do and about how
// long that would take, told on a login node, without MPI and without GPUs.
#pragma once

#include <filesystem>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "launch/session.hpp"
#include "measure/machine.hpp"

namespace shardstream::run {

/// How the user has asked for a run.
struct Invocation {
  std::string command_line;   ///< as a shell would read it; becomes the attribute argv
  std::filesystem::path ini;  ///< the configuration file, which no result replaces; empty: none
};

/// Runs the workload of run.workload, writes its result file and prints its metrics on rank 0.
/// Throws AgreedError, Unverified if the result has failed its verification, and Error. Collective.
void run_workload(const launch::Session& session, const Options& options, Log& log,
                  const Invocation& invocation);

/// Opens the inputs as a run would, and returns its plan in lines, for rank 0. Rates and memory
/// that nobody has measured are assumed, which the lines say. Throws the errors that a run would
/// end with before it computes, except those that only writing shows, and UsageError if
/// `request.rates` is no result. Warns if the rates tell only in part of this run, and of ranks
/// without work.
std::string dry_run(const Options& options, const measure::Request& request, Log& log);

}  // namespace shardstream::run
