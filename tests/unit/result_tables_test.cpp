// The tables of the result file: what is written can be read, also from files of earlier versions,
// and RESULT_FILE.md lists the columns.
#include "result/tables.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/columns.hpp"
#include "support/errors.hpp"
#include "support/result_files.hpp"

namespace shardstream::result {
namespace {

using test::error_of;
using test::names;

/// Two rows in which every column has another value.
template <class Record>
std::vector<Record> some_rows() {
  std::vector<Record> rows(2);
  std::int64_t number = 0;
  for (Record& row : rows) {
    for (const Field<Record>& field : fields_of<Record>()) {
      const bool is_flag = std::holds_alternative<bool Record::*>(field.member);
      ++number;
      switch (field.column().type) {
        case ColumnType::integer:
          field.set(row, is_flag ? number % 2 : number);
          break;
        case ColumnType::real:
          field.set(row, static_cast<double>(number) / 3);
          break;
        case ColumnType::text:
          field.set(row, fmt::format("text {}", number));
      }
    }
  }
  return rows;
}

template <class Record>
std::vector<std::vector<Cell>> cells_of_all(const std::vector<Record>& rows) {
  std::vector<std::vector<Cell>> cells;
  for (const Record& row : rows) cells.push_back(cells_of(row));
  return cells;
}

/// The table of `rows` without the columns for which `leaves_out` returns true.
template <class Record, class LeavesOut>
Table part_of(const std::vector<Record>& rows, LeavesOut leaves_out) {
  std::vector<Column> columns;
  for (const Field<Record>& field : fields_of<Record>()) {
    if (!leaves_out(field)) columns.push_back(field.column());
  }
  Table table{std::string(name_of(Record::table)), columns};
  for (const Record& row : rows) {
    std::vector<Cell> cells;
    for (const Field<Record>& field : fields_of<Record>()) {
      if (!leaves_out(field)) cells.push_back(field.cell(row));
    }
    table.add(std::move(cells));
  }
  return table;
}

template <class Record>
class ResultTable : public io::ResultFiles {
 protected:
  using Leaves = std::function<bool(const Field<Record>&)>;

  std::vector<Record> read_after_writing(const Leaves& leaves_out) {
    {
      io::ResultFile file(file_, io::Overwrite::own, io::uuid, 1 << 20);
      file.table(std::string(group_of(Record::table)), part_of(some_rows<Record>(), leaves_out));
      file.publish();
    }
    return read<Record>(io::ResultReader(file_));
  }
};

using Records = testing::Types<InputFile, Rank, Gpu, Peer, Phase, RankPhase, Repetition, Step, Span,
                               GpuSample, Ceiling, PrintedMetric, MetricSummary, Experiment>;
TYPED_TEST_SUITE(ResultTable, Records);

TYPED_TEST(ResultTable, IsReadAsItWasWritten) {
  {
    io::ResultFile file(this->file_, io::Overwrite::never, io::uuid, 1 << 20);
    write(file, some_rows<TypeParam>());
    file.publish();
  }
  const io::ResultReader file(this->file_);
  EXPECT_EQ(cells_of_all(read<TypeParam>(file)), cells_of_all(some_rows<TypeParam>()));
  const std::vector<Column> stored = file.columns(std::string(TypeParam::table));
  const std::vector<Column> columns = columns_of<TypeParam>();
  ASSERT_EQ(stored.size(), columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    EXPECT_EQ(stored[i].name, columns[i].name);
    EXPECT_EQ(stored[i].type, columns[i].type) << columns[i].name;
    EXPECT_EQ(stored[i].unit, columns[i].unit) << columns[i].name;
  }
}

TYPED_TEST(ResultTable, OfAnEarlierVersionLeavesNewerMembersAsTheyAre) {
  const auto is_newer = [](const Field<TypeParam>& field) {
    return field.presence == Presence::newer;
  };
  const std::vector<TypeParam> read = this->read_after_writing(is_newer);
  const std::vector<TypeParam> written = some_rows<TypeParam>();
  ASSERT_EQ(read.size(), written.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    for (const Field<TypeParam>& field : fields_of<TypeParam>()) {
      const Cell cell = field.cell(read[i]);
      if (!is_newer(field)) {
        EXPECT_EQ(cell, field.cell(written[i])) << field.name;
      } else if (const auto* const real = std::get_if<double>(&cell)) {
        EXPECT_TRUE(std::isnan(*real)) << field.name;
      } else {
        EXPECT_EQ(cell, field.cell(TypeParam())) << field.name;
      }
    }
  }
}

TYPED_TEST(ResultTable, WithoutAnotherColumnIsRejected) {
  for (const Field<TypeParam>& missing : fields_of<TypeParam>()) {
    if (missing.presence == Presence::newer) continue;
    const std::string error = error_of([&] {
      this->read_after_writing([&](const auto& field) { return field.name == missing.name; });
    });
    EXPECT_TRUE(names(error, TypeParam::table, missing.name)) << error;
  }
}

class Ceilings : public io::ResultFiles {};

TEST_F(Ceilings, KeepTheirSizes) {
  const std::vector<Ceiling> ceilings = {
      {.name = "link_up", .per_rank = 12.5, .unit = "GB/s"},
      {.name = "multiply_fp32", .per_rank = 1, .sizes = {{"tile_m", 256}, {"lanes", 1}}},
      {.name = "multiply_int8", .per_rank = 2, .sizes = {{"tile_m", 128}, {"fold", 4}}}};
  {
    io::ResultFile file(file_, io::Overwrite::never, io::uuid, 1 << 20);
    file.table("/", ceilings_table(ceilings));
    file.publish();
  }
  const io::ResultReader file(file_);
  EXPECT_EQ(file.columns("/ceilings").size(), columns_of<Ceiling>().size() + 3);
  const std::vector<Ceiling> back = read_ceilings(file);
  ASSERT_EQ(back.size(), ceilings.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].name, ceilings[i].name);
    EXPECT_EQ(back[i].sizes, ceilings[i].sizes);
  }
}

TEST(ResultFilePage, ListsTheColumnsOfEveryTable) {
  std::ifstream page(RESULT_FILE_PAGE);
  ASSERT_TRUE(page.is_open());
  std::vector<std::string> shown;
  bool is_list = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) is_list = line == "## Columns";
    if (is_list && line.starts_with("| `/")) shown.push_back(line);
  }
  EXPECT_EQ(join(shown, "\n"), join(lines_of_tables(), "\n"))
      << "the list below `## Columns` of RESULT_FILE.md is not that of result/tables.cpp";
}

}  // namespace
}  // namespace shardstream::result
