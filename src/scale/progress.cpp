#include "scale/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/error.hpp"
#include "scale/study_options.hpp"
#include "study_folder/attempts.hpp"

namespace shardstream::scale {

Progress::Progress(const Order& order)
    : order_(order),
      folder_(order.folder),
      plan_(plan_of(order)),
      results_(*plan_, order.options.flag("measure.timeline")),
      forecast_(plan_->largest().predicted.sampling, plan_->largest().predicted.is_minimum,
                plan_->calls_of_calibration()) {}

std::vector<PlannedLaunch> Progress::wanted() const {
  std::vector<PlannedLaunch> launches = plan_->launches();
  std::erase_if(launches, [&](const PlannedLaunch& launch) {
    return !order_.only.empty() && order_.only != name_of(launch);
  });
  return launches;
}

std::vector<PlannedLaunch> Progress::missing() const {
  std::vector<PlannedLaunch> launches = wanted();
  std::erase_if(launches, [&](const PlannedLaunch& launch) { return results_.exists(launch); });
  return launches;
}

double Progress::expected(const PlannedLaunch& launch) const {
  const double predicted = launch.size->predicted.seconds;
  return launch.measures() ? forecast_.launch(launch.size->ranks, predicted)
                           : forecast_.single(launch.size->ranks, predicted);
}

void Progress::take_conditions() {
  const report::RunFile run = calibration();
  plan_->take_conditions(run);
  forecast_.calibrate(run.size.ranks, run.step("store"), plan_->repetition_of(run),
                      plan_->largest().predicted.seconds);
  std::map<std::string, double> seconds;  // of the last attempt that has succeeded, by name
  for (const study_folder::LaunchAttempt& each : study_folder::read_attempts(folder_.path())) {
    if (each.problem.empty()) seconds[each.name()] = each.utc_end - each.utc_start;
  }
  for (const PlannedLaunch& launch : plan_->launches()) {
    const auto found = seconds.find(name_of(launch));
    if (found != seconds.end() && results_.exists(launch)) add(launch, found->second);
  }
}

void Progress::add(const PlannedLaunch& launch, double seconds) {
  if (!launch.measures()) return;
  forecast_.add(launch.size->ranks, seconds,
                report::read_run_file(plan_->result_of(launch)).timing.median,
                launch.size->predicted.seconds);
}

void Progress::expect_same_study() {
  const OptionList now = chosen(order_.options);
  const auto then = folder_.options();
  if (then.contains("study.name")) plan_->rename(then.at("study.name"));
  const std::string difference = first_difference(then, now);
  if (difference.empty() || extends(then, now)) return;
  const bool is_of_size =
      difference.starts_with("scale.ranks ") || difference.starts_with("scale.replicates ");
  throw UsageError(fmt::format(
      "'{}' contains another study ({}): name another folder with -o, or give the options of that "
      "study; if study.ini was edited, restore it{}",
      folder_.path().string(), difference,
      is_of_size
          ? "; a study can get more replicates and more sizes, but none less, and its largest "
            "size (in a weak study also the smallest) cannot change, since the conditions "
            "of all launches depend on it"
          : ""));
}

}  // namespace shardstream::scale
