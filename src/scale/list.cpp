// `scale --list`: the missing launches with their predicted times and commands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "scale/progress.hpp"
#include "scale/study.hpp"

namespace shardstream::scale {
namespace {

/// Seconds from the start of the launcher to its end in addition to the work, before a calibration
/// run has measured it.
constexpr double assumed_startup = 2;

ListedLaunch listed(const Progress& progress, const PlannedLaunch& launch) {
  const Forecast& forecast = progress.forecast();
  const PlannedSize& size = *launch.size;
  const double seconds = progress.expected(launch);
  const double excess = launch.measures() ? forecast.max_excess() : 0;
  return {.name = name_of(launch),
          .ranks = size.ranks,
          .nodes = size.predicted.hosts,
          .seconds = seconds,
          .repetition = forecast.repetition(size.ranks, size.predicted.seconds),
          .limit = 2 * seconds + excess,
          .may_take_longer = excess > 0 || forecast.is_minimum(),
          .work = size.work,
          .command = progress.plan().listed_command(launch)};
}

/// The sum of some launches.
struct Cost {
  std::size_t launches = 0;
  double seconds = 0, node_hours = 0, rank_hours = 0;
  double limit = 0;
  bool may_take_longer = false;

  void add(const ListedLaunch& launch) {
    ++launches;
    seconds += launch.seconds;
    node_hours += static_cast<double>(launch.nodes) * launch.seconds / 3600;
    rank_hours += static_cast<double>(launch.ranks) * launch.seconds / 3600;
    limit += launch.limit;
    may_take_longer = may_take_longer || launch.may_take_longer;
  }
};

Cost total(const StudyList& list) {
  Cost cost;
  for (const ListedLaunch& launch : list.launches) cost.add(launch);
  return cost;
}

/// By number of ranks.
std::map<std::uint64_t, Cost> costs(const StudyList& list) {
  std::map<std::uint64_t, Cost> sizes;
  for (const ListedLaunch& launch : list.launches) sizes[launch.ranks].add(launch);
  return sizes;
}

/// "3 launches, 40 s; 0.0111 node-hours, 0.0444 GPU-hours"
std::string words_of(const StudyList& list, const Cost& cost) {
  return fmt::format("{}, {}{}; {:.3g} node-hours{}", counted(cost.launches, "launch"),
                     cost.may_take_longer ? "at least " : "", format_duration(cost.seconds),
                     cost.node_hours,
                     list.on_gpus ? fmt::format(", {:.3g} GPU-hours", cost.rank_hours) : "");
}

/// The command for a shell. A launcher would read the rest of a list from standard input.
std::string command_of(const ListedLaunch& launch) {
  return shell_line(launch.command) + " </dev/null";
}

/// The command that makes the folder; empty if it is there.
std::string preparation_of(const StudyList& list) {
  return list.has_folder ? "" : shell_line({"mkdir", "-p", list.folder});
}

double longest(const StudyList& list) {
  double seconds = 0;
  for (const ListedLaunch& launch : list.launches) seconds = std::max(seconds, launch.limit);
  return seconds;
}

}  // namespace

StudyList list_study(const Order& order) {
  Progress progress(order);
  const StudyPlan& plan = progress.plan();
  progress.folder().check();
  progress.folder().expect_only_study();
  if (progress.folder().has_results()) progress.expect_same_study();
  const std::filesystem::path& folder = progress.folder().path();
  StudyList list{.folder = folder.string(),
                 .has_folder = std::filesystem::exists(folder),
                 .repetitions_are_minima = false,
                 .is_weak = plan.request().weak,
                 .on_gpus = false,
                 .notes = {},
                 .launches = {}};
  if (const std::string problem = plan.launcher().warning(plan.largest().ranks); !problem.empty()) {
    list.notes.push_back("warning: " + problem);
  }
  const bool knows_conditions = progress.is_calibrated();
  if (knows_conditions) {
    progress.take_conditions();
  } else {
    progress.forecast().assume_startup(assumed_startup);
    list.notes.push_back(fmt::format(
        "There is no calibration run yet: times assume {} for the start and end of a launch.",
        format_duration(assumed_startup)));
  }
  const Predicted& largest = plan.largest().predicted;
  list.notes.insert(list.notes.end(), largest.machine.begin(), largest.machine.end());
  if (!knows_conditions) {
    const std::vector<std::string> more = plan.notes_before_calibration();
    list.notes.insert(list.notes.end(), more.begin(), more.end());
  }
  list.repetitions_are_minima = progress.forecast().is_minimum();
  list.on_gpus = largest.on_gpus;
  if (!knows_conditions) list.launches.push_back(listed(progress, plan.calibration()));
  for (const PlannedLaunch& launch : progress.missing()) {
    list.launches.push_back(listed(progress, launch));
  }
  return list;
}

std::string to_text(const StudyList& list) {
  std::string text = fmt::format("# folder: {}\n", printable(list.folder));
  for (const std::string& note : list.notes) text += fmt::format("# {}\n", printable(note));
  if (const std::string command = preparation_of(list); !command.empty()) text += command + '\n';
  for (const ListedLaunch& launch : list.launches) {
    text += fmt::format(
        "# {}: {}, {}{} per launch, {}{} per repetition{}\n{}\n", launch.name,
        counted(launch.ranks, "rank"), launch.may_take_longer ? "at least " : "",
        format_duration(launch.seconds), format_duration(launch.repetition),
        list.repetitions_are_minima ? " or more" : "",
        list.is_weak ? fmt::format(", {:.4g} times the work of the smallest size", launch.work)
                     : "",
        command_of(launch));
  }
  const auto sizes = costs(list);
  for (const auto& [ranks, cost] : sizes) {
    if (sizes.size() > 1) {
      text += fmt::format("# {}: {}\n", counted(ranks, "rank"), words_of(list, cost));
    }
  }
  const Cost all = total(list);
  text += fmt::format("# total: {}\n", words_of(list, all));
  if (list.launches.empty()) return text;
  return text + fmt::format(
                    "# suggested time limit: {} for one job with all launches, {} for a job with "
                    "one launch\n",
                    suggested_limit(all.limit), suggested_limit(longest(list)));
}

std::string to_json(const StudyList& list) {
  const auto integer = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
  Table study("study", {{"folder", ColumnType::text},
                        {"prepare", ColumnType::text},  // a command for the first launch
                        {"notes", ColumnType::text},
                        {"launches", ColumnType::integer},
                        {"time", ColumnType::real, "s"},
                        {"time_is_minimum", ColumnType::integer},
                        {"node_hours", ColumnType::real, "h"},
                        {"gpu_hours", ColumnType::real, "h"},
                        {"time_limit", ColumnType::text}});
  Table sizes("sizes", {{"ranks", ColumnType::integer},
                        {"launches", ColumnType::integer},
                        {"time", ColumnType::real, "s"},
                        {"node_hours", ColumnType::real, "h"},
                        {"gpu_hours", ColumnType::real, "h"}});
  Table launches("launches", {{"name", ColumnType::text},
                              {"ranks", ColumnType::integer},
                              {"nodes", ColumnType::integer},
                              {"time", ColumnType::real, "s"},
                              {"repetition", ColumnType::real, "s"},
                              {"work", ColumnType::real},
                              {"time_limit", ColumnType::text},
                              {"command", ColumnType::text}});
  const auto gpu_hours = [&](const Cost& cost) { return list.on_gpus ? cost.rank_hours : 0; };
  const Cost all = total(list);
  study.add({list.folder, preparation_of(list), join(list.notes, "\n"), integer(all.launches),
             all.seconds, std::int64_t{all.may_take_longer}, all.node_hours, gpu_hours(all),
             suggested_limit(all.limit)});
  for (const auto& [ranks, cost] : costs(list)) {
    sizes.add(
        {integer(ranks), integer(cost.launches), cost.seconds, cost.node_hours, gpu_hours(cost)});
  }
  for (const ListedLaunch& launch : list.launches) {
    launches.add({launch.name, integer(launch.ranks), integer(launch.nodes), launch.seconds,
                  launch.repetition, launch.work, suggested_limit(launch.limit),
                  command_of(launch)});
  }
  const std::array tables = {std::move(study), std::move(sizes), std::move(launches)};
  return shardstream::to_json(tables);
}

}  // namespace shardstream::scale
