// The table type for everything that is printed or stored. A column has a name, a unit and a type.
// Writers: to_text and to_json here, HDF5 in io/hdf5/tables.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.hpp"

namespace shardstream {

enum class ColumnType { integer, real, text };

struct Column {
  std::string name;  ///< a plain identifier: it becomes a field of an HDF5 compound type
  ColumnType type = ColumnType::real;
  std::string unit = {};  ///< "s", "B", "GB/s"; empty for none
};

/// Whether `name` can be the name of a column: HDF5, h5py and pandas accept it without quotes.
bool is_identifier(std::string_view name);

using Cell = std::variant<std::int64_t, double, std::string>;

/// A view of one row of a table, read by the names of its columns. Valid until the table changes.
class Row {
 public:
  Row(const std::vector<Column>& columns, const std::vector<Cell>& cells)
      : columns_(&columns), cells_(&cells) {}

  /// Throws ContractError if there is no such column.
  const Cell& operator[](std::string_view column) const;
  /// The cell as the type of its column: std::int64_t, double or std::string. Throws ContractError
  /// if there is no such column or it has another type.
  template <class T>
  const T& get(std::string_view column) const {
    const T* const value = std::get_if<T>(&(*this)[column]);
    expect(value != nullptr, "a cell is read as the type of its column");
    return *value;
  }
  /// In the order of the columns; for writers.
  const std::vector<Cell>& cells() const { return *cells_; }

 private:
  const std::vector<Column>* columns_;
  const std::vector<Cell>* cells_;
};

/// A named table. add() throws ContractError if a row does not fit the columns.
class Table {
 public:
  Table(std::string name, std::vector<Column> columns);

  void add(std::vector<Cell> row);
  /// Replaces a cell by another of the same type. Throws ContractError if there is no such row or
  /// column.
  void set(std::size_t row, std::string_view column, Cell cell);

  const std::string& name() const { return name_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// A random-access range of Row.
  auto rows() const {
    return std::views::transform(
        rows_, [this](const std::vector<Cell>& cells) { return Row(columns_, cells); });
  }

 private:
  std::string name_;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// A cell as text: integers in full, reals with up to `digits` significant digits.
std::string to_text(const Cell& cell, int digits = 6);

/// The table with the columns that `keep` accepts.
Table with_columns(const Table& table, const std::function<bool(const Column&)>& keep);

/// The table without the columns in which no row has a value: empty text, "-" or NaN.
Table without_empty_columns(const Table& table);

/// The table for a terminal: a header line with units, then one line per row, with aligned columns
/// of printable() text. Scripts can split the lines: columns are two blanks or more apart, and
/// empty text and NaN become "-". Columns that do not fit into `width` characters follow in further
/// blocks, which begin with the first column and are separated by an empty line.
std::string to_text(const Table& table, std::size_t width = SIZE_MAX);

/// One indented JSON object with a final newline, all of it printable ASCII. For each table, its
/// name is a key, and the value is the array of its rows, each an object by column. The key "units"
/// has the units by table and column. Numbers that are not finite become null, and bytes that are
/// not UTF-8 are replaced. Throws ContractError if two tables have the same name.
std::string to_json(std::span<const Table> tables);

}  // namespace shardstream
