// The plan of a study of the user's own program (scale.command). The launcher starts `shardstream
// exec` on each rank, which records the process and becomes the program; after the launch, the
// study writes its result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "scale/program/exec.hpp"
#include "scale/study_plan.hpp"

namespace shardstream::scale {

class ProgramPlan final : public StudyPlan {
 public:
  /// Throws UsageError like plan_of(), also if there is no such program.
  explicit ProgramPlan(const Order& order);

  /// The command of `scale` that makes only this launch.
  std::vector<std::string> listed_command(const PlannedLaunch& launch) const override;
  std::vector<std::string> command(const PlannedLaunch& launch,
                                   const std::filesystem::path& log) const override;
  /// LOG.out beside the log.
  std::filesystem::path output_of(const std::filesystem::path& log) const override;
  void prepare(const PlannedLaunch& launch, const std::filesystem::path& log) const override;
  std::string conclude(const PlannedLaunch& launch, const LaunchEnd& ended,
                       const std::filesystem::path& log) const override;
  /// The file of the program.
  std::vector<io::InputFile> inputs() const override;
  StoredOptions options_of_result(const PlannedLaunch& launch) const override;
  double repetition_of(const report::RunFile& calibration) const override;
  std::uint64_t calls_of_calibration() const override { return 1; }
  std::vector<std::string> notes_before_calibration() const override;
  void take_conditions(const report::RunFile& calibration) override;

 private:
  program::Execution execution_of(const PlannedLaunch& launch,
                                  const std::filesystem::path& records) const;
  std::uint64_t processes_of(const PlannedLaunch& launch) const;
  std::string problem_of(const PlannedLaunch& launch, const LaunchEnd& ended,
                         const std::filesystem::path& log) const;
  void predict(double wall, std::uint64_t per_host);

  std::filesystem::path path_;  ///< of the program
};

}  // namespace shardstream::scale
