#include "report/comparison/benches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "report/formats.hpp"
#include "report/json_values.hpp"

namespace shardstream::report {
namespace {

using study::Change;
using study::Estimate;

/// The launches of one case, and the quantity that it measures.
struct Case {
  std::string experiment, name, figure, unit;
  bool more_is_better = true;
  std::vector<Estimate> launches;
};

/// The cases of a side by experiment and name, in the order of the first file.
struct BenchSide {
  std::vector<Case> cases;
  std::vector<std::string> not_measured;  ///< sentences
  Case& at(const Case& like) {
    const auto found = find(like);
    return found != cases.end() ? *found : cases.emplace_back(like);
  }
  std::vector<Case>::iterator find(const Case& like) {
    return std::ranges::find_if(cases, [&](const Case& each) {
      return each.experiment == like.experiment && each.name == like.name;
    });
  }
};

/// Whether a column says which case a row is, and not what was measured.
bool identifies(const ExperimentResult& experiment, const Column& column) {
  for (const std::string& named : {experiment.x, experiment.series, experiment.panel}) {
    if (column.name == named) return true;
  }
  // The place of a kernel changes with its source.
  return column.name != "remark" && column.name != "kernel" && column.type != ColumnType::real;
}

std::string name_of(const ExperimentResult& experiment, const Row& row) {
  std::string name;
  for (const Column& column : experiment.table.columns()) {
    if (column.name == experiment.y || !identifies(experiment, column)) continue;
    const std::string text = shardstream::to_text(row[column.name]);
    if (column.name == "rank" && text == "0") continue;
    name += fmt::format("{}{}{}", name.empty() ? "" : ", ",
                        column.type == ColumnType::text ? "" : column.name + ' ', text);
  }
  return name;
}

Estimate value_of(const ExperimentResult& experiment, const Row& row) {
  Estimate estimate{.value = row.get<double>(experiment.y)};
  const auto lo = row.get<double>("ci_lo"), hi = row.get<double>("ci_hi");
  if (std::isfinite(lo) && std::isfinite(hi)) estimate.interval = {lo, hi};
  return estimate;
}

void add(const ExperimentResult& experiment, BenchSide& side) {
  std::map<std::string, int> seen;  // rows with the same name get numbers
  for (const Row& row : experiment.table.rows()) {
    const Estimate value = value_of(experiment, row);
    if (!(value.value > 0) || !std::isfinite(value.value)) continue;
    std::string name = name_of(experiment, row);
    if (const int number = ++seen[name]; number > 1) name += fmt::format(" ({})", number);
    const auto& columns = experiment.table.columns();
    const auto figure = std::ranges::find(columns, experiment.y, &Column::name);
    side.at({.experiment = experiment.name,
             .name = name,
             .figure = experiment.y,
             .unit = figure->unit,
             .more_is_better = experiment.better != "less",
             .launches = {}})
        .launches.push_back(value);
  }
}

BenchSide read_bench_side(const std::string& path) {
  const std::array<std::string, 1> paths = {path};
  const Report report = make_report(result_files(paths));
  if (!report.unreadable.empty()) throw UsageError(report.unreadable.front().reason);
  if (!report.studies.empty()) {
    throw UsageError(fmt::format(
        "{} has results of run and of bench: name files of one kind on each side", excerpt(path)));
  }
  BenchSide side;
  for (const BenchFile& file : report.benches) {
    for (const ExperimentResult& each : file.experiments) {
      if (each.is_measured()) {
        add(each, side);
      } else {
        side.not_measured.push_back(
            fmt::format("{} is {} in {}", each.name, each.state, file.path.string()));
      }
    }
  }
  return side;
}

/// The comparison of the times of a case; the reciprocals of rates are compared like times.
CaseComparison compared(const Case& before, const Case& after, const Judgement& judgement) {
  const auto as_times = [&](const Case& of) {
    std::vector<Estimate> times = of.launches;
    if (of.more_is_better) std::ranges::transform(times, times.begin(), study::inverse);
    return times;
  };
  const auto old = as_times(before), now = as_times(after);
  const auto values = [](const std::vector<Estimate>& launches) {
    std::vector<study::Repetitions> all;
    for (const Estimate& each : launches) all.push_back({each.value});
    return all;
  };
  const bool is_single = old.size() == 1 && now.size() == 1;
  const study::Comparison times =
      is_single ? study::compare(old[0], now[0], judgement.threshold, judgement.launch_noise)
                : study::compare(values(old), values(now), judgement.threshold);
  const bool is_rate = before.more_is_better;
  return {.experiment = before.experiment,
          .name = before.name,
          .figure = before.figure,
          .unit = before.unit,
          .before = is_rate ? 1 / times.before : times.before,
          .after = is_rate ? 1 / times.after : times.after,
          .ratio = is_rate ? study::inverse(times.ratio) : times.ratio,
          .change = times.change};
}

}  // namespace

Change BenchComparison::verdict() const {
  for (const Change change : {Change::slower, Change::unclear, Change::faster}) {
    if (count(change) > 0) return change;
  }
  return Change::same;
}

std::size_t BenchComparison::count(Change change) const {
  return static_cast<std::size_t>(std::ranges::count(cases, change, &CaseComparison::change));
}

bool holds_benches(const std::string& path) {
  const std::array<std::string, 1> paths = {path};
  try {
    return is_bench_file(io::ResultReader(result_files(paths).front()));
  } catch (const UsageError&) {
    return false;  // make_comparison() says why
  }
}

BenchComparison make_bench_comparison(const std::string& before, const std::string& after,
                                      const Judgement& judgement) {
  BenchSide old = read_bench_side(before), now = read_bench_side(after);
  BenchComparison comparison;
  comparison.before = before;
  comparison.after = after;
  comparison.judgement = judgement;
  const auto full_name = [](const Case& each) {
    return fmt::format("{}, {}", each.experiment, each.name);
  };
  for (const Case& each : old.cases) {
    const auto found = now.find(each);
    if (found == now.cases.end()) {
      comparison.only_before.push_back(full_name(each));
    } else {
      comparison.cases.push_back(compared(each, *found, judgement));
    }
  }
  for (const Case& each : now.cases) {
    if (old.find(each) == old.cases.end()) comparison.only_after.push_back(full_name(each));
  }
  for (const BenchSide* side : {&old, &now}) {
    comparison.not_measured.insert(comparison.not_measured.end(), side->not_measured.begin(),
                                   side->not_measured.end());
  }
  if (comparison.cases.empty()) {
    throw UsageError(
        fmt::format("'{}' and '{}' have no case in common: name files with the same experiments",
                    before, after));
  }
  return comparison;
}

std::string to_text(const BenchComparison& comparison) {
  Table table("cases", {{"experiment", ColumnType::text},
                        {"case", ColumnType::text},
                        {"figure", ColumnType::text},
                        {"OLD", ColumnType::text},
                        {"NEW", ColumnType::text},
                        {"ratio", ColumnType::text},
                        {"verdict", ColumnType::text}});
  for (const CaseComparison& each : comparison.cases) {
    if (each.change != Change::slower && each.change != Change::faster) continue;
    table.add({each.experiment, each.name, each.figure,
               fmt::format("{:.4g} {}", each.before, each.unit),
               fmt::format("{:.4g} {}", each.after, each.unit), with_interval(each.ratio, 4),
               study::word_of(each.change)});
  }
  std::string text = table.rows().empty() ? "" : shardstream::to_text(table) + '\n';
  text += fmt::format("{}: OLD '{}', NEW '{}': {} slower, {} faster, {} the same, {} unclear.\n",
                      counted(comparison.cases.size(), "case"), printable(comparison.before),
                      printable(comparison.after), comparison.count(Change::slower),
                      comparison.count(Change::faster), comparison.count(Change::same),
                      comparison.count(Change::unclear));
  for (const auto& [names, side] :
       {std::pair{&comparison.only_before, "OLD"}, std::pair{&comparison.only_after, "NEW"}}) {
    constexpr std::size_t max = 3;
    if (names->empty()) continue;
    text += fmt::format("Only in {}: {}.\n", side, printable(join_first(*names, max, "; ")));
  }
  for (const std::string& sentence : comparison.not_measured) text += printable(sentence) + ".\n";
  return text + fmt::format("verdict: {}\n", study::word_of(comparison.verdict()));
}

std::string to_json(const BenchComparison& comparison) {
  Json object = {{"old", comparison.before},
                 {"new", comparison.after},
                 {"threshold", comparison.judgement.threshold},
                 {"launch_noise", comparison.judgement.launch_noise},
                 {"verdict", study::word_of(comparison.verdict())},
                 {"exit_code", exit_code(comparison)}};
  object["cases"] = Json::array();
  for (const CaseComparison& each : comparison.cases) {
    Json found = {{"experiment", each.experiment}, {"case", each.name},
                  {"figure", each.figure},         {"unit", each.unit},
                  {"old", number(each.before)},    {"new", number(each.after)}};
    put(found, "ratio", each.ratio);
    found["verdict"] = study::word_of(each.change);
    object["cases"].push_back(std::move(found));
  }
  object["only_old"] = comparison.only_before;
  object["only_new"] = comparison.only_after;
  object["not_measured"] = comparison.not_measured;
  return to_document(object);
}

int exit_code(const BenchComparison& comparison) {
  if (comparison.verdict() == Change::slower) return 5;
  return comparison.verdict() == Change::unclear ? 4 : 0;
}

}  // namespace shardstream::report
