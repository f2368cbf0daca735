#include "experiments/expected.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <variant>

namespace shardstream::experiments {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

bool has_column(const Table& table, std::string_view name) {
  return std::ranges::find(table.columns(), name, &Column::name) != table.columns().end();
}

double number(const Cell& cell) {
  if (const auto* const real = std::get_if<double>(&cell)) return *real;
  if (const auto* const integer = std::get_if<std::int64_t>(&cell)) {
    return static_cast<double>(*integer);
  }
  return unknown;
}

}  // namespace

bool holds(const Row& row, const Table& table, const Condition& condition) {
  return has_column(table, condition.column) && to_text(row[condition.column]) == condition.text;
}

MeasuredRow::MeasuredRow(const Table& table, std::size_t row, const Figure& figure,
                         const std::map<std::string, double>& ceilings)
    : table_(table), row_(row), figure_(figure), ceilings_(ceilings) {}

double MeasuredRow::operator[](std::string_view column) const {
  return has_column(table_, column) ? number(table_.rows()[row_][column]) : unknown;
}

std::string MeasuredRow::text(std::string_view column) const {
  return has_column(table_, column) ? to_text(table_.rows()[row_][column]) : std::string();
}

double MeasuredRow::ceiling(std::string_view name) const {
  const auto found = ceilings_.find(std::string(name));
  return found == ceilings_.end() ? unknown : found->second;
}

double MeasuredRow::of_row(std::string_view column, std::initializer_list<Condition> where,
                           std::initializer_list<std::string_view> same) const {
  if (!has_column(table_, column)) return unknown;
  const auto rows = table_.rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    const auto is_equal = [&](std::string_view name) {
      return !has_column(table_, name) || row[name] == rows[row_][name];
    };
    if (is_equal("rank") && std::ranges::all_of(same, is_equal) &&
        std::ranges::all_of(where,
                            [&](const Condition& each) { return holds(row, table_, each); })) {
      return i == row_ ? unknown : number(row[column]);
    }
  }
  return unknown;
}

Table with_expected(Table table, const Experiment& experiment, const Figure& figure,
                    const std::map<std::string, double>& ceilings) {
  if (experiment.expected == nullptr || !has_column(table, figure.y) ||
      has_column(table, "expected")) {
    return table;
  }
  const auto measured = std::ranges::find(table.columns(), figure.y, &Column::name);
  const auto place = measured - table.columns().begin();
  std::vector<Column> columns = table.columns();
  columns.insert(columns.begin() + place, {"expected", ColumnType::real, measured->unit});
  Table result(table.name(), std::move(columns));
  for (std::size_t i = 0; i < table.rows().size(); ++i) {
    std::vector<Cell> cells = table.rows()[i].cells();
    cells.insert(cells.begin() + place,
                 experiment.expected(MeasuredRow(table, i, figure, ceilings)));
    result.add(std::move(cells));
  }
  return result;
}

}  // namespace shardstream::experiments
