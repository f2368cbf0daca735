// A scaling study: launches `run` at each number of ranks as a user would, and collects the result
// files in one folder. It starts no MPI and opens no device. The folder holds
//
//   study.ini       the options of the study
//   calibration.h5  one run at the largest size: it proves the launch and gives the rates, sizes
//                   and CPUs of a rank that all other runs get as options
//   pN-rR.h5        the result of launch R on N ranks
//   pN-timeline.h5  one repetition on N ranks with all spans, for figures only
//   logs/           what each launch has printed
//   attempts.jsonl  every launch: when, how long, how it ended
//
// Starting the same study again launches what is missing.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options.hpp"

namespace shardstream::scale {

/// A study as the user asks for it.
struct Order {
  const Options& options;  ///< of [scale] and of the runs
  const OptionTable& run_table;
  const char* const* environment;
  std::filesystem::path folder;
  std::string only =
      {};  ///< one launch, such as "p4-r2", "p4-timeline" or "calibration"; empty: all
};

/// The folder that output.file names, without which it is WORKLOAD-MODE in the current folder.
std::filesystem::path folder_of(const Options& options);

/// The commands of all launches with their predicted times, and the total, as text. Launches and
/// writes nothing. Throws UsageError as run_study() does.
std::string list_study(const Order& order);

/// Launches what the folder does not have. Returns done if all points are there, failed if some
/// have failed twice, checkpointed if a signal has ended it. Throws UsageError if the study cannot
/// work as ordered, which shows before the first launch or in the calibration run, or if the study
/// has no launch `only`.
ExitCode run_study(const Order& order, Log& log);

}  // namespace shardstream::scale
