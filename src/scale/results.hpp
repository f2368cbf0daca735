// The results of the launches of a study: which ones exist and count, and which files `scale` may
// remove.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "io/description/origin.hpp"
#include "scale/launch/launch.hpp"
#include "scale/study_plan.hpp"

namespace shardstream::scale {

/// The labels of a launch in its result file.
struct LaunchLabels {
  std::string study, point;
  std::uint64_t replicate = 0;
};

/// The reason why `result` must not be removed: nothing proves that it is a result of this launch,
/// complete or not. Empty if it is one, or if there is no such file.
std::string why_not_own_result(const std::filesystem::path& result, const LaunchLabels& labels);

/// The plan must outlive it.
class Results {
 public:
  /// `records_spans`: whether every launch that measures also writes a trace.
  Results(const StudyPlan& plan, bool records_spans) : plan_(plan), records_spans_(records_spans) {}

  /// Whether the launch has a result that counts.
  bool exists(const PlannedLaunch& launch) const;
  /// The reason why the launch does not count after it has `ended`, or "". The cause of a failure
  /// is quoted from its log.
  std::string problem_of(const PlannedLaunch& launch, const LaunchEnd& ended,
                         const std::filesystem::path& log) const;

  /// The first difference between the input files of a result, which must exist, and `files`; empty
  /// if there is none. `when` is the time at which `files` had this state, such as "now".
  std::string change_of_inputs(const PlannedLaunch& launch, std::span<const io::InputFile> files,
                               std::string_view when) const;

  /// The first difference between the options of a result, which must exist, and those of the
  /// launch, among options that can change the result; empty if there is none.
  std::string change_of_options(const PlannedLaunch& launch) const;

  /// A sentence with the reason why the files with the names of the launch's results must not be
  /// removed: nothing proves that they are of this launch. Empty if `scale` may remove them.
  std::string why_not_removable(const PlannedLaunch& launch) const;
  /// Removes the files of an earlier attempt. Throws Error if they may not be removed.
  void remove(const PlannedLaunch& launch) const;

 private:
  std::string problem_of_result(const PlannedLaunch& launch) const;

  const StudyPlan& plan_;
  bool records_spans_;
};

}  // namespace shardstream::scale
