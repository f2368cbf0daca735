#include "report/page/panels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>

#include "report/page/figures/axes.hpp"

namespace shardstream::report::page {
namespace {

/// The panel of a row: its text in the column `panel`, and the number of ranks that measured at the
/// same time.
std::string panel_of(const ExperimentResult& experiment, const Row& row, bool has_turns) {
  std::string name;
  if (!experiment.panel.empty()) {
    name = shardstream::to_text(row[experiment.panel]);
  }
  if (!has_turns) return name;
  const auto ranks = row.get<std::int64_t>("at_once");
  if (!name.empty()) name += ", ";
  return name + (ranks == 1 ? "each rank alone" : fmt::format("{} ranks at once", ranks));
}

}  // namespace

std::vector<Panel> panels_of(const ExperimentResult& experiment) {
  const auto rows = experiment.table.rows();
  const auto& columns = experiment.table.columns();
  const auto at_once = std::ranges::find(columns, "at_once", &Column::name);
  const bool has_turns =
      at_once != columns.end() && at_once->type == ColumnType::integer &&
      at_once->unit == "ranks" && std::ranges::any_of(rows, [&](const Row& row) {
        return row.get<std::int64_t>("at_once") != rows[0].get<std::int64_t>("at_once");
      });
  std::vector<Panel> panels;
  for (const Row& row : rows) {
    const std::string name = panel_of(experiment, row, has_turns);
    auto panel = std::ranges::find(panels, name, &Panel::name);
    if (panel == panels.end()) {
      panel = panels.insert(panels.end(), {name, experiment});
      panel->part.table = Table("rows", columns);
    }
    panel->part.table.add(row.cells());
  }
  std::vector<std::string> series;
  for (const Row& row : rows) {
    if (experiment.series.empty()) break;
    std::string name = shardstream::to_text(row[experiment.series]);
    if (std::ranges::find(series, name) == series.end()) series.push_back(std::move(name));
  }
  for (Panel& panel : panels) panel.series = series;
  return panels;
}

std::vector<Row> first_rank(const Table& table) {
  std::vector<Row> rows;
  for (const Row& row : table.rows()) {
    if (row.get<std::int64_t>("rank") == 0) rows.push_back(row);
  }
  return rows;
}

double number_of(const Cell& cell) {
  if (const auto* const real = std::get_if<double>(&cell)) return *real;
  if (const auto* const integer = std::get_if<std::int64_t>(&cell)) {
    return static_cast<double>(*integer);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string amount(double value, const Table& table, const std::string& column) {
  return amount_text(value, std::ranges::find(table.columns(), column, &Column::name)->unit);
}

std::vector<std::string> bar_names(const ExperimentResult& experiment,
                                   const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(shardstream::to_text(row[experiment.x]));
  const auto are_distinct = [](std::vector<std::string> texts) {
    std::ranges::sort(texts);
    return std::ranges::adjacent_find(texts) == texts.end();
  };
  if (are_distinct(names)) return names;
  for (const Column& column : experiment.table.columns()) {
    if (column.name == experiment.y) break;
    if (column.name == "rank" || column.type == ColumnType::real) continue;
    std::vector<std::string> longer = names;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (std::ranges::count(names, names[i]) == 1) continue;
      const Cell& cell = rows[i][column.name];
      longer[i] +=
          ", " + (column.type == ColumnType::text
                      ? shardstream::to_text(cell)
                      : fmt::format("{} {}", column.name,
                                    amount(number_of(cell), experiment.table, column.name)));
    }
    if (are_distinct(longer)) return longer;
  }
  return names;
}

}  // namespace shardstream::report::page
