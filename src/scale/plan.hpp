// The plan of a study: its sizes, its launches in their order, and the command of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/sample.hpp"
#include "report/run_file.hpp"
#include "scale/launcher.hpp"
#include "scale/options.hpp"
#include "scale/study_options.hpp"
#include "workloads/registry.hpp"

namespace shardstream::scale {

/// The dry run of a point.
struct Predicted {
  double seconds = 0;                ///< of a repetition
  measure::Sampling sampling;        ///< of a launch that measures
  std::vector<std::string> machine;  ///< the backend and the rates that the prediction uses
};

/// One number of ranks.
struct Point {
  std::string name;  ///< "p4"
  std::uint64_t ranks;
  workloads::Scaled scaled;  ///< what differs from the smallest point, for weak scaling
  Predicted predicted = {};
};

enum class Purpose {
  calibration,  ///< proves the launch and gives the conditions of all others
  measurement,  ///< a replicate, which enters the curves
  timeline      ///< keeps the spans of one repetition for figures
};

/// One launch to do. `point` belongs to the plan.
struct Launch {
  const Point* point;
  Purpose purpose = Purpose::measurement;
  std::uint64_t replicate = 0;  ///< from 1; 0 if it does not measure

  bool measures() const { return purpose == Purpose::measurement; }
};

/// The launch's name, which is its result's without ".h5": "p4-r2", "p4-timeline", "calibration".
std::string name_of(const Launch& launch);
/// The value of study.point: "p4", or what the launch is for.
std::string label_of(const Launch& launch);

/// Keeps references to the options and the table.
class Plan {
 public:
  /// Throws UsageError if the options of the study or of its runs cannot work.
  Plan(const Options& options, const OptionTable& run_table, std::filesystem::path folder);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Request& request() const { return request_; }
  const Launcher& launcher() const { return launcher_; }
  const Point& largest() const { return points_.back(); }
  /// The name of the study: that of its folder and a checksum of its options.
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  Launch calibration() const { return {&largest(), Purpose::calibration}; }
  /// All launches but the calibration: replicate by replicate, the sizes of each in a random order,
  /// then a timeline of each size. There are no timelines if every launch keeps its spans anyway.
  std::vector<Launch> launches() const;
  std::filesystem::path result_of(const Launch& launch) const;
  /// The command that makes the launch, with its launcher.
  std::vector<std::string> command(const Launch& launch) const;

  /// Gives all ranks the conditions that the calibration run had, and predicts again with its
  /// rates. Throws UsageError if its file lacks them.
  void take_conditions(const report::RunFile& calibration);

 private:
  std::vector<Point> points() const;
  Values conditions_of(const report::RunFile& calibration) const;
  Predicted predict(const Point& point) const;
  std::uint64_t first_gpu(const Launch& launch) const;
  Values run_options(const Launch& launch) const;

  const Options& options_;
  const OptionTable& run_table_;
  std::filesystem::path folder_;
  Request request_;
  const workloads::Workload& workload_;
  Launcher launcher_;
  std::string program_, name_;
  std::vector<Point> points_;
  Values conditions_;  // options that give ranks the same at every size
};

}  // namespace shardstream::scale
