// The plan of a study of a workload: each launch is a run of this program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/machine.hpp"
#include "scale/study_plan.hpp"
#include "workloads/registry.hpp"

namespace shardstream::scale {

class WorkloadPlan final : public StudyPlan {
 public:
  /// Predicts with the rates of the result `order.rates`, if it is not empty, until
  /// take_conditions(). Throws UsageError like plan_of().
  explicit WorkloadPlan(const Order& order);

  std::vector<std::string> listed_command(const PlannedLaunch& launch) const override;
  std::vector<std::string> command(const PlannedLaunch& launch,
                                   const std::filesystem::path& /*log*/) const override {
    return listed_command(launch);
  }
  std::vector<io::InputFile> inputs() const override;
  StoredOptions options_of_result(const PlannedLaunch& launch) const override;
  double repetition_of(const report::RunFile& calibration) const override {
    return calibration.timing.median;
  }
  /// The calibration run has a warm-up and one repetition.
  std::uint64_t calls_of_calibration() const override { return 2; }
  std::vector<std::string> notes_before_calibration() const override;
  void take_conditions(const report::RunFile& calibration) override;

 private:
  OptionList conditions_of(const report::RunFile& calibration) const;
  measure::PlannedRanks hosts_of(std::uint64_t ranks) const;
  Predicted predict(const PlannedSize& size) const;
  std::uint64_t first_gpu(const PlannedLaunch& launch) const;
  OptionList run_options(const PlannedLaunch& launch) const;
  /// All options of the run that the launch starts.
  Options options_of(const PlannedLaunch& launch) const;

  const OptionTable& run_table_;
  std::string rates_;  // a file, for predictions alone; empty: measure.rates, or assumed rates
  const workloads::Workload& workload_;
  std::uint64_t calibrated_per_host_ = 0;  // ranks; 0: there is no calibration run yet
  OptionList conditions_;                  // options that give a rank equal resources at every size
};

}  // namespace shardstream::scale
