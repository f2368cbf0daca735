// Runs experiments on all ranks, prints their tables and writes them to a file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/metric.hpp"
#include "core/options.hpp"
#include "experiments/axes.hpp"
#include "experiments/experiment.hpp"
#include "ranks/session.hpp"

namespace shardstream::experiments {

/// The options of [measure] and [output] with the defaults of `bench`: each case is repeated until
/// its median is precise, for at most one second; no file is written unless one is named.
std::span<const OptionRow> bench_options();

/// The experiments to run, and how.
struct BenchRequest {
  std::span<const Experiment* const> experiments;
  bool quick = false;  ///< fewer and smaller cases, measured for a shorter time
  std::string command_line;
  Printing printing = Printing::text;
  /// Numbers that a learner predicts for the exercise, if there is one experiment. Empty without
  /// --predict.
  std::vector<double> predictions = {};
  std::string axes = {};  ///< checked values of --axis, for axis_choices(); empty without --axis
};

/// Runs the experiments in turn, each on all ranks. After each experiment, prints its table (as
/// text) and replaces the file by one with all finished experiments, so that an interruption loses
/// at most the current one. JSON is printed at the end. A failed experiment does not affect the
/// others, unless the CUDA context is lost: then the rest is not run. Returns unverified if an
/// answer was wrong, else failed if an experiment failed or was not run, else usage if an option
/// was rejected, else done. Collective.
ExitCode run_experiments(const ranks::Session& session, const Options& options, Log& log,
                         const BenchRequest& request);

}  // namespace shardstream::experiments
