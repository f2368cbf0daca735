// Selections: their text, and the elements that they select from the dimensions of a data set.
#include "io/source/selection.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/text.hpp"
#include "support/errors.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::names;

constexpr auto data = "x.h5:/sst";

/// Three dimensions: time, lat and one without a name.
const std::vector<Dimension> dimensions = {{"time", 4, true}, {"lat", 5, true}, {"", 6, false}};

std::optional<Coordinates> coordinates(std::size_t dimension) {
  Coordinates found{dimensions[dimension].name, ElementType::f64, {}, {}};
  if (dimension == 0) found.values = {100, 200, 300, 400};
  if (dimension == 1) found.values = {90, 45, 0, -45, -90};
  return dimension < 2 ? std::optional(found) : std::nullopt;
}

Selection selected(const std::string& text) {
  return resolve(SelectionText::parse(text), dimensions, coordinates, data);
}

std::string error_for(const std::string& text) {
  return error_of([&] { selected(text); });
}

TEST(Selections, ByPositionAreThoseOfH5py) {
  const Axis time{.count = 4}, lat{.count = 5}, lon{.count = 6};
  const auto index = [](std::uint64_t at) {
    return Axis{.first = at, .count = 1, .is_index = true};
  };
  EXPECT_EQ(selected(":"), (Selection{time, lat, lon}));
  EXPECT_EQ(selected("..."), (Selection{time, lat, lon}));
  EXPECT_EQ(selected("1"), (Selection{index(1), lat, lon}));
  EXPECT_EQ(selected("-1"), (Selection{index(3), lat, lon}));
  EXPECT_EQ(selected("-4"), (Selection{index(0), lat, lon}));
  EXPECT_EQ(selected("-0"), (Selection{index(0), lat, lon}));
  EXPECT_EQ(selected("1:3"), (Selection{{.first = 1, .count = 2}, lat, lon}));
  EXPECT_EQ(selected(":-1"), (Selection{{.count = 3}, lat, lon}));
  EXPECT_EQ(selected("-2:"), (Selection{{.first = 2, .count = 2}, lat, lon}));
  EXPECT_EQ(selected("::3"), (Selection{{.step = 3, .count = 2}, lat, lon}));
  EXPECT_EQ(selected("1:4:2"), (Selection{{.first = 1, .step = 2, .count = 2}, lat, lon}));
  EXPECT_EQ(selected("0:4:"), (Selection{time, lat, lon}));
  EXPECT_EQ(selected("..., 2"), (Selection{time, lat, index(2)}));
  EXPECT_EQ(selected("0, ..., 2"), (Selection{index(0), lat, index(2)}));
  EXPECT_EQ(selected("0, 1, 2, ..."), (Selection{index(0), index(1), index(2)}));
  EXPECT_EQ(selected("\t: , 1 : 3 , ::2 "),
            (Selection{time, {.first = 1, .count = 2}, {.step = 2, .count = 3}}));
}

TEST(Selections, OfOneElementHaveTheStepOne) {
  EXPECT_EQ(selected("3::18446744073709551615")[0], (Axis{.first = 3, .count = 1}));
}

TEST(Selections, OfAScalarHaveNoItems) {
  const auto of_scalar = [](const char* text) {
    return resolve(SelectionText::parse(text), {}, coordinates, data);
  };
  EXPECT_EQ(of_scalar("..."), Selection());
  EXPECT_TRUE(names(error_of([&] { of_scalar(":"); }), data, "character 2"));
}

TEST(Selections, ThatAreWrongShowTheCharacter) {
  const auto expect = [](const std::string& text, std::size_t character,
                         std::vector<std::string> words = {}) {
    const std::string message = error_for(text);
    words.push_back(fmt::format("character {}", character));
    EXPECT_TRUE(names(message, words)) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  };
  expect("", 2);
  expect("0, ,1", 5);  // the empty item ends at the comma
  expect("0,", 4);
  expect("x", 2, {"x"});
  expect("0, 1.5", 5, {"1.5"});
  expect("+1", 2);
  expect("--1", 2);
  expect("1:2:3:4", 8, {"4"});
  expect("0, ::0", 7, {"0"});
  expect("::-1", 4, {"-1"});
  expect("99999999999999999999", 2, {"99999999999999999999"});
  expect("..., 0, ...", 10);
  expect(":, :, :, :", 11, {data, "time=4 x lat=5 x 6"});
  expect("4", 2, {"4", data, "time", "4 elements"});
  expect("-5", 2, {"-5", "time"});
  expect(":, 2:6", 7, {"6", "lat", "5 elements"});
  expect(":, -6:", 5, {"-6", "lat"});
  expect(":, 3:2", 5, {"3", "2", "lat"});
  expect(":, :, 6:", 8, {"6", data});
  expect("2:2", 2);
  expect("time=100, 0", 12);
  expect("0, time=100", 5);
  expect("..., time=100", 7);
  expect("time=100, time=200", 12, {"time"});
  expect("=3", 2);
  expect("time=", 7);
  expect("time=noon", 7, {"noon"});
  expect("time=nan", 7, {"nan"});
  expect("time=:inf", 8, {"inf"});
  expect("time=1e999", 7, {"1e999"});
  expect("time=100:200:0", 15);
  expect("time=100:200:0.5", 15, {"0.5"});
  expect("tiem=100", 2, {"tiem", data, "time", "lat"});
  expect("time=150", 7, {"150", "100", "200"});
  expect("time=401", 7, {"400"});
  expect("time=101:199", 2, {"100", "200"});
  expect("time=500:", 2, {"400"});
  expect("time=300:100", 7, {"300", "100"});
  expect(std::string(200, ':'), 5);
}

TEST(Selections, OfUnnamedDimensionsByCoordinateSayHowToSelect) {
  const std::vector<Dimension> unnamed = {{"", 4, false}}, twins = {{"x", 3, true}, {"x", 3, true}},
                               plain = {{"x", 3, false}};
  const auto expect = [](const std::vector<Dimension>& of, const std::string& words) {
    const auto message =
        error_of([&] { resolve(SelectionText::parse("x=1"), of, coordinates, data); });
    EXPECT_TRUE(names(message, data, "position", "character 2", words));
  };
  expect(unnamed, "4");
  expect(twins, "x=3 x x=3");
  expect(plain, "3 elements");
}

TEST(Selections, ByCoordinateIncludeBothEnds) {
  const Axis time{.count = 4}, lat{.count = 5}, lon{.count = 6};
  EXPECT_EQ(selected("time=200:300"), (Selection{{.first = 1, .count = 2}, lat, lon}));
  EXPECT_EQ(selected("time=150:350"), (Selection{{.first = 1, .count = 2}, lat, lon}));
  EXPECT_EQ(selected("time=-1e9:1e9"), (Selection{time, lat, lon}));
  EXPECT_EQ(selected("time=200:"), (Selection{{.first = 1, .count = 3}, lat, lon}));
  EXPECT_EQ(selected("time=:200"), (Selection{{.count = 2}, lat, lon}));
  EXPECT_EQ(selected("time=:"), (Selection{time, lat, lon}));
  EXPECT_EQ(selected("time=::2"), (Selection{{.step = 2, .count = 2}, lat, lon}));
  EXPECT_EQ(selected("time = 3e2"),
            (Selection{{.first = 2, .count = 1, .is_index = true}, lat, lon}));
  EXPECT_EQ(selected("lat=-45:45, time=100"),
            (Selection{{.count = 1, .is_index = true}, {.first = 1, .count = 3}, lon}));
}

TEST(Selections, ByDecreasingCoordinatesMayStateTheEndsInEitherOrder) {
  EXPECT_EQ(selected("lat=45:-45"), selected("lat=-45:45"));
  EXPECT_EQ(selected("lat=45:-90:2")[1], (Axis{.first = 1, .step = 2, .count = 2}));
  EXPECT_EQ(selected("lat=0:")[1], (Axis{.count = 3}));              // 90, 45, 0
  EXPECT_EQ(selected("lat=:0")[1], (Axis{.first = 2, .count = 3}));  // 0, -45, -90
}

TEST(Selections, CompareCoordinatesInTheirType) {
  const std::vector<Dimension> one = {{"x", 3, true}};
  const auto axis = [&](ElementType type, const char* text) {
    const auto values = [=](std::size_t) {
      return std::optional(Coordinates{"x", type, {0.1f, 0.2f, 0.3f}, {}});
    };
    return resolve(SelectionText::parse(text), one, values, data)[0];
  };
  EXPECT_EQ(axis(ElementType::f32, "x=0.1").first, 0u);
  EXPECT_EQ(axis(ElementType::f32, "x=0.3:").count, 1u);
  EXPECT_EQ(axis(ElementType::f32, "x=:1e300").count, 3u);
  EXPECT_TRUE(names(error_of([&] { axis(ElementType::f64, "x=0.1"); }), "0.1", "character 4"));
}

TEST(Selections, CompareEachCoordinateInTheTypeOfItsFile) {
  const std::vector<Dimension> one = {{"x", 4, true}};
  const auto values = [](std::size_t) {
    Coordinates found{"x", ElementType::f64, {0.1f, 0.2f, 0.3, 0.4}, {}};
    found.are_f32 = {true, true, false, false};
    return std::optional(found);
  };
  const auto axis = [&](const char* text) {
    return resolve(SelectionText::parse(text), one, values, data)[0];
  };
  EXPECT_EQ(axis("x=0.1").first, 0u);
  EXPECT_EQ(axis("x=0.3").first, 2u);
  EXPECT_EQ(axis("x=0.2:0.3"), (Axis{.first = 1, .count = 2}));
}

/// Longitudes, or the same numbers without units.
class Longitudes : public testing::Test {
 protected:
  Axis axis(const std::string& text, std::vector<double> values, const char* units = "degrees_E") {
    const std::vector<Dimension> one = {{"lon", values.size(), true}};
    const auto coordinates = [&](std::size_t) {
      return std::optional(
          Coordinates{"lon", ElementType::f64, values, {{"units", std::string(units)}}});
    };
    beyond_.clear();
    return resolve(SelectionText::parse("lon=" + text), one, coordinates, data, &beyond_)[0];
  }
  /// The ranges that the error for a range names select exactly the longitudes in the range.
  void expect_parts(const std::string& text, const std::vector<double>& values,
                    const std::vector<std::string>& parts) {
    const std::string message = error_of([&] { axis(text, values); });
    std::uint64_t count = 0;
    for (const std::string& part : parts) {
      const auto at = message.find("lon=" + part);
      EXPECT_NE(at, std::string::npos) << text << ": " << message;
      count += axis(part, values).count;
    }
    const auto colon = text.find(':');
    const double west = std::stod(text.substr(0, colon));
    double east = std::stod(text.substr(colon + 1));
    while (east < west) east += 360;
    const auto is_meant = [&](double value) {
      const double turned = value + 360 * std::ceil((west - value) / 360);
      return turned <= east;
    };
    EXPECT_EQ(count, std::ranges::count_if(values, is_meant)) << text;
  }

  std::vector<double> tens_ = [] {
    std::vector<double> made;
    for (int i = 0; i < 36; ++i) made.push_back(10 * i);
    return made;
  }();
  std::vector<std::string> beyond_;
};

TEST_F(Longitudes, AcrossTheFirstMeridianNameTheirParts) {
  expect_parts("350:20", tens_, {"350:", ":20"});
  expect_parts("-10:20", tens_, {"350:", ":20"});
  expect_parts("-20.5:-5", tens_, {"339.5:355"});
  expect_parts("370:380", tens_, {"10:20"});
  expect_parts("-180:180", tens_, {":"});
  expect_parts("340:400", tens_, {"340:", ":40"});
  expect_parts("10:5", {0, 100, 350}, {"10:", ":5"});
  const std::vector<double> around_zero = {-180, -90, 0, 90};
  expect_parts("80:200", around_zero, {"80:", ":-160"});
  expect_parts("350:20", around_zero, {"-10:20"});
  expect_parts("290:20", {300, 320, 340}, {"290:"});
  std::vector<double> descending = tens_;
  std::ranges::reverse(descending);
  expect_parts("-10:20", descending, {"350:", ":20"});
}

TEST_F(Longitudes, InsideTheirEndsAreRanges) {
  EXPECT_EQ(axis("350:", tens_), (Axis{.first = 35, .count = 1}));
  EXPECT_EQ(axis(":20", tens_), (Axis{.count = 3}));
  EXPECT_EQ(axis("-10:", tens_), (Axis{.count = 36}));
  EXPECT_EQ(axis("0:360", tens_), (Axis{.count = 36}));
  EXPECT_EQ(axis("10:360", tens_), (Axis{.first = 1, .count = 35}));
  EXPECT_EQ(axis("90:160", {100, 110, 150}), (Axis{.count = 3}));
  EXPECT_EQ(axis("-10:20", tens_, "m"), (Axis{.count = 3}));
  EXPECT_TRUE(names(error_of([&] { axis("350:20", tens_, "m"); }), "350", "20"));
  EXPECT_TRUE(names(error_of([&] { axis("-10", tens_); }), "-10", "350"));
  EXPECT_EQ(axis("-1e300:1e300", tens_), (Axis{.count = 36}));
  EXPECT_TRUE(names(error_of([&] { axis("1e300:2", tens_); }), "lon"));
  EXPECT_TRUE(names(error_of([&] { axis("350:20", {100, 110}); }), "110"));
}

TEST_F(Longitudes, BeyondTheirEndsAreNamed) {
  axis("90:160", {100, 110, 150});
  ASSERT_EQ(beyond_.size(), 1u);
  EXPECT_TRUE(names(beyond_[0], "lon=90:160", "100", "150"));
  axis("100:", {100, 110, 150});
  EXPECT_TRUE(beyond_.empty());
  axis("-10:20:2", tens_, "m");
  ASSERT_EQ(beyond_.size(), 1u);
  EXPECT_TRUE(names(beyond_[0], "lon=-10:20", "0", "350"));
  axis("100", tens_);
  EXPECT_TRUE(beyond_.empty());
}

TEST(Selections, ByCoordinateNeedStrictlyMonotoneOnes) {
  const double nan = std::nan("");
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {1, 2, 2}, {1, 3, 2}, {3, 1, 2}, {nan, 1, 2}, {1, nan, 2}, {1, 2, nan}, {2, 2, 2}}) {
    const std::vector<Dimension> one = {{"x", 3, true}};
    const auto of = [&](std::size_t) {
      return std::optional(Coordinates{"x", ElementType::f64, values, {}});
    };
    for (const char* const text : {"x=1", "x=1:2"}) {
      const auto message = error_of([&] { resolve(SelectionText::parse(text), one, of, data); });
      EXPECT_TRUE(names(message, data, "x", "character 2", "position"));
    }
  }
}

TEST(Selections, HaveACanonicalText) {
  const std::vector<std::uint64_t> extents = {4, 5, 6};
  const auto canonical = [&](const std::string& text) { return text_of(selected(text), extents); };
  EXPECT_EQ(canonical("..."), "[:, :, :]");
  EXPECT_EQ(canonical("-1, 0:5, ::2"), "[3, :, 0:5:2]");
  EXPECT_EQ(canonical("1:2, ..., -6:-3"), "[1:2, :, 0:3]");
  EXPECT_EQ(canonical("lat=0"), "[:, 2, :]");
}

// ---------------------------------------------------------------- random selections

/// A text by position for an extent, and the positions that it selects; none if it is an error.
struct Case {
  std::string text;
  std::vector<std::uint64_t> positions;
  bool removes = false;
};

class RandomSelections : public testing::Test {
 protected:
  std::int64_t below(std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_);
  }

  /// The model tests every position of the dimension.
  Case item(std::int64_t extent) {
    const std::int64_t a = below(2 * extent + 4) - extent - 2,
                       b = below(2 * extent + 4) - extent - 2;
    const std::int64_t step = below(4) + 1;
    Case made;
    const auto meant = [&](std::int64_t at) { return at < 0 ? at + extent : at; };
    if (below(3) == 0) {
      made = {std::to_string(a), {}, true};
      if (meant(a) >= 0 && meant(a) < extent) {
        made.positions.push_back(static_cast<std::uint64_t>(meant(a)));
      }
      return made;
    }
    const bool has_start = below(4) > 0, has_stop = below(4) > 0, has_step = below(2) > 0;
    const std::int64_t start = has_start ? meant(a) : 0, stop = has_stop ? meant(b) : extent;
    made.text = (has_start ? std::to_string(a) : "") + ":" + (has_stop ? std::to_string(b) : "");
    if (has_step) made.text += ":" + std::to_string(step);
    if (start < 0 || start > extent || stop < 0 || stop > extent) return made;
    for (std::int64_t i = 0; i < extent; ++i) {
      if (i >= start && i < stop && (i - start) % (has_step ? step : 1) == 0) {
        made.positions.push_back(static_cast<std::uint64_t>(i));
      }
    }
    return made;
  }

  static std::vector<std::uint64_t> positions_of(const Axis& axis) {
    std::vector<std::uint64_t> positions;
    for (std::uint64_t i = 0; i < axis.count; ++i) positions.push_back(axis.first + i * axis.step);
    return positions;
  }

  std::mt19937_64 random_{7};
};

TEST_F(RandomSelections, ByPositionSelectWhatAModelSelects) {
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Dimension> shape;
    std::vector<std::uint64_t> extents;
    std::vector<Case> cases;
    std::vector<std::string> texts;
    for (std::int64_t rank = below(4) + 1; rank > 0; --rank) {
      extents.push_back(static_cast<std::uint64_t>(below(7) + 1));
      shape.push_back({"", extents.back(), false});
      cases.push_back(item(static_cast<std::int64_t>(extents.back())));
      texts.push_back(cases.back().text);
    }
    const std::string text = join(texts, ",");
    Selection found;
    try {
      found = resolve(SelectionText::parse(text), shape, coordinates, data);
    } catch (const UsageError&) {
      EXPECT_TRUE(std::ranges::any_of(cases, [](const Case& c) { return c.positions.empty(); }))
          << text;
      continue;
    }
    ASSERT_EQ(found.size(), cases.size());
    for (std::size_t d = 0; d < found.size(); ++d) {
      EXPECT_EQ(positions_of(found[d]), cases[d].positions) << text;
      EXPECT_EQ(found[d].is_index, cases[d].removes) << text;
    }
    const std::string canonical = text_of(found, extents);
    const std::string_view inside = std::string_view(canonical).substr(1, canonical.size() - 2);
    EXPECT_EQ(resolve(SelectionText::parse(inside), shape, coordinates, data), found) << canonical;
  }
}

TEST_F(RandomSelections, ByCoordinateSelectWhatAModelSelects) {
  for (int round = 0; round < 20'000; ++round) {
    std::vector<double> values;
    for (std::int64_t left = below(7) + 1, at = below(5); left > 0; --left, at += below(3) + 1) {
      values.push_back(static_cast<double>(at) / 2);
    }
    const bool descends = values.size() > 1 && below(2) == 0;
    if (descends) std::ranges::reverse(values);
    const std::vector<Dimension> one = {{"x", values.size(), true}};
    const auto of = [&](std::size_t) {
      return std::optional(Coordinates{"x", ElementType::f64, values, {}});
    };
    const bool is_single = below(3) == 0, has_low = is_single || below(4) > 0,
               has_high = !is_single && below(4) > 0, swaps = descends && below(2) == 0;
    double low = static_cast<double>(below(30)) / 4, high = static_cast<double>(below(30)) / 4;
    if (has_low && has_high && low > high) std::swap(low, high);
    if (is_single) high = low;
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_in =
          (!has_low || values[i] >= low) && (!(has_high || is_single) || values[i] <= high);
      if (is_in) expected.push_back(i);
    }
    std::string start = has_low ? fmt::format("{}", low) : "";
    std::string stop = has_high ? fmt::format("{}", high) : "";
    if (swaps && has_low && has_high) std::swap(start, stop);
    const std::string text = is_single ? "x=" + start : fmt::format("x={}:{}", start, stop);
    try {
      const Selection found = resolve(SelectionText::parse(text), one, of, data);
      EXPECT_EQ(positions_of(found[0]), expected) << text;
      EXPECT_EQ(found[0].is_index, is_single);
    } catch (const UsageError&) {
      EXPECT_TRUE(expected.empty()) << text;
    }
  }
}

}  // namespace
}  // namespace shardstream::io
