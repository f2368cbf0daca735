// `scale --list`: the missing launches with their predicted times and commands.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"
#include "scale/progress.hpp"
#include "scale/study.hpp"

namespace shardstream::scale {
namespace {

/// Seconds from the start of the launcher to its end in addition to the work, before a calibration
/// run has measured it.
constexpr double assumed_startup = 2;

/// A safe limit of the total time of a launch in seconds, before which it ends by itself.
double limit(const Progress& progress, const PlannedLaunch& launch) {
  const double excess = launch.measures() ? progress.forecast().max_excess() : 0;
  return 2 * progress.expected(launch) + excess;
}

/// "at least " if a launch may take longer than predicted; `repeats`: it measures.
const char* at_least(const Forecast& forecast, bool repeats) {
  const bool may_repeat = repeats && forecast.max_excess() > 0;
  return may_repeat || forecast.is_minimum() ? "at least " : "";
}

/// The lines of a launch for --list: its name, predicted times, and command.
std::string listed(const Progress& progress, const PlannedLaunch& launch) {
  const StudyPlan& plan = progress.plan();
  const Forecast& forecast = progress.forecast();
  const PlannedSize& size = *launch.size;
  const std::string work =
      plan.request().weak
          ? fmt::format(", {:.4g} times the work of the smallest size", size.scaled.factor)
          : "";
  return fmt::format("# {}: {}, {}{} per launch, {}{} per repetition{}\n{}\n", name_of(launch),
                     counted(size.ranks, "rank"), at_least(forecast, launch.measures()),
                     format_duration(progress.expected(launch)),
                     format_duration(forecast.repetition(size.predicted.seconds)),
                     forecast.is_minimum() ? " or more" : "", work,
                     shell_line(plan.command(launch)));
}

/// The lines of the launches for --list, their total, and suggested time limits.
std::string listed(const Progress& progress, const std::vector<PlannedLaunch>& launches) {
  std::string text;
  double total = 0, limit_of_all = 0, longest = 0;
  for (const PlannedLaunch& launch : launches) {
    text += listed(progress, launch);
    total += progress.expected(launch);
    limit_of_all += limit(progress, launch);
    longest = std::max(longest, limit(progress, launch));
  }
  const bool repeats = std::ranges::any_of(launches, &PlannedLaunch::measures);
  text += fmt::format("# total: {}, {}{}\n", counted(launches.size(), "launch"),
                      at_least(progress.forecast(), repeats), format_duration(total));
  if (launches.empty()) return text;
  return text + fmt::format(
                    "# suggested time limit: {} for one job with all launches, {} for a "
                    "job with one launch\n",
                    suggested_limit(limit_of_all), suggested_limit(longest));
}

}  // namespace

std::string list_study(const Order& order) {
  Progress progress(order);
  const StudyPlan& plan = progress.plan();
  progress.folder().check();
  if (progress.folder().has_results()) progress.expect_same_study();
  std::string text = fmt::format("# folder: {}\n", printable(progress.folder().path().string()));
  if (const std::string problem = plan.launcher().warning(plan.largest().ranks); !problem.empty()) {
    text += fmt::format("# warning: {}\n", problem);
  }
  const bool knows_conditions = progress.is_calibrated();
  if (knows_conditions) {
    progress.take_conditions();
  } else {
    progress.forecast().assume_startup(assumed_startup);
    text += fmt::format(
        "# There is no calibration run yet: times assume {} for the start and end of a launch, "
        "and\n"
        "# commands still lack the options for equal conditions, which that run sets.\n",
        format_duration(assumed_startup));
  }
  for (const std::string& line : plan.largest().predicted.machine) {
    text += fmt::format("# {}\n", printable(line));
  }
  if (!knows_conditions) {
    text +=
        "# --rates FILE is only for this list. All other options, such as --device.backend, "
        "define\n"
        "# the study: give the same ones to each of its commands.\n";
  }
  std::vector<PlannedLaunch> launches = progress.missing();
  if (!knows_conditions) launches.insert(launches.begin(), plan.calibration());
  return text + listed(progress, launches);
}

}  // namespace shardstream::scale
