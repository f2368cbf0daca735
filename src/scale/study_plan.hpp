// The plan of a study: its sizes, its launches in their order, and the command of each. A derived
// class knows the launches: workload_plan.hpp those of a workload of this program, and
// program_plan.hpp those of another program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/description/origin.hpp"
#include "measure/sample.hpp"
#include "report/run_file.hpp"
#include "scale/launch/launch.hpp"
#include "scale/launch/launcher.hpp"
#include "scale/scale_options.hpp"
#include "scale/study.hpp"
#include "scale/study_options.hpp"

namespace shardstream::scale {

/// The prediction for a size.
struct Predicted {
  double seconds = 0;                ///< of a repetition
  bool is_minimum = false;           ///< a repetition may take longer
  measure::Sampling sampling = {};   ///< of a launch that measures
  std::vector<std::string> machine;  ///< the backend and the rates that the prediction uses
  std::uint64_t hosts = 1;
  bool on_gpus = false;
};

/// One size of the study.
struct PlannedSize {
  std::string name;  ///< "p4"
  std::uint64_t ranks;
  double work = 1;         ///< relative to the smallest size, for weak scaling
  OptionList scaled = {};  ///< the options of a run that differ from the smallest size
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

class StudyPlan {
 public:
  virtual ~StudyPlan() = default;
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
  /// in random order, then a timeline of each size, if there are timelines.
  std::vector<PlannedLaunch> launches() const;
  std::filesystem::path result_of(const PlannedLaunch& launch) const;

  /// A command for the user that makes the launch.
  virtual std::vector<std::string> listed_command(const PlannedLaunch& launch) const = 0;
  /// The complete command of an attempt with the log `log`, with the launcher.
  virtual std::vector<std::string> command(const PlannedLaunch& launch,
                                           const std::filesystem::path& log) const = 0;
  /// The file for the standard output of an attempt; its log has standard error.
  virtual std::filesystem::path output_of(const std::filesystem::path& log) const { return log; }
  /// Prepares an attempt. Throws Error.
  virtual void prepare(const PlannedLaunch&, const std::filesystem::path& /*log*/) const {}
  /// Ends an attempt. If the launch itself does not write its result, writes it; otherwise, the
  /// result is there. Returns the reason why there can be no result, or "". Throws Error.
  virtual std::string conclude(const PlannedLaunch&, const LaunchEnd&,
                               const std::filesystem::path& /*log*/) const {
    return {};
  }

  /// The files whose contents decide the work of all launches, as they are now. Throws UsageError.
  virtual std::vector<io::InputFile> inputs() const = 0;
  /// The current values of the options that can change a result, at the size of `launch`.
  virtual StoredOptions options_of_result(const PlannedLaunch& launch) const = 0;
  /// The time of the timed repetition of the calibration run, in seconds, and the number of calls
  /// of the work in such a launch.
  virtual double repetition_of(const report::RunFile& calibration) const = 0;
  virtual std::uint64_t calls_of_calibration() const = 0;
  /// Notes for --list as long as there is no calibration run.
  virtual std::vector<std::string> notes_before_calibration() const = 0;

  /// Gives all runs the conditions of the calibration run, and predicts again with its rates.
  /// Throws UsageError if its file does not have them.
  virtual void take_conditions(const report::RunFile& calibration) = 0;

 protected:
  /// The order must outlive it. A derived class adds the predictions of the sizes. Throws
  /// UsageError if options of the study are not possible.
  explicit StudyPlan(const Order& order);

  const Options& options() const { return options_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// The path of this program.
  const std::string& program() const { return program_; }
  std::vector<PlannedSize>& sizes() { return sizes_; }
  void omit_timelines() { request_.timeline = false; }

 private:
  const Options& options_;
  std::filesystem::path folder_;
  StudyRequest request_;
  Launcher launcher_;
  std::string program_, name_;
  std::vector<PlannedSize> sizes_;
};

/// The plan of this study. The order must outlive it. Throws UsageError if options of the study or
/// of its runs are not possible.
std::unique_ptr<StudyPlan> plan_of(const Order& order);

}  // namespace shardstream::scale
