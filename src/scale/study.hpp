// A scaling study. It launches `run` at each number of ranks as a user would, and collects the
// result files in one folder (study_folder/names.hpp). It starts no MPI and opens no device.
// Starting the same study again launches only the missing runs.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options.hpp"

namespace shardstream::scale {

/// The study that the user has requested. The references must outlive it.
struct Order {
  const Options& options;  ///< of [scale] and of the runs
  const OptionTable& run_table;
  const char* const* environment;
  std::filesystem::path folder;
  /// One launch, such as "p4-r2", "p4-timeline" or "calibration"; empty: all.
  std::string only = {};
  /// A result whose rates list_study() uses for predictions before the calibration run; empty: none
  std::string rates = {};
};

/// output.file, or WORKLOAD-MODE in the current folder if it is not set. Throws UsageError if there
/// is no such folder and its name has the extension of a file.
std::filesystem::path folder_of(const Options& options);

/// A launch that is still to be made. Times are predicted, in seconds.
struct ListedLaunch {
  std::string name;
  std::uint64_t ranks, nodes;
  double seconds, repetition;
  double limit;                      ///< a safe limit of `seconds`
  bool may_take_longer;              ///< than `seconds`
  double work = 1;                   ///< relative to the smallest size
  std::vector<std::string> command;  ///< with the launcher
};

/// The missing launches of a study, including the calibration run.
struct StudyList {
  std::string folder;
  bool has_folder;              ///< whether the folder exists
  bool repetitions_are_minima;  ///< repetitions may take longer than predicted
  bool is_weak, on_gpus;
  std::vector<std::string> notes;  ///< about launcher, conditions and machine
  std::vector<ListedLaunch> launches;
};

/// Launches and writes nothing. Throws UsageError like run_study().
StudyList list_study(const Order& order);

/// Commands for a shell, which make the folder and the launches; comments have the predicted times,
/// their total, node-hours and GPU-hours, and suggested time limits.
std::string to_text(const StudyList& list);
/// One JSON object: the tables `study`, `sizes` and `launches`.
std::string to_json(const StudyList& list);

/// Launches the missing runs. Returns done if all results exist, failed if launches have failed
/// twice, and checkpointed if a signal has ended the study. Throws UsageError if the study is not
/// possible (found before the first launch or in the calibration run), or if it has no launch
/// `only`.
ExitCode run_study(const Order& order, Log& log);

}  // namespace shardstream::scale
