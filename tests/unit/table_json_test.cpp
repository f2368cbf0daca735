#include "core/table.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace shardstream {
namespace {

TEST(TableJson, IsAnArrayOfRowsPerTable) {
  Table phases("phases", {{"phase", ColumnType::text},
                          {"calls", ColumnType::integer},
                          {"rate", ColumnType::real, "GB/s"}});
  phases.add({"up\t\"load\"", std::int64_t{9007199254740993}, 54.125});
  phases.add({"", std::int64_t{-1}, 1.0 / 3});
  const Table empty("gpus", {{"memory", ColumnType::integer, "B"}});
  const std::vector tables = {phases, empty};
  const std::string text = to_json(tables);
  EXPECT_EQ(text.back(), '\n');
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.size(), 3U);
  ASSERT_EQ(json["phases"].size(), 2U);
  EXPECT_EQ(json["phases"][0]["phase"], "up\t\"load\"");
  EXPECT_EQ(json["phases"][0]["calls"].get<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(json["phases"][0]["rate"], 54.125);
  EXPECT_EQ(json["phases"][1]["rate"].get<double>(), 1.0 / 3);  // to the last bit
  EXPECT_EQ(json["gpus"], nlohmann::json::array());
  EXPECT_EQ(json["units"],
            nlohmann::json::parse(R"({"phases": {"rate": "GB/s"}, "gpus": {"memory": "B"}})"));
}

TEST(TableJson, KeepsTheOrder) {
  Table table("t", {{"z", ColumnType::integer}, {"a", ColumnType::integer}});
  table.add({std::int64_t{1}, std::int64_t{2}});
  const std::string text = to_json(std::span(&table, 1));
  EXPECT_LT(text.find("\"z\""), text.find("\"a\""));
}

TEST(TableJson, WritesNonFiniteNumbersAsNull) {
  Table table("t", {{"x", ColumnType::real}});
  table.add({std::numeric_limits<double>::quiet_NaN()});
  table.add({std::numeric_limits<double>::infinity()});
  const auto json = nlohmann::json::parse(to_json(std::span(&table, 1)));
  EXPECT_TRUE(json["t"][0]["x"].is_null());
  EXPECT_TRUE(json["t"][1]["x"].is_null());
}

TEST(TableJson, ReplacesInvalidUtf8) {
  Table table("t", {{"x", ColumnType::text}});
  table.add({"a\xff"});
  table.add({"µ"});
  const auto json = nlohmann::json::parse(to_json(std::span(&table, 1)));
  EXPECT_EQ(json["t"][0]["x"], "a\xEF\xBF\xBD");
  EXPECT_EQ(json["t"][1]["x"], "µ");
}

TEST(TableJson, EscapesControlCharacters) {
  Table table("t", {{"x", ColumnType::text}});
  table.add({"\x1b[2J\n\x7f\xc2\x9b"});  // the last is CSI
  const std::string text = to_json(std::span(&table, 1));
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << text;
  EXPECT_EQ(nlohmann::json::parse(text)["t"][0]["x"], "\x1b[2J\n\x7f\xc2\x9b");
}

TEST(TableJson, RejectsTwoTablesOfOneName) {
  const std::vector tables(2, Table("t", {{"x"}}));
  EXPECT_THROW(to_json(tables), ContractError);
  const Table units("units", {{"x"}});
  EXPECT_THROW(to_json(std::span(&units, 1)), ContractError);
}

}  // namespace
}  // namespace shardstream
