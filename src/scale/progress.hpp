// The state of a study: its plan, its results so far, and the predicted times of the rest.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "report/run_file.hpp"
#include "scale/forecast.hpp"
#include "scale/results.hpp"
#include "scale/study.hpp"
#include "scale/study_plan.hpp"
#include "study_folder/folder.hpp"

namespace shardstream::scale {

/// Reads files of the folder, but writes none. The order must outlive it.
class Progress {
 public:
  /// Throws UsageError if options of the study or of its runs are not possible.
  explicit Progress(const Order& order);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  const Order& order() const { return order_; }
  const study_folder::StudyFolder& folder() const { return folder_; }
  const StudyPlan& plan() const { return *plan_; }
  const Results& results() const { return results_; }
  Forecast& forecast() { return forecast_; }
  const Forecast& forecast() const { return forecast_; }

  /// The launches that are requested, without the calibration run.
  std::vector<PlannedLaunch> wanted() const;
  /// The requested launches without a result that counts.
  std::vector<PlannedLaunch> missing() const;

  bool is_calibrated() const { return results_.exists(plan_->calibration()); }
  /// The calibration run, which must exist.
  report::RunFile calibration() const {
    return report::read_run_file(plan_->result_of(plan_->calibration()));
  }
  /// Gives all launches and predictions the conditions of the calibration run, which must exist.
  /// Launches that have finished before correct the predictions. Throws UsageError if the attempts
  /// in the folder cannot be read.
  void take_conditions();
  /// Corrects the predictions by a launch that has a result and took `seconds`.
  void add(const PlannedLaunch& launch, double seconds);
  /// Takes over the name of the study in the folder. Throws UsageError with the first difference if
  /// its options differ from those of the order, unless the order extends it.
  void expect_same_study();

  /// The predicted total time of a launch in seconds.
  double expected(const PlannedLaunch& launch) const;

 private:
  const Order& order_;
  study_folder::StudyFolder folder_;
  std::unique_ptr<StudyPlan> plan_;
  Results results_;
  Forecast forecast_;
};

}  // namespace shardstream::scale
