// Runs experiments on all ranks, prints their tables and writes them to a file.
#pragma once

#include <span>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options.hpp"
#include "experiments/experiment.hpp"
#include "launch/session.hpp"

namespace shardstream::experiments {

/// The rows of [measure] and [output] as `bench` takes them: each case is repeated until its median
/// is precise, for a second at most; there is no file unless one is named.
std::span<const OptionRow> bench_options();

struct Request {
  std::span<const Experiment* const> chosen;
  bool quick = false;  ///< fewer and smaller cases, measured for a shorter time
  std::string command_line;
};

/// Runs the chosen experiments one after the other, each on all ranks at once. After each one its
/// table is printed and the file is replaced by one with all that is finished, so that an end at
/// any time loses the current experiment at most. An experiment that fails costs no other one its
/// result, unless the CUDA context is lost: then the rest is not run. Returns unverified if an
/// answer was wrong, else failed if an experiment has failed, else usage if an option did not suit
/// the machine, else done. Collective.
ExitCode run_experiments(const launch::Session& session, const Options& options, Log& log,
                         const Request& request);

}  // namespace shardstream::experiments
