// A run from its options to its published file.
#pragma once

#include <filesystem>
#include <string>

#include "core/log.hpp"
#include "core/metric.hpp"
#include "core/options.hpp"
#include "ranks/session.hpp"

namespace shardstream::execution {

/// The command that started a run.
struct Invocation {
  std::string command_line;   ///< quoted for a shell; becomes the attribute argv
  std::filesystem::path ini;  ///< the configuration file, which a result never replaces; or empty
  Printing printing = Printing::text;  ///< of the metrics
};

/// Runs the workload of run.workload, writes its result file and prints its metrics on rank 0.
/// Throws AgreedError, Unverified if the result has failed its verification, and Error. Collective.
void run_workload(const ranks::Session& session, const Options& options, Log& log,
                  const Invocation& invocation);

}  // namespace shardstream::execution
