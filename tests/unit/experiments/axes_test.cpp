// The axes of experiments: their values, the choices of --axis, and the points.
#include "experiments/axes.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "experiments/catalogue.hpp"

namespace shardstream::experiments {
namespace {

constexpr OptionRow options_of_example[] = {
    {"example.most", OptionKind::size, "1MiB", "4KiB..", "The largest size."}};
constexpr Axis axes_of_example[] = {
    {.name = "way", .unit = "", .values = "up|down|up, then down", .sentence = "The direction."},
    {.name = "offset", .unit = "words", .values = "0..8", .quick = "0..8+4", .sentence = "Words."},
    {.name = "bytes",
     .unit = "B",
     .values = "4KiB..*16",
     .range = "4KiB..",
     .most = "example.most",
     .sentence = "Bytes."}};
constexpr Experiment example = {.name = "example",
                                .group = "link",
                                .summary = {},
                                .explanation = {},
                                .read_on = {},
                                .options = options_of_example,
                                .axes = axes_of_example,
                                .figure = {}};
constexpr const Experiment* both[] = {&example};

Options options_with(const std::string& most) {
  CommandLine line;
  line.values["example.most"] = most;
  const char* const environment[] = {nullptr};
  return OptionTable({std::span<const OptionRow>(options_of_example)})
      .resolve(line, environment, std::nullopt);
}

/// The points with these choices, each as "up 0 4096".
std::vector<std::string> points(const std::string& choices, bool quick = false,
                                const std::string& most = "1MiB", const Largest& largest = {}) {
  const Axes axes(example, choices.empty() ? AxisChoices{} : axis_choices(choices), quick);
  std::vector<std::string> texts;
  for (const Point& point : axes.points(options_with(most), largest)) {
    texts.push_back(join(point.cells(), " ", [](const Cell& cell) { return to_text(cell); }));
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Axes, GiveAllCombinationsTheLastAxisFirst) {
  const Texts all = points("");
  EXPECT_EQ(all.size(), 3U * 9 * 3);
  EXPECT_EQ(Texts(all.begin(), all.begin() + 4),
            (Texts{"up 0 4096", "up 0 65536", "up 0 1048576", "up 1 4096"}));
  EXPECT_EQ(all.back(), "up, then down 8 1048576");
  EXPECT_EQ(points("", true).size(), 3U * 3 * 3);
}

TEST(Axes, RangesEndWithTheLargestNumber) {
  EXPECT_EQ(points("way=up;offset=0", false, "100KiB"),
            (Texts{"up 0 4096", "up 0 65536", "up 0 102400"}));
  EXPECT_EQ(points("way=up;offset=0", false, "1MiB", {{"bytes", 8192}}),
            (Texts{"up 0 4096", "up 0 8192"}));
  EXPECT_EQ(points("way=up;bytes=4096;offset=1..7+4", true),
            (Texts{"up 1 4096", "up 5 4096", "up 7 4096"}));
}

TEST(Axes, ChosenValuesAreInTheOrderOfTheTable) {
  EXPECT_EQ(points("way=down,up;offset=8,2,2;example.bytes=8KiB"),
            (Texts{"up 2 8192", "up 8 8192", "down 2 8192", "down 8 8192"}));
  EXPECT_EQ(points("offset=1;bytes=4096,4097;way=down;offset=3", true),
            (Texts{"down 3 4096", "down 3 4097"}));
}

TEST(Axes, WordsMayHaveCommas) {
  EXPECT_EQ(points("way=up, then down;offset=2;bytes=4096"), (Texts{"up, then down 2 4096"}));
  EXPECT_EQ(points("way=up, then down|up;offset=2;bytes=4096"),
            (Texts{"up 2 4096", "up, then down 2 4096"}));
}

TEST(Axes, PointsHaveNumbersAndThePlacesOfWords) {
  const Axes axes(example, axis_choices("way=down;offset=7"), false);
  const Point point = axes.points(options_with("4KiB")).at(0);
  EXPECT_EQ(point["way"], 1U);
  EXPECT_EQ(point["offset"], 7U);
  EXPECT_EQ(to_text(point.cell("bytes")), "4096");
  EXPECT_THROW(static_cast<void>(point["strid"]), ContractError);
  const std::vector<Column> columns = axes.columns({{"efficiency", ColumnType::real}});
  ASSERT_EQ(columns.size(), 4U);
  EXPECT_EQ(columns[0].type, ColumnType::text);
  EXPECT_EQ(columns[1].type, ColumnType::integer);
  EXPECT_EQ(columns[2].unit, "B");
  EXPECT_EQ(columns[3].name, "efficiency");
  EXPECT_TRUE(axes.are_chosen());
  EXPECT_FALSE(Axes(example, {}, false).are_chosen());
}

/// The message of the error; empty if the choices are accepted.
std::string message_of(const std::string& choices) {
  try {
    check_choices(axis_choices(choices), both, options_with("1MiB"));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Axes, WhatIsPossibleIsListedWithAnError) {
  for (const char* const accepted :
       {"offset=0..8", "example.way=up", "bytes=4KiB..*2", "bytes=5000", "way = down , up"}) {
    EXPECT_EQ(message_of(accepted), "") << accepted;
  }
  const std::vector<std::pair<const char*, std::vector<const char*>>> rejected = {
      {"way", {"AXIS=VALUE"}},
      {"way=", {"AXIS=VALUE"}},
      {"=up", {"AXIS=VALUE"}},
      {"offset=1;", {"AXIS=VALUE"}},
      {"ofset=1", {"did you mean offset?", "example has way, offset, bytes"}},
      {"stride.offset=1", {"'stride.offset'", "example has"}},
      {"way=dwn", {"'dwn'", "did you mean down?", "up | down"}},
      {"way=up,", {"''", "up | down"}},
      {"offset=9", {"9", "0..8 (with --quick 0..8+4)"}},
      {"offset=0..9", {"9", "0..8"}},
      {"offset=0..", {"no end"}},
      {"offset=3..1", {"ends before"}},
      {"offset=0..8*2", {"do not grow"}},
      {"offset=0..8+0", {"do not grow"}},
      {"offset=0..1000000", {"10000 numbers"}},
      {"offset=x", {"'x'", "0..8"}},
      {"bytes=4095", {"4095", "4KiB.."}},
      {"bytes=2MiB", {"2097152", "example.most", "1 MiB"}},
      {"bytes=1..16000000000000000000*16", {"too large"}}};
  for (const auto& [choices, words] : rejected) {
    for (const char* const word : words) {
      EXPECT_NE(message_of(choices).find(word), std::string::npos)
          << choices << ": " << message_of(choices);
    }
  }
}

TEST(Axes, OfTheCatalogueHaveValuesThatCanBeChosen) {
  const char* const environment[] = {nullptr};
  const Options given = OptionTable(options()).resolve({}, environment, std::nullopt);
  int count = 0;
  for (const Experiment* each : all()) {
    std::set<std::string_view> names;
    for (const Axis& axis : each->axes) {
      ++count;
      EXPECT_TRUE(names.insert(axis.name).second) << each->name;
      EXPECT_TRUE(axis.sentence.ends_with('.')) << axis.name;
      EXPECT_EQ(axis.values.find_first_of(";="), std::string_view::npos) << axis.values;
      for (const std::string_view values : {axis.values, axis.quick}) {
        if (values.empty()) continue;
        EXPECT_NO_THROW(
            check_choices({{std::string(each->name), std::string(axis.name), std::string(values)}},
                          std::span(&each, 1), given))
            << each->name << ' ' << values;
      }
    }
    for (const bool quick : {false, true}) {
      EXPECT_FALSE(Axes(*each, {}, quick).points(given).empty()) << each->name;
    }
  }
  EXPECT_GE(count, 2);
  EXPECT_NE(help(find("stride")->axes).find("stride [words]"), std::string::npos);
  EXPECT_EQ(help(std::span<const Axis>()), "");
}

}  // namespace
}  // namespace shardstream::experiments
