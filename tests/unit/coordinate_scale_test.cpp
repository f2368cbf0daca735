// The meaning of coordinates: spellings of units, times in other units, longitudes.
#include "io/source/coordinate_scale.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.hpp"

namespace shardstream::io {
namespace {

using Attributes = std::vector<std::pair<std::string, std::string>>;

CoordinateScale scale(const std::string& units, const std::string& calendar = "",
                      ElementType type = ElementType::f64) {
  Attributes attributes;
  if (!units.empty()) attributes.emplace_back("units", units);
  if (!calendar.empty()) attributes.emplace_back("calendar", calendar);
  return {type, attributes};
}

bool have_same_numbers(const std::string& one, const std::string& two) {
  return CommonScale(scale(one), scale(two)).has_same_numbers();
}

std::string conflict(const std::string& one, const std::string& two) {
  return CommonScale(scale(one), scale(two)).conflict();
}

TEST(CoordinateScales, KnowTheSpellingsOfUnits) {
  for (const char* const north : {"degrees_north", "degree_north", "degrees_N", "degree_N",
                                  "degreesN", "degreeN", "Degrees North", "degrees"}) {
    EXPECT_TRUE(have_same_numbers("degrees_north", north)) << north;
  }
  for (const char* const east :
       {"degrees_east", "degree_east", "degrees_E", "degree_E", "degreesE", "degreeE"}) {
    EXPECT_TRUE(have_same_numbers("degrees_east", east)) << east;
    EXPECT_NE(conflict("degrees_north", east), "") << east;
  }
  EXPECT_TRUE(have_same_numbers("hPa", "millibar"));
  EXPECT_TRUE(have_same_numbers("", "m"));
  EXPECT_TRUE(have_same_numbers("1", "m"));
  EXPECT_TRUE(have_same_numbers("odd unit", "odd_unit"));
  EXPECT_TRUE(test::names(conflict("m", "odd unit"), "'m'", "'odd unit'"));
  EXPECT_NE(conflict("m", "Pa"), "");
}

TEST(CoordinateScales, ConvertUnitsOfOneQuantity) {
  const CommonScale pressure(scale("Pa"), scale("hPa", "", ElementType::f32));
  EXPECT_FALSE(pressure.has_same_numbers());
  EXPECT_EQ(pressure.conflict(), "");
  EXPECT_TRUE(pressure.are_same(85000, 850));
  EXPECT_FALSE(pressure.are_same(85000, 85000));
  const CommonScale length(scale("km"), scale("m"));
  EXPECT_TRUE(length.are_same(0.1, 100));
  EXPECT_TRUE(length.are_same(1.1, 1100));
  EXPECT_FALSE(length.are_same(1.1, 1100.0000001));
  EXPECT_TRUE(length.are_same(std::nan(""), std::nan("")));
  EXPECT_FALSE(length.are_same(std::nan(""), 1));
}

TEST(CoordinateScales, CompareInstants) {
  const CommonScale times(scale("days since 2000-01-01"), scale("hours since 2000-02-01"));
  EXPECT_TRUE(times.are_same(31.25, 6));
  EXPECT_FALSE(times.are_same(31.25, 31.25));
  EXPECT_FALSE(times.are_same(31.25, 6.00001));
  const CommonScale old(scale("days since 1850-01-01", "standard"),
                        scale("seconds since 1970-01-01", "proleptic_gregorian"));
  EXPECT_EQ(old.conflict(), "");
  EXPECT_TRUE(old.are_same(43829.1, 0.1 * 86400));
  const CommonScale calendars(scale("days since 2000-01-01", "noleap"),
                              scale("days since 2000-01-01"));
  EXPECT_TRUE(test::names(calendars.conflict(), "days since 2000-01-01", "noleap"));
  EXPECT_EQ(CommonScale(scale("days since 2000-01-01", "gregorian"), scale("days since 2000-01-01"))
                .has_same_numbers(),
            true);
}

TEST(CoordinateScales, RoundToF32IfOneSideHasIt) {
  const CommonScale mixed(scale("", "", ElementType::f32), scale("", "", ElementType::f64));
  EXPECT_TRUE(mixed.are_same(0.1f, 0.1));
  EXPECT_FALSE(CommonScale(scale(""), scale("")).are_same(0.1f, 0.1));
}

TEST(CoordinateScales, AreLongitudesIfAttributesSaySo) {
  const auto is = [](const Attributes& attributes) { return are_longitudes("x", attributes); };
  EXPECT_TRUE(is({{"units", "degrees_east"}}));
  EXPECT_TRUE(is({{"units", "degreeE"}}));
  EXPECT_TRUE(is({{"standard_name", "longitude"}}));
  EXPECT_TRUE(is({{"axis", "X"}, {"units", "degrees"}}));
  EXPECT_FALSE(is({{"axis", "X"}, {"units", "m"}}));
  EXPECT_FALSE(is({{"axis", "Y"}, {"units", "degrees_north"}}));
  EXPECT_FALSE(is({}));
}

TEST(CoordinateScales, AreLongitudesByTheirNameOnlyWithoutAttributes) {
  const Attributes none, metres{{"units", "m"}}, named{{"long_name", "longitude"}};
  EXPECT_TRUE(are_longitudes("lon", none));
  EXPECT_TRUE(are_longitudes("longitude", named));
  EXPECT_FALSE(are_longitudes("lon", metres));
  EXPECT_FALSE(are_longitudes("lat", none));
}

}  // namespace
}  // namespace shardstream::io
