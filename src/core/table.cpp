#include "core/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream {
namespace {

/// Whether the cell holds the type of the column. Cell and ColumnType list the types in one order.
bool fits(const Cell& cell, const Column& column) {
  static_assert(std::is_same_v<std::variant_alternative_t<0, Cell>, std::int64_t> &&
                std::is_same_v<std::variant_alternative_t<1, Cell>, double> &&
                std::is_same_v<std::variant_alternative_t<2, Cell>, std::string>);
  return cell.index() == static_cast<std::size_t>(column.type);
}

/// The number of characters, not bytes, since names and units may contain UTF-8.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string padded(const std::string& text, std::size_t to_width, ColumnType type) {
  const std::string blanks(to_width - characters(text), ' ');
  return type == ColumnType::text ? text + blanks : blanks + text;
}

/// The indices of the columns that fit side by side in lines of `max_width` characters, with two
/// blanks between columns. Every block begins with the first column.
std::vector<std::vector<std::size_t>> blocks(const std::vector<std::size_t>& widths,
                                             std::size_t max_width) {
  std::vector<std::vector<std::size_t>> all;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    // A block has at least one column besides the first, however wide it is.
    const bool full = all.empty() || (all.back().size() > 1 && taken + 2 + widths[i] > max_width);
    if (full) {
      all.emplace_back(i == 0 ? 0 : 1);
      taken = i == 0 ? 0 : widths[0];
    }
    all.back().push_back(i);
    taken += (all.back().size() > 1 ? 2 : 0) + widths[i];
  }
  return all;
}

/// Throws ContractError if there is no such column.
std::size_t place_of(const std::vector<Column>& columns, std::string_view name) {
  const auto place = std::ranges::find(columns, name, &Column::name);
  expect(place != columns.end(), "the table has the named column");
  return static_cast<std::size_t>(place - columns.begin());
}

using Json = nlohmann::ordered_json;  // columns keep their order

Json rows_of(const Table& table) {
  Json rows = Json::array();
  for (const Row& row : table.rows()) {
    Json object = Json::object();
    for (const auto& [name, type, unit] : table.columns()) {
      std::visit([&field = object[name]](const auto& value) { field = value; }, row[name]);
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

}  // namespace

const Cell& Row::operator[](std::string_view column) const {
  return (*cells_)[place_of(*columns_, column)];
}

bool is_identifier(std::string_view name) {
  // This avoids <cctype>, which depends on the locale.
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

Table::Table(std::string name, std::vector<Column> columns)
    : name_(std::move(name)), columns_(std::move(columns)) {
  std::set<std::string_view> names;
  for (const Column& column : columns_) {
    expect(is_identifier(column.name), "a column's name is a plain identifier");
    expect(names.insert(column.name).second, "a table's column names differ");
  }
}

void Table::add(std::vector<Cell> row) {
  expect(row.size() == columns_.size(), "a table's row has one cell per column");
  for (std::size_t i = 0; i < row.size(); ++i) {
    expect(fits(row[i], columns_[i]), "a cell is of its column's type");
  }
  rows_.push_back(std::move(row));
}

void Table::set(std::size_t row, std::string_view column, Cell cell) {
  const std::size_t place = place_of(columns_, column);
  expect(row < rows_.size() && fits(cell, columns_[place]),
         "the table has the row, and the cell has the column's type");
  rows_[row][place] = std::move(cell);
}

std::string to_text(const Cell& cell, int digits) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{:.{}g}", *real, digits);
  return std::get<std::string>(cell);
}

Table with_columns(const Table& table, const std::function<bool(const Column&)>& keep) {
  std::vector<Column> columns;
  std::ranges::copy_if(table.columns(), std::back_inserter(columns), keep);
  Table shown(table.name(), columns);
  for (const Row& row : table.rows()) {
    std::vector<Cell> cells;
    for (const Column& column : columns) cells.push_back(row[column.name]);
    shown.add(std::move(cells));
  }
  return shown;
}

Table without_empty_columns(const Table& table) {
  const auto has_value = [&](const Column& column) {
    return std::ranges::any_of(table.rows(), [&](const Row& row) {
      const Cell& cell = row[column.name];
      if (const auto* const real = std::get_if<double>(&cell)) return !std::isnan(*real);
      const auto* const text = std::get_if<std::string>(&cell);
      return text == nullptr || !(text->empty() || *text == "-");
    });
  };
  return with_columns(table, has_value);
}

std::string to_text(const Table& table, std::size_t width) {
  const std::vector<Column>& columns = table.columns();
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns) {
    lines[0].push_back(column.unit.empty() ? column.name
                                           : fmt::format("{} [{}]", column.name, column.unit));
  }
  for (const Row& row : table.rows()) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const Cell& cell : row.cells()) {
      const auto* const real = std::get_if<double>(&cell);
      const bool is_unknown = real != nullptr && std::isnan(*real);
      std::string& text = line.emplace_back(is_unknown ? "" : printable(to_text(cell)));
      if (text.empty()) text = '-';
    }
  }

  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], characters(line[i]));
  }

  std::string text;
  for (const auto& block : blocks(widths, width)) {
    if (!text.empty()) text += '\n';
    for (const auto& line : lines) {
      std::string joined;
      for (const std::size_t i : block) {
        joined += (joined.empty() ? "" : "  ") + padded(line[i], widths[i], columns[i].type);
      }
      joined.erase(joined.find_last_not_of(' ') + 1);
      text += joined + '\n';
    }
  }
  return text;
}

std::string to_json(std::span<const Table> tables) {
  Json all = Json::object(), units = Json::object();
  for (const Table& table : tables) {
    expect(!all.contains(table.name()) && table.name() != "units", "the tables' names differ");
    all[table.name()] = rows_of(table);
    for (const Column& column : table.columns()) {
      if (!column.unit.empty()) units[table.name()][column.name] = column.unit;
    }
  }
  all["units"] = std::move(units);
  return all.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace shardstream
