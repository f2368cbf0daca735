// A table of the result file as a list of structs: what writes and what reads the table follow from
// one list of columns, which is beside the struct. See tables.hpp for the tables.
//
//   struct Repetition {
//     std::int64_t rep = 0;
//     double wall = 0;
//
//     static constexpr std::string_view table = "/timing/reps";
//     static std::vector<Field<Repetition>> columns() {
//       return {{"rep", &Repetition::rep}, {"wall", &Repetition::wall, "s"}};
//     }
//   };
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "core/table.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::result {

/// Whether results of earlier versions may lack a column. Their records keep the member's initial
/// value.
enum class Presence { always, newer };

/// A column of a table whose rows are of type Record. A bool is stored as 1 or 0.
template <class Record>
struct Field {
  using Member =
      std::variant<std::int64_t Record::*, double Record::*, std::string Record::*, bool Record::*>;
  std::string_view name;
  Member member;
  std::string_view unit = {};
  Presence presence = Presence::always;

  Column column() const {
    constexpr auto integer = ColumnType::integer;
    constexpr ColumnType types[] = {integer, ColumnType::real, ColumnType::text, integer};
    return {std::string(name), types[member.index()], std::string(unit)};
  }
  Cell cell(const Record& record) const {
    return std::visit(
        [&]<class T>(T Record::*of) {
          if constexpr (std::is_same_v<T, bool>)
            return Cell(std::int64_t{record.*of});
          else
            return Cell(record.*of);
        },
        member);
  }
  void set(Record& record, const Cell& cell) const {
    std::visit(
        [&]<class T>(T Record::*of) {
          if constexpr (std::is_same_v<T, bool>)
            record.*of = std::get<std::int64_t>(cell) != 0;
          else
            record.*of = std::get<T>(cell);
        },
        member);
  }
};

/// The columns of structs from which Record is derived, as columns of Record.
template <class Record, class... Bases>
std::vector<Field<Record>> joined(const std::vector<Field<Bases>>&... bases) {
  std::vector<Field<Record>> columns;
  const auto add = [&](const auto& field) {
    std::visit(
        [&](auto member) {
          columns.push_back({field.name, member, field.unit, field.presence});
        },
        field.member);
  };
  (std::ranges::for_each(bases, add), ...);
  return columns;
}

template <class Record>
const std::vector<Field<Record>>& fields_of() {
  static const std::vector<Field<Record>> fields = Record::columns();
  return fields;
}

/// "reps" of /timing/reps.
constexpr std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}
/// "/timing" of /timing/reps, and "/" of /ceilings.
constexpr std::string_view group_of(std::string_view path) {
  return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

template <class Record>
std::vector<Column> columns_of() {
  std::vector<Column> columns;
  for (const Field<Record>& field : fields_of<Record>()) columns.push_back(field.column());
  return columns;
}

template <class Record>
std::vector<Cell> cells_of(const Record& record) {
  std::vector<Cell> cells;
  for (const Field<Record>& field : fields_of<Record>()) cells.push_back(field.cell(record));
  return cells;
}

/// `records` is any range of Record. Units among `columns` may differ from those of Record.
template <class Record, std::ranges::input_range Records>
Table table_of(Records&& records, std::vector<Column> columns = columns_of<Record>()) {
  Table table{std::string(name_of(Record::table)), std::move(columns)};
  for (const Record& record : records) table.add(cells_of(record));
  return table;
}
template <class Record>
Table table_of(const std::vector<Record>& records) {
  return table_of<Record, const std::vector<Record>&>(records);
}

/// The rows of a table that table_of() has made.
template <class Record>
std::vector<Record> records_of(const Table& table) {
  std::vector<Record> records;
  for (const Row& row : table.rows()) {
    Record& record = records.emplace_back();
    for (const Field<Record>& field : fields_of<Record>()) {
      field.set(record, row[field.name]);
    }
  }
  return records;
}

/// Writes the table Record::table. `records` is any range of Record.
template <class Record, std::ranges::input_range Records>
void write(io::ResultFile& file, Records&& records) {
  file.table(std::string(group_of(Record::table)), table_of<Record>(records));
}
template <class Record>
void write(io::ResultFile& file, const std::vector<Record>& records) {
  write<Record, const std::vector<Record>&>(file, records);
}

/// Reads the table Record::table. Throws UsageError if the file does not have it, or if it lacks a
/// column that results of every version have.
template <class Record>
std::vector<Record> read(const io::ResultReader& file) {
  const std::string path(Record::table);
  const std::vector<Column> stored = file.columns(path);
  std::vector<const Field<Record>*> fields;
  std::vector<Column> columns;
  for (const Field<Record>& field : fields_of<Record>()) {
    const bool is_stored = std::ranges::find(stored, field.name, &Column::name) != stored.end();
    if (field.presence == Presence::newer && !is_stored) continue;
    fields.push_back(&field);
    columns.push_back(field.column());
  }
  std::vector<Record> records;
  file.rows(path, columns, [&](std::span<const Cell> cells) {
    Record& record = records.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) fields[i]->set(record, cells[i]);
  });
  return records;
}

}  // namespace shardstream::result
