#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "core/units.hpp"
#include "report/comparison/comparison.hpp"
#include "report/formats.hpp"

namespace shardstream::report {
namespace {

using study::Change;
using study::Comparison;

/// Whether there is a difference: the interval does not contain 1, and the verdict is not same.
bool differs(const Comparison& comparison) {
  const auto& interval = comparison.ratio.interval;
  return comparison.change != Change::same && interval && (interval->lo > 1 || interval->hi < 1);
}

/// "+12.3 %", or "~" if there is no difference.
std::string change_of(const Comparison& comparison) {
  return differs(comparison) ? fmt::format("{:+.1f} %", 100 * (comparison.ratio.value - 1)) : "~";
}

/// Names points by the traits in which they differ from each other, and by their ranks.
class Names {
 public:
  explicit Names(const std::vector<PointComparison>& points) {
    const std::vector<Trait>& first = points.front().before->traits;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const bool is_common =
          first[i].name != "ranks" && std::ranges::all_of(points, [&](const auto& point) {
            return point.before->traits[i].value == first[i].value;
          });
      if (is_common) common_.push_back(first[i]);
      differs_.push_back(!is_common);
    }
  }

  /// The traits that all points share, such as the workload and the backend.
  std::string of_all() const { return words_of(common_); }
  std::string of(const PointComparison& point) const {
    std::vector<Trait> traits;
    for (std::size_t i = 0; i < differs_.size(); ++i) {
      if (differs_[i]) traits.push_back(point.before->traits[i]);
    }
    return words_of(traits);
  }

 private:
  std::vector<Trait> common_;
  std::vector<bool> differs_;
};

std::vector<Cell> row_of(const std::string& point, const char* metric, const std::string& unit,
                         const Comparison& comparison) {
  const auto value = [&](double number) { return fmt::format("{:.4g} {}", number, unit); };
  return {point,
          metric,
          value(comparison.before),
          value(comparison.after),
          with_interval(comparison.ratio, 4),
          change_of(comparison),
          study::word_of(comparison.change)};
}

Table metrics_table(const ComparisonReport& report, const Names& names) {
  Table table("metrics", {{"point", ColumnType::text},
                          {"metric", ColumnType::text},
                          {"OLD", ColumnType::text},
                          {"NEW", ColumnType::text},
                          {"ratio", ColumnType::text},
                          {"change", ColumnType::text},
                          {"verdict", ColumnType::text}});
  for (const PointComparison& each : report.points) {
    const std::string point = names.of(each);
    const std::string unit = each.before->first().work_unit + "/s";
    table.add(row_of(point, "time", "s", each.time));
    table.add(row_of(point, "rate", unit, each.rate));
    if (each.to_result) table.add(row_of(point, "to_result", "s", *each.to_result));
  }
  return table;
}

/// The phases of the points that differ.
Table phases_table(const ComparisonReport& report, const Names& names) {
  Table table("phases", {{"point", ColumnType::text},
                         {"phase", ColumnType::text},
                         {"kind", ColumnType::text},
                         {"OLD", ColumnType::text},
                         {"NEW", ColumnType::text},
                         {"difference", ColumnType::text},
                         {"ratio", ColumnType::text},
                         {"verdict", ColumnType::text}});
  for (const PointComparison& point : report.points) {
    if (!differs(point.time)) continue;
    for (const PhaseComparison& phase : point.phases) {
      const auto seconds = [](double number) { return fmt::format("{:.4g} s", number); };
      table.add({names.of(point), fmt::format("{}/{}", phase.track, phase.phase), phase.kind,
                 seconds(phase.before), seconds(phase.after),
                 fmt::format("{:+.4g} s", phase.change()),
                 phase.times ? with_interval(phase.times->ratio, 4) : "-",
                 phase.times ? study::word_of(phase.times->change) : "-"});
    }
  }
  return table;
}

/// Names the phase with the largest change, for each point that differs.
std::string of_differences(const ComparisonReport& report, const Names& names) {
  std::string text;
  for (const PointComparison& point : report.points) {
    const PhaseComparison* const phase = point.largest_change();
    if (!differs(point.time) || phase == nullptr) continue;
    const double change = point.time.after - point.time.before;
    text += fmt::format(
        "{}: a repetition takes {} {}{}. The phase that changed most is {}/{} ({}), {:+.4g} s. "
        "Phases overlap, so their times do not add up.\n",
        printable(names.of(point)), format_duration(std::abs(change)),
        change > 0 ? "longer" : "less",
        point.time.change == study::Change::unclear ? " (not certain)" : "",
        printable(phase->track), printable(phase->phase), printable(phase->kind), phase->change());
  }
  return text;
}

/// A value for a cell; a long value is cut after its beginning.
std::string shortened(const std::string& value) {
  constexpr std::size_t max = 60;
  return value.size() > max ? excerpt(value) : value;
}

Table changes_table(const ComparisonReport& report) {
  Table table("changes", {{"changed", ColumnType::text},
                          {"name", ColumnType::text},
                          {"OLD", ColumnType::text},
                          {"NEW", ColumnType::text},
                          {"ranks", ColumnType::text}});
  for (const SetupChange& change : report.changes) {
    const char* const origin = change.by_calibration ? " (set by the calibration)" : "";
    table.add({change.what, shortened(change.name) + origin, shortened(change.before),
               shortened(change.after), join(change.ranks, ",")});
  }
  return table;
}

std::string of_files(const Side& side) {
  std::string text;
  const auto add = [&](const char* what, const ExcludedFile& file) {
    text += fmt::format("{} ({}): {}: {}.\n", what, side.name, printable(file.path.string()),
                        printable(file.reason));
  };
  for (const ExcludedFile& file : side.excluded) add("Excluded", file);
  for (const ExcludedFile& file : side.unreadable) add("Unreadable", file);
  for (const study_folder::LaunchAttempt& attempt : side.failed) {
    text += fmt::format("Failed ({}): {}, attempt {}: {} (logs/{}).\n", side.name,
                        printable(attempt.name()), attempt.number, printable(attempt.problem),
                        printable(attempt.log));
  }
  for (const std::string& launch : side.missing) {
    text += fmt::format("Missing ({}): {}.\n", side.name, printable(launch));
  }
  return text;
}

/// One line each: the phases that changed, warnings, and what is not compared.
std::string sentences_of(const ComparisonReport& report, const Names& names) {
  std::string text = of_differences(report, names);
  for (const PointComparison& point : report.points) {
    for (const std::string& warning : point.warnings) {
      text += fmt::format("{}: {}.\n", printable(names.of(point)), printable(warning));
    }
  }
  for (const auto& [side, point, reason] : report.unmatched) {
    text += fmt::format("Not compared ({}): {}: {}.\n", side, printable(point), printable(reason));
  }
  return text + of_files(report.before) + of_files(report.after);
}

std::string text_of_side(const Side& side) {
  return fmt::format("{}: {}, {}\n", side.name, printable(side.path),
                     counted(side.launches(), "launch"));
}

}  // namespace

std::string to_text(const ComparisonReport& report) {
  const Names names(report.points);
  std::string text = text_of_side(report.before) + text_of_side(report.after) +
                     fmt::format("both: {}\n\n{}\n", printable(names.of_all()),
                                 shardstream::to_text(metrics_table(report, names)));
  if (const Table phases = phases_table(report, names); !phases.rows().empty()) {
    text += shardstream::to_text(phases) + '\n';
  }
  text += sentences_of(report, names);
  text += report.changes.empty()
              ? "Nothing else changed: same options, versions, machine and plan.\n"
              : '\n' + shardstream::to_text(changes_table(report)) + '\n';
  return text + fmt::format("Verdict: {} (ratios NEW/OLD with 95 % intervals, threshold {:g} %).\n",
                            study::word_of(report.verdict()), 100 * report.judgement.threshold);
}

std::string folded(const std::string& summary, const std::vector<Table>& tables) {
  std::string text = fmt::format("\n<details><summary>{}</summary>\n\n", for_markdown(summary));
  for (const Table& table : tables) {
    if (!table.rows().empty()) text += to_markdown(table) + '\n';
  }
  return text + "</details>\n";
}

std::string to_markdown(const ComparisonReport& report) {
  const Names names(report.points);
  std::string text = fmt::format(
      "**Verdict: {}** (ratios NEW/OLD with 95 % intervals, threshold {:g} %)\n\n{}: OLD {}, {}; "
      "NEW {}, {}\n",
      study::word_of(report.verdict()), 100 * report.judgement.threshold,
      for_markdown(names.of_all()), for_markdown(report.before.path),
      counted(report.before.launches(), "launch"), for_markdown(report.after.path),
      counted(report.after.launches(), "launch"));
  const std::string sentences = sentences_of(report, names);
  for (const std::string_view each : split(sentences, '\n')) {
    if (!each.empty()) text += fmt::format("\n{}\n", for_markdown(std::string(each)));
  }
  return text +
         folded(counted(report.points.size(), "point"),
                {metrics_table(report, names), phases_table(report, names), changes_table(report)});
}

}  // namespace shardstream::report
