#include "report/comparison/benches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::report {
namespace {

using study::Estimate;

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

void add(const ExperimentResult& experiment, CaseSide& side) {
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
             .more_is_better = experiment.better != "less"})
        .launches.push_back(value);
  }
}

}  // namespace

bool holds_benches(const std::string& path) {
  const std::array<std::string, 1> paths = {path};
  try {
    return is_bench_file(io::ResultReader(result_files(paths).front()));
  } catch (const UsageError&) {
    return false;  // make_comparison() says why
  }
}

CaseSide read_benches(const std::string& path) {
  const std::array<std::string, 1> paths = {path};
  const Report report = make_report(result_files(paths));
  if (!report.unreadable.empty()) throw UsageError(report.unreadable.front().reason);
  if (!report.studies.empty()) {
    throw UsageError(fmt::format(
        "{} has results of run and of bench: name files of one kind on each side", excerpt(path)));
  }
  CaseSide side;
  side.path = path;
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

}  // namespace shardstream::report
