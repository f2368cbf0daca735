// A run from its options to its published file.
#pragma once

#include <filesystem>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "launch/session.hpp"

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

}  // namespace shardstream::run
