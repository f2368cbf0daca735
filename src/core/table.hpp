// One table type for everything that is printed or stored: columns with a name, a unit and a type,
// and rows of cells. Writers: to_text here, core/table_json, io/hdf5_table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardstream {

enum class ColumnType { integer, real, text };

struct Column {
  std::string name;  ///< a plain identifier: it becomes a field of an HDF5 compound type
  ColumnType type = ColumnType::real;
  std::string unit = {};  ///< "s", "B", "GB/s"; empty for none
};

using Cell = std::variant<std::int64_t, double, std::string>;

/// A named table. add() throws ContractError when a row does not fit the columns.
class Table {
 public:
  Table(std::string name, std::vector<Column> columns);

  void add(std::vector<Cell> row);
  /// Replaces a cell by another of the same type. Throws ContractError if there is no such row or
  /// column.
  void set(std::size_t row, std::string_view column, Cell cell);

  const std::string& name() const { return name_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  std::string name_;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// A cell as text: integers in full, reals with up to `digits` significant digits.
std::string to_text(const Cell& cell, int digits = 6);

/// The table for a terminal: a header line with units, columns aligned, one line a row. Columns are
/// two blanks or more apart and none is empty (empty text is "-"), so that lines can be split.
std::string to_text(const Table& table);

/// The same in blocks of columns, each at most `width` characters wide where a column allows it,
/// with an empty line between them; the first column begins each block.
std::string to_text(const Table& table, std::size_t width);

}  // namespace shardstream
