// The plan of a study: its sizes, its launches in their order, and the command of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/machine.hpp"
#include "measure/sample.hpp"
#include "report/run_file.hpp"
#include "scale/launch/launcher.hpp"
#include "scale/scale_options.hpp"
#include "scale/study_options.hpp"
#include "workloads/registry.hpp"

namespace shardstream::scale {

/// The dry run of a size.
struct Predicted {
  double seconds = 0;                ///< of a repetition
  bool is_minimum = false;           ///< a repetition may take longer
  measure::Sampling sampling;        ///< of a launch that measures
  std::vector<std::string> machine;  ///< the backend and the rates that the prediction uses
  std::uint64_t hosts = 1;
  bool on_gpus = false;
};

/// One size of the study.
struct PlannedSize {
  std::string name;  ///< "p4"
  std::uint64_t ranks;
  workloads::Scaled scaled;  ///< differences from the smallest size, for weak scaling
  Predicted predicted = {};
};

enum class Purpose {
  calibration,  ///< tests the launcher and gives the conditions of all other launches
  measurement,  ///< a replicate, part of the statistics
  timeline      ///< records the spans of one repetition for figures
};

/// One launch to do. The plan owns `size`.
struct PlannedLaunch {
  const PlannedSize* size;
  Purpose purpose = Purpose::measurement;
  std::uint64_t replicate = 0;  ///< from 1; 0 if it does not measure

  bool measures() const { return purpose == Purpose::measurement; }
};

/// The name of the launch and of its result without ".h5": "p4-r2", "p4-timeline", "calibration".
std::string name_of(const PlannedLaunch& launch);
/// The value of study.point: "p4", "timeline" or "calibration".
std::string label_of(const PlannedLaunch& launch);

/// The options and the table must outlive the plan.
class StudyPlan {
 public:
  /// Predicts with the rates of the result `rates`, if it is not empty, until take_conditions().
  /// Throws UsageError if options of the study or of its runs are not possible.
  StudyPlan(const Options& options, const OptionTable& run_table, std::filesystem::path folder,
            std::string rates);
  StudyPlan(const StudyPlan&) = delete;
  StudyPlan& operator=(const StudyPlan&) = delete;

  const StudyRequest& request() const { return request_; }
  const Launcher& launcher() const { return launcher_; }
  const PlannedSize& largest() const { return sizes_.back(); }
  /// The name of the study: the name of its folder and a checksum of its options.
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  PlannedLaunch calibration() const { return {&largest(), Purpose::calibration}; }
  /// All launches except the calibration: the replicates one after another, with the sizes of each
  /// in random order, then a timeline of each size. There are no timelines if every launch records
  /// its spans.
  std::vector<PlannedLaunch> launches() const;
  std::filesystem::path result_of(const PlannedLaunch& launch) const;
  /// All options of the run that the launch starts.
  Options options_of(const PlannedLaunch& launch) const;
  /// The complete command of the launch, with the launcher.
  std::vector<std::string> command(const PlannedLaunch& launch) const;

  /// Gives all runs the conditions of the calibration run, and predicts again with its rates.
  /// Throws UsageError if its file does not have them.
  void take_conditions(const report::RunFile& calibration);

 private:
  std::vector<PlannedSize> sizes() const;
  OptionList conditions_of(const report::RunFile& calibration) const;
  measure::PlannedRanks hosts_of(std::uint64_t ranks) const;
  Predicted predict(const PlannedSize& size) const;
  std::uint64_t first_gpu(const PlannedLaunch& launch) const;
  OptionList run_options(const PlannedLaunch& launch) const;

  const Options& options_;
  const OptionTable& run_table_;
  std::filesystem::path folder_;
  std::string rates_;  // a file, for predictions alone; empty: measure.rates, or assumed rates
  StudyRequest request_;
  const workloads::Workload& workload_;
  Launcher launcher_;
  std::string program_, name_;
  std::vector<PlannedSize> sizes_;
  std::uint64_t calibrated_per_host_ = 0;  // ranks; 0: there is no calibration run yet
  OptionList conditions_;                  // options that give a rank equal resources at every size
};

}  // namespace shardstream::scale
