// The values of the figures of `bench`, in Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include "core/text.hpp"
#include "core/units.hpp"
#include "report/page/page.hpp"
#include "report/page/panels.hpp"

namespace shardstream::report {
namespace {

std::string value_text(double value) {
  return std::isfinite(value) ? shardstream::to_text(Cell(rounded(value))) : "-";
}

const Column& column_of(const Table& table, const std::string& name) {
  return *std::ranges::find(table.columns(), name, &Column::name);
}

bool is_size(const Column& column) {
  return column.type == ColumnType::integer && column.unit == "B";
}

/// A cell of `column`; a size with the prefix of its unit.
std::string text_of(const Cell& cell, const Column& column) {
  if (is_size(column) && std::get<std::int64_t>(cell) >= 0) {
    return format_size(static_cast<std::uint64_t>(std::get<std::int64_t>(cell)));
  }
  const auto* const real = std::get_if<double>(&cell);
  return real == nullptr ? shardstream::to_text(cell) : value_text(*real);
}

/// The name of a column with its unit, in Markdown. The cells of sizes have their units.
std::string quantity_of(const Column& column) {
  std::string text = for_markdown(column.name);
  if (!column.unit.empty() && !is_size(column)) {
    text += fmt::format(" [{}]", for_markdown(column.unit));
  }
  return text;
}

/// "2641 at 1, 170.3 at 32": the smallest and the largest value of a line, in the order of the
/// rows.
std::string range_of(const std::vector<Row>& line, const ExperimentResult& experiment) {
  const auto value = [&](const Row& row) { return row.get<double>(experiment.y); };
  std::vector<Row> known;
  std::ranges::copy_if(line, std::back_inserter(known),
                       [&](const Row& row) { return std::isfinite(value(row)); });
  if (known.empty()) return value_text(std::nan(""));
  auto [first, last] = std::ranges::minmax_element(known, {}, value);
  if (last < first) std::swap(first, last);
  const Column& x = column_of(experiment.table, experiment.x);
  const auto text = [&](const Row& row) {
    return fmt::format("{} at {}", value_text(value(row)), text_of(row[x.name], x));
  };
  return first == last ? text(*first) : text(*first) + ", " + text(*last);
}

/// "read: 4607; write: 4704" for bars and rungs.
std::string bars_of(const ExperimentResult& experiment) {
  const std::vector<Row> rows = page::first_rank(experiment.table);
  std::vector<std::string> values = page::bar_names(experiment, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    values[i] += ": " + value_text(rows[i].get<double>(experiment.y));
  }
  return join(values, "; ");
}

/// "pinned: 1.472 at 4 KiB, 55.5 at 1 GiB; mapped: ..." for lines, and for the rows of a matrix,
/// which all ranks have measured.
std::string lines_of(const ExperimentResult& experiment) {
  std::vector<std::pair<std::string, std::vector<Row>>> lines;
  for (const Row& row : experiment.table.rows()) {
    if (experiment.look != "matrix" && row.get<std::int64_t>("rank") != 0) continue;
    std::string name;
    if (!experiment.series.empty()) {
      const Column& series = column_of(experiment.table, experiment.series);
      name = fmt::format("{}{}: ", series.type == ColumnType::text ? "" : series.name + ' ',
                         text_of(row[series.name], series));
    }
    auto line = std::ranges::find(lines, name, &decltype(lines)::value_type::first);
    if (line == lines.end()) line = lines.insert(line, {name, {}});
    line->second.push_back(row);
  }
  return join(lines, "; ",
              [&](const auto& line) { return line.first + range_of(line.second, experiment); });
}

std::string row_of(const std::string& name, const std::string& panel, const std::string& quantity,
                   const std::string& values) {
  return fmt::format("| {} | {} | {} |\n", for_markdown(panel.empty() ? name : name + ", " + panel),
                     quantity, for_markdown(values));
}

std::string rows_of_roofs(const std::string& name, const Roofs& roofs) {
  const auto text = [](const Roof& roof) {
    return fmt::format("{}: {}", roof.name, value_text(roof.rate));
  };
  std::vector<Roof> data = roofs.memory;
  data.insert(data.end(), roofs.links.begin(), roofs.links.end());
  if (roofs.shared_memory > 0) data.push_back({"shared memory", roofs.shared_memory});
  return row_of(name, "data", "roof [GB/s]", join(data, "; ", text)) +
         row_of(name, "arithmetic", "roof [Gop/s]", join(roofs.arithmetic, "; ", text));
}

/// A row for each figure of the experiment.
std::string rows_of(const BenchFile& bench, const ExperimentResult& experiment) {
  if (!experiment.is_measured()) {
    return row_of(experiment.name, "", for_markdown(experiment.state), experiment.message);
  }
  if (experiment.look == "roofline" && bench.roofline) {
    return rows_of_roofs(experiment.name, bench.roofline->roofs);
  }
  const bool has_lines = experiment.look != "bars" && experiment.look != "steps";
  std::string quantity = quantity_of(column_of(experiment.table, experiment.y));
  if (has_lines) quantity += ", over " + quantity_of(column_of(experiment.table, experiment.x));
  std::string rows;
  for (const page::Panel& panel : page::panels_of(experiment)) {
    rows += row_of(experiment.name, panel.name, quantity,
                   has_lines ? lines_of(panel.part) : bars_of(panel.part));
  }
  return rows;
}

}  // namespace

std::string figure_values(const Report& report) {
  std::string text;
  for (const BenchFile& bench : report.benches) {
    text += fmt::format("**{}.** {}, {}. {}.\n", for_markdown(bench.path.filename().string()),
                        counted(bench.ranks, "rank"), for_markdown(bench.device),
                        count_of_states(bench.experiments));
    const std::string* group = nullptr;
    for (const ExperimentResult& experiment : bench.experiments) {
      if (group == nullptr || *group != experiment.group) {
        group = &experiment.group;
        text += fmt::format("\n| {} | quantity | values |\n| --- | --- | --- |\n",
                            for_markdown(*group));
      }
      text += rows_of(bench, experiment);
    }
    text += '\n';
  }
  return text;
}

}  // namespace shardstream::report
