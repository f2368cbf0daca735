#include "core/table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "core/error.hpp"

namespace shardstream {
namespace {

Table phases() {
  return Table("phases", {{"phase", ColumnType::text},
                          {"calls", ColumnType::integer},
                          {"rate", ColumnType::real, "GB/s"},
                          {"note", ColumnType::text}});
}

TEST(Table, KeepsItsRows) {
  Table table = phases();
  table.add({"upload", std::int64_t{3}, 54.1, ""});
  EXPECT_EQ(table.name(), "phases");
  ASSERT_EQ(table.rows().size(), 1u);
  const Row row = table.rows()[0];
  EXPECT_EQ(row.get<std::string>("phase"), "upload");
  EXPECT_EQ(row.get<std::int64_t>("calls"), 3);
  EXPECT_EQ(row.get<double>("rate"), 54.1);
  EXPECT_EQ(row["note"], Cell(""));
  table.set(0, "calls", std::int64_t{4});
  EXPECT_EQ(table.rows()[0].get<std::int64_t>("calls"), 4);
}

TEST(Table, RejectsUnknownCells) {
  Table table = phases();
  table.add({"upload", std::int64_t{3}, 54.1, ""});
  const Row row = table.rows()[0];
  EXPECT_THROW(row["call"], ContractError);
  EXPECT_THROW(row.get<double>("calls"), ContractError);
  EXPECT_THROW(row.get<std::int64_t>("rate"), ContractError);
  EXPECT_THROW(row.get<std::int64_t>("phase"), ContractError);
  EXPECT_THROW(table.set(0, "call", std::int64_t{4}), ContractError);
  EXPECT_THROW(table.set(0, "calls", 4.0), ContractError);
  EXPECT_THROW(table.set(1, "calls", std::int64_t{4}), ContractError);
}

TEST(Table, RejectsARowThatDoesNotFit) {
  Table table = phases();
  EXPECT_THROW(table.add({}), ContractError);
  EXPECT_THROW(table.add({"upload", std::int64_t{3}, 54.1}), ContractError);
  EXPECT_THROW(table.add({"upload", std::int64_t{3}, 54.1, "", ""}), ContractError);
  EXPECT_THROW(table.add({"upload", 3.0, 54.1, ""}), ContractError);
  EXPECT_THROW(table.add({"upload", std::int64_t{3}, std::int64_t{54}, ""}), ContractError);
  EXPECT_THROW(table.add({1.0, std::int64_t{3}, 54.1, ""}), ContractError);
  EXPECT_TRUE(table.rows().empty());
}

TEST(Table, RejectsInvalidColumnNames) {
  for (const char* name : {"", "two words", "1st", "a-b", "a.b", "µ"}) {
    EXPECT_THROW(Table("t", {{name}}), ContractError) << name;
  }
  EXPECT_THROW(Table("t", {{"a"}, {"a"}}), ContractError);
  EXPECT_NO_THROW(Table("t", {{"a_1"}, {"A"}, {"_b"}}));
}

TEST(TableText, AlignsNumbersRightAndTextLeft) {
  Table table = phases();
  table.add({"upload", std::int64_t{3}, 54.125, "bound"});
  table.add({"fold", std::int64_t{12345678}, 7.0, ""});
  EXPECT_EQ(to_text(table),
            "phase      calls  rate [GB/s]  note\n"
            "upload         3       54.125  bound\n"
            "fold    12345678            7  -\n");
}

TEST(TableText, WithoutRowsIsTheHeader) {
  EXPECT_EQ(to_text(phases()), "phase  calls  rate [GB/s]  note\n");
}

TEST(TableText, CountsCharactersNotBytes) {
  Table table("t", {{"unit", ColumnType::text}, {"n", ColumnType::integer}});
  table.add({"µs", std::int64_t{1}});
  table.add({"GB/s", std::int64_t{2}});
  EXPECT_EQ(to_text(table), "unit  n\nµs    1\nGB/s  2\n");
}

TEST(TableText, EscapesControlCharacters) {
  Table table("t", {{"name", ColumnType::text}, {"n", ColumnType::integer}});
  table.add({"a\x1b[2J\nb\xff", std::int64_t{1}});
  EXPECT_EQ(to_text(table), "name               n\na\\x1b[2J\\x0ab\\xff  1\n");
}

TEST(TableText, IsFoldedToAWidth) {
  Table table("t", {{"id", ColumnType::integer},
                    {"name", ColumnType::text},
                    {"n", ColumnType::integer},
                    {"remark", ColumnType::text}});
  table.add({std::int64_t{7}, "seven", std::int64_t{1}, "odd"});
  const std::string one_line = "id  name   n  remark\n 7  seven  1  odd\n";
  EXPECT_EQ(to_text(table), one_line);
  EXPECT_EQ(to_text(table, 20), one_line);
  EXPECT_EQ(to_text(table, 19), "id  name   n\n 7  seven  1\n\nid  remark\n 7  odd\n");
  // A column that is too wide has its own block with the first column.
  EXPECT_EQ(to_text(table, 1), "id  name\n 7  seven\n\nid  n\n 7  1\n\nid  remark\n 7  odd\n");
  EXPECT_EQ(to_text(Table("t", {{"only", ColumnType::text}}), 1), "only\n");
}

TEST(TableText, ShowsUnknownNumbersAsDashes) {
  Table table("t", {{"x", ColumnType::real}, {"y", ColumnType::real}});
  table.add({std::nan(""), 2.5});
  EXPECT_EQ(to_text(table), "x    y\n-  2.5\n");
}

TEST(CellText, WritesIntegersInFull) {
  EXPECT_EQ(to_text(Cell{std::int64_t{1234567890123}}), "1234567890123");
  EXPECT_EQ(to_text(Cell{std::numeric_limits<std::int64_t>::min()}), "-9223372036854775808");
}

TEST(CellText, WritesRealsToSomeDigits) {
  EXPECT_EQ(to_text(Cell{54.0}), "54");
  EXPECT_EQ(to_text(Cell{1.0 / 3}), "0.333333");
  EXPECT_EQ(to_text(Cell{1.0 / 3}, 3), "0.333");
  EXPECT_EQ(to_text(Cell{0.1}, 17), "0.10000000000000001");
  EXPECT_EQ(to_text(Cell{1e12}), "1e+12");
  EXPECT_EQ(to_text(Cell{std::nan("")}), "nan");
  EXPECT_EQ(to_text(Cell{std::numeric_limits<double>::infinity()}), "inf");
}

TEST(CellText, KeepsTextUnchanged) {
  EXPECT_EQ(to_text(Cell{std::string("a b ")}), "a b ");
}

}  // namespace
}  // namespace shardstream
