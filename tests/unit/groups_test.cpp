// Groups by dates and by labels: the option reduce.by.
#include <cmath>

#include "support/cell_inputs.hpp"

namespace shardstream::workloads {
namespace {

using test::attach_scales;
using test::make_dataset;
using test::make_file;
using test::names;

// ---------------------------------------------------------------- groups by dates

using GroupsByDates = CellInputs;

TEST_F(GroupsByDates, AreMonthsSeasonsAndYears) {
  make_times("x.h5", {0, 31, 59, 365, 730 + 334}, "days since 2001-01-01");
  const CellGroups months = groups("x.h5:/x", "time:month", {0});
  EXPECT_EQ(months.dimension, 0U);
  EXPECT_EQ(months.group_of, (GroupNumbers{0, 1, 2, 0, 11}));
  EXPECT_EQ(std::get<Integers>(months.labels), test::counting<std::int64_t>(12, 1));
  EXPECT_EQ(months.name, "month");
  EXPECT_EQ(months.by, "time:month");
  EXPECT_TRUE(months.origin.files.empty());
  const CellGroups seasons = groups("x.h5:/x", "time:season", {0, 1});
  EXPECT_EQ(seasons.group_of, (GroupNumbers{0, 0, 1, 0, 0}));
  EXPECT_EQ(std::get<Strings>(seasons.labels), (Strings{"DJF", "MAM", "JJA", "SON"}));
  EXPECT_EQ(seasons.label(1), "MAM");
  const CellGroups years = groups("x.h5:/x", "0:year", {0});
  EXPECT_EQ(years.group_of, (GroupNumbers{0, 0, 0, 1, 2}));
  EXPECT_EQ(std::get<Integers>(years.labels), (Integers{2001, 2002, 2003}));
  EXPECT_EQ(years.label(2), "2003");
}

TEST_F(GroupsByDates, IncludeYearsWithoutElements) {
  make_times("x.h5", {0, 1100}, "days since 2001-01-01", "360_day");
  const CellGroups years = groups("x.h5:/x", "time:year", {0});
  EXPECT_EQ(std::get<Integers>(years.labels), (Integers{2001, 2002, 2003, 2004}));
  EXPECT_EQ(years.group_of, (GroupNumbers{0, 3}));
}

TEST_F(GroupsByDates, AreThoseOfTheSelectedIndices) {
  make_times("x.h5", {0, NAN, 59, 90, 120, 151}, "days since 2001-01-01");
  EXPECT_EQ(groups("x.h5:/x[2::2]", "time:month", {0}).group_of, (GroupNumbers{2, 4}));
  EXPECT_TRUE(names(groups_error("x.h5:/x[1:]", "time:month", {0}), "reduce.by", "time", "1"));
}

TEST_F(GroupsByDates, AreDecodedPerFile) {
  make_times("x_1.h5", {0, 31}, "days since 2001-01-01");
  make_times("x_2.h5", {0, 24.0 * 31}, "hours since 2001-03-01", "noleap");
  make_times("x_3.h5", {5}, "days since 2001-05-01");
  EXPECT_EQ(groups("x_*.h5:/x", "time:month", {0}).group_of, (GroupNumbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(groups("x_*.h5:/x[1::3]", "time:month", {0}).group_of, (GroupNumbers{1, 4}));
}

TEST_F(GroupsByDates, AreThoseOfTheMiddleOfBounds) {
  make_times("x.h5", {31, 59, 90}, "days since 2001-01-01", "noleap");
  add_bounds("x.h5", {0, 31, 31, 59, 59, 90});
  const CellGroups months = groups("x.h5:/x", "time:month", {0});
  EXPECT_EQ(months.group_of, (GroupNumbers{0, 1, 2}));
  EXPECT_EQ(months.bounds, "time_bnds");
  EXPECT_TRUE(months.origin.warnings.empty());
  EXPECT_EQ(groups("x.h5:/x[1::1]", "time:season", {0}).group_of, (GroupNumbers{0, 1}));
  // Bounds with units of their own.
  make_times("own.h5", {31, 59}, "days since 2001-01-01", "noleap");
  add_bounds("own.h5", {0, 24.0 * 31, 24.0 * 31, 24.0 * 59});
  set("own.h5", "time_bnds", "units", std::string("hours since 2001-01-01"));
  EXPECT_EQ(groups("own.h5:/x", "time:month", {0}).group_of, (GroupNumbers{0, 1}));
  // The middle of dates that are numbers is none of numbers.
  make_times("cdo.h5", {20010201, 20010301}, "day as %Y%m%d.%f");
  add_bounds("cdo.h5", {20010101, 20010201, 20010201, 20010301});
  EXPECT_EQ(groups("cdo.h5:/x", "time:month", {0}).group_of, (GroupNumbers{0, 1}));
}

TEST_F(GroupsByDates, OfSeveralFilesHaveTheirOwnBounds) {
  make_times("x_1.h5", {31}, "days since 2001-01-01");
  add_bounds("x_1.h5", {0, 31});
  make_times("x_2.h5", {31}, "days since 2001-02-01");
  EXPECT_EQ(groups("x_*.h5:/x", "time:month", {0}).group_of, (GroupNumbers{0, 2}));
  make_times("x_3.h5", {28}, "days since 2001-02-01");
  add_bounds("x_3.h5", {0, 28});
  EXPECT_EQ(groups("x_*.h5:/x", "time:month", {0}).group_of, (GroupNumbers{0, 2, 1}));
}

TEST_F(GroupsByDates, FollowTheCoordinatesIfBoundsCannotBeUsed) {
  const auto expect_unused = [&](const std::string& file) {
    const CellGroups made = groups(file + ":/x", "time:month", {0});
    EXPECT_EQ(made.group_of, (GroupNumbers{1, 2}));
    EXPECT_EQ(made.bounds, "");
    ASSERT_FALSE(made.origin.warnings.empty());
    EXPECT_TRUE(names(made.origin.warnings[0], "reduce.by", file, "time"));
  };
  make_times("absent.h5", {31.5, 59}, "days since 2001-01-01");
  set("absent.h5", "time", "bounds", std::string("none"));
  expect_unused("absent.h5");
  make_times("three.h5", {31.5, 59}, "days since 2001-01-01");
  add_bounds("three.h5", {0, 1, 2, 3, 4, 5}, 3);
  expect_unused("three.h5");
  make_times("short.h5", {31.5, 59}, "days since 2001-01-01");
  add_bounds("short.h5", {0, 31});
  expect_unused("short.h5");
  make_times("missing.h5", {31.5, 59}, "days since 2001-01-01");
  add_bounds("missing.h5", {0, 31, 31, NAN});
  expect_unused("missing.h5");
  make_times("calendar.h5", {31.5, 59}, "days since 2001-01-01");
  add_bounds("calendar.h5", {0, 31, 31, 59});
  set("calendar.h5", "time_bnds", "calendar", std::string("360_day"));
  expect_unused("calendar.h5");
  make_times("stale.h5", {31.5, 59}, "days since 2001-01-01");
  add_bounds("stale.h5", {0, 31, 31, 59});
  set("stale.h5", "time_bnds", "units", std::string("hours since 1999-01-01"));
  expect_unused("stale.h5");
}

TEST_F(GroupsByDates, WarnIfCoordinatesMayBeTheEndsOfMonths) {
  const auto warnings = [&](const Doubles& times) {
    make_times("x.h5", times, "days since 2001-01-01");
    return groups("x.h5:/x", "time:month", {0}).origin.warnings;
  };
  ASSERT_EQ(warnings({31, 59, 90}).size(), 1U);
  EXPECT_TRUE(names(warnings({31, 59, 90})[0], "reduce.by", "time", "bounds"));
  EXPECT_TRUE(warnings({31, 59, 90.5}).empty());
  EXPECT_TRUE(warnings({31, 60, 90}).empty());
}

TEST_F(GroupsByDates, NeedATimeCoordinate) {
  make_times("x.h5", {0, 31}, "days since 2001-01-01");
  EXPECT_TRUE(names(groups_error("x.h5:/x", "time:week", {0}), "reduce.by", "week", "season"));
  EXPECT_TRUE(names(groups_error("x.h5:/x", "lat:month", {0}), "reduce.by", "lat", "time"));
  EXPECT_TRUE(
      names(groups_error("x.h5:/x", "time:month", {1}), "reduce.by", "time", "reduce.over"));
  EXPECT_TRUE(names(groups_error("x.h5:/x", "1:month", {0, 1}), "reduce.by", "1"));
  EXPECT_TRUE(names(groups_error("ramp", "0:month", {0}), "reduce.by", "ramp"));
  EXPECT_TRUE(names(groups_error("x.h5:/x", "month", {0}), "reduce.by", "month"));
  EXPECT_TRUE(names(groups_error("x.h5:/x", "uniform", {0}), "reduce.by", "uniform"));
  make_times("no_units.h5", {0}, "");
  EXPECT_TRUE(
      names(groups_error("no_units.h5:/x", "time:month", {0}), "reduce.by", "time", "units"));
  make_times("kelvin.h5", {0}, "K");
  EXPECT_TRUE(names(groups_error("kelvin.h5:/x", "time:month", {0}), "reduce.by", "time", "K"));
  make_times("mars.h5", {0}, "days since 2001-01-01", "mars");
  EXPECT_TRUE(names(groups_error("mars.h5:/x", "time:year", {0}), "reduce.by", "mars"));
  make_times("far.h5", {0, 1e9}, "days since 2001-01-01");
  EXPECT_TRUE(names(groups_error("far.h5:/x", "time:year", {0}), "reduce.by", "1"));
  make_times("wide.h5", {-5e7, 5e7}, "days since 2001-01-01", "noleap");
  EXPECT_EQ(groups("wide.h5:/x", "time:year", {0}).count(), 273'974U);
  make_data("plain.h5", {4});
  EXPECT_TRUE(names(groups_error("plain.h5:/x", "0:month", {0}), "reduce.by"));
}

// ---------------------------------------------------------------- groups by labels

using GroupsByLabels = CellInputs;

TEST_F(GroupsByLabels, AreTheDistinctIntegersInAscendingOrder) {
  const hdf5::File file = make_data("x.h5", {5, 3}, {"t", "y"});
  add_labels<std::int64_t>(file, "basin", H5T_STD_I16BE, H5T_NATIVE_INT64, {7, -2, 7, 300, -2},
                           {"t"});
  const CellGroups made = groups("x.h5:/x", "x.h5:/basin", {0, 1});
  EXPECT_EQ(made.dimension, 0U);
  EXPECT_EQ(std::get<Integers>(made.labels), (Integers{-2, 7, 300}));
  EXPECT_EQ(made.group_of, (GroupNumbers{1, 0, 1, 2, 0}));
  EXPECT_EQ(made.name, "basin");
  EXPECT_EQ(made.by, (folder_ / "x.h5") + ":/basin");
  EXPECT_EQ(made.origin.files.size(), 1U);
  set("x.h5", "basin", "long_name", std::string("a basin"));
  set("x.h5", "basin", "missing_value", std::int64_t{7});
  const CellGroups masked = groups("x.h5:/x", "x.h5:/basin", {0});
  EXPECT_EQ(masked.group_of, (GroupNumbers{-1, 0, -1, 1, 0}));
  EXPECT_EQ(std::get<Integers>(masked.labels), (Integers{-2, 300}));
  std::set<std::string> taken = {"basin"};
  const io::ResultDimension result = masked.result_dimension(taken);
  EXPECT_EQ(result.name, "basin_of_data");
  EXPECT_EQ(result.extent, 2U);
  ASSERT_TRUE(result.coordinates.has_value());
  EXPECT_EQ(std::get<Integers>(result.coordinates->values), (Integers{-2, 300}));
  EXPECT_EQ(result.coordinates->attributes.size(), 1U);
}

TEST_F(GroupsByLabels, AreTextsOfAnyKind) {
  const hdf5::File file = make_data("x.h5", {4});
  const std::vector<const char*> texts = {"b", "", "\xc3\xa4", "b"};
  add_labels(file, "variable", text_type(H5T_VARIABLE).get(), text_type(H5T_VARIABLE).get(), texts);
  const hdf5::Type blanks = text_type(3, H5T_STR_SPACEPAD), nulls = text_type(3);
  make_dataset(file, "blanks", blanks.get(), {{4}}, blanks.get(), "b     \xc3\xa4 b  ");
  make_dataset(file, "nulls", nulls.get(), {{4}}, nulls.get(), "b\0\0\0\0\0\xc3\xa4\0b\0\0");
  const hdf5::Type letters = text_type(1);
  make_dataset(file, "rows", letters.get(), {{4, 3}}, letters.get(), "b\0\0\0\0\0\xc3\xa4\0b\0\0");
  for (const char* const name : {"variable", "blanks", "nulls", "rows"}) {
    const CellGroups made = groups("x.h5:/x", std::string("x.h5:/") + name, {0});
    EXPECT_EQ(std::get<Strings>(made.labels), (Strings{"b", "\xc3\xa4"})) << name;
    EXPECT_EQ(made.group_of, (GroupNumbers{0, -1, 1, 0})) << name;
    EXPECT_EQ(made.name, name);
    EXPECT_EQ(made.origin.files.size(), 1U);
    EXPECT_EQ(made.origin.files[0].option, "reduce.by");
  }
  set("x.h5", "nulls", "_FillValue", std::string("b"));
  EXPECT_EQ(groups("x.h5:/x", "x.h5:/nulls", {0}).group_of, (GroupNumbers{-1, -1, 0, -1}));
}

TEST_F(GroupsByLabels, FitASelectionOrAllIndices) {
  const hdf5::File file = make_data("x.h5", {6, 2}, {"t", "y"});
  add_labels<std::int64_t>(file, "all", H5T_STD_I8LE, H5T_NATIVE_INT64, {0, 1, 2, 3, 4, 5}, {"t"});
  const CellGroups some = groups("x.h5:/x[1::2]", "x.h5:/all", {0});
  EXPECT_EQ(std::get<Integers>(some.labels), (Integers{1, 3, 5}));
  EXPECT_EQ(groups("x.h5:/x[1::2]", "x.h5:/all[1::2]", {0}).label(2), "5");
  EXPECT_TRUE(names(groups_error("x.h5:/x[1::2]", "x.h5:/all[0::2]", {0}), "reduce.by", "t"));
  EXPECT_TRUE(names(groups_error("x.h5:/x[1::2]", "x.h5:/all[0:2]", {0}), "reduce.by", "t=2"));
  const hdf5::Type text = text_type(1);
  make_dataset(file, "texts", text.get(), {{6}}, text.get(), "abcdef");
  attach_scales(file, "texts", {"t"});
  EXPECT_EQ(std::get<Strings>(groups("x.h5:/x[1::2]", "x.h5:/texts", {0}).labels),
            (Strings{"b", "d", "f"}));
  EXPECT_EQ(groups("x.h5:/x[1::2]", "x.h5:/texts[1::2]", {0}).label(2), "f");
  EXPECT_EQ(groups("x.h5:/x[1::2]", "x.h5:/texts[t=1::2]", {0}).label(2), "f");
  EXPECT_TRUE(names(groups_error("x.h5:/x[1::2]", "x.h5:/texts[0::2]", {0}), "reduce.by", "t"));
}

TEST_F(GroupsByLabels, ArePairedByCoordinates) {
  make_data("x.h5", {4, 2}, {"t", "y"});
  const hdf5::File file = make_file(folder_ / "l.h5");
  add_scale(file, "t", {3, 2, 1, 0});
  add_labels<std::int64_t>(file, "numbers", H5T_STD_I8LE, H5T_NATIVE_INT64, {30, 20, 10, 0}, {"t"});
  const hdf5::Type text = text_type(1);
  make_dataset(file, "texts", text.get(), {{4}}, text.get(), "dcba");
  attach_scales(file, "texts", {"t"});
  add_labels<std::int64_t>(file, "plain", H5T_STD_I8LE, H5T_NATIVE_INT64, {30, 20, 10, 0});
  for (const char* const name : {"numbers", "texts"}) {
    const CellGroups made = groups("x.h5:/x", std::string("l.h5:/") + name, {0});
    EXPECT_EQ(made.group_of, (GroupNumbers{0, 1, 2, 3})) << name;
    EXPECT_EQ(made.paired.reordered, (Strings{"t"})) << name;
    EXPECT_EQ(groups("x.h5:/x[::3]", std::string("l.h5:/") + name, {0}).group_of,
              (GroupNumbers{0, 1}));
  }
  const CellGroups plain = groups("x.h5:/x", "l.h5:/plain", {0});
  EXPECT_EQ(plain.group_of, (GroupNumbers{3, 2, 1, 0}));
  EXPECT_EQ(plain.paired.by_position, (Strings{"t"}));
  EXPECT_TRUE(plain.paired.reordered.empty());
}

TEST_F(GroupsByLabels, ArePairedWithTimesInOtherUnits) {
  make_times("x_1.h5", {0, 31.5}, "days since 2001-01-01");
  make_times("x_2.h5", {0, 24.25}, "hours since 2001-03-01");
  const hdf5::File file = make_file(folder_ / "l.h5");
  add_scale(file, "time", {60.0 + 1 / 96.0, 59, 31.5, 0});  // 24.25 hours after 2001-03-01
  add_labels<std::int64_t>(file, "l", H5T_STD_I8LE, H5T_NATIVE_INT64, {3, 2, 1, 0}, {"time"});
  set("l.h5", "time", "units", std::string("days since 2001-01-01"));
  const CellGroups made = groups("x_*.h5:/x", "l.h5:/l", {0});
  EXPECT_EQ(made.group_of, (GroupNumbers{0, 1, 2, 3}));
  EXPECT_EQ(made.paired.reordered, (Strings{"time"}));
  set("l.h5", "time", "units", std::string("days since 2001-01-02"));
  EXPECT_TRUE(names(groups_error("x_*.h5:/x", "l.h5:/l", {0}), "reduce.by", "time"));
}

TEST_F(GroupsByLabels, OfSeveralFilesFollowOneAnother) {
  make_data("x.h5", {5});
  const hdf5::Type text = text_type(2);
  for (const int i : {1, 2}) {
    const hdf5::File file = make_file(folder_ / fmt::format("l_{}.h5", i));
    make_dataset(file, "texts", text.get(), {{i + hsize_t{1}}}, text.get(), "aabbcc");
    const Integers numbers = {10 * i, 10, 7};
    make_dataset(file, "numbers", H5T_STD_I32LE, {{i + hsize_t{1}}}, H5T_NATIVE_INT64,
                 numbers.data());
  }
  EXPECT_EQ(groups("x.h5:/x", "l_*.h5:/texts", {0}).group_of, (GroupNumbers{0, 1, 0, 1, 2}));
  EXPECT_EQ(groups("x.h5:/x", "l_*.h5:/texts", {0}).origin.files.size(), 2U);
  EXPECT_EQ(groups("x.h5:/x[1:]", "l_*.h5:/texts[1:]", {0}).group_of, (GroupNumbers{1, 0, 1, 2}));
  EXPECT_EQ(groups("x.h5:/x", "l_*.h5:/numbers", {0}).group_of, (GroupNumbers{1, 1, 2, 1, 0}));
}

TEST_F(GroupsByLabels, RejectOtherDataSets) {
  const hdf5::File file = make_data("x.h5", {4, 4, 3});
  const auto complaint = [&](const std::string& by, const Numbers& reduced = {0, 2}) {
    return groups_error("x.h5:/x", by, reduced);
  };
  add(file, "halves", {4}, {}, {0.5, 1, 1, 2});
  EXPECT_TRUE(names(complaint("x.h5:/halves"), "reduce.by", "0.5", "halves"));
  add(file, "whole", {4}, {}, {2, NAN, 2, 1});
  EXPECT_EQ(groups("x.h5:/x", "x.h5:/whole", {0}).group_of, (GroupNumbers{1, -1, 1, 0}));
  add(file, "empty", {4}, {}, {NAN, NAN, NAN, NAN});
  EXPECT_TRUE(names(complaint("x.h5:/empty"), "reduce.by", "empty"));
  EXPECT_TRUE(names(complaint("x.h5:/whole", {0, 1}), "reduce.by", "4", "several"));
  EXPECT_TRUE(names(complaint("x.h5:/whole", {2}), "reduce.by", "4", "3"));
  EXPECT_TRUE(names(complaint("x.h5:/x"), "reduce.by", "3", "dimensions"));
  EXPECT_TRUE(names(complaint("x.h5:/other"), "reduce.by", "other"));
  EXPECT_TRUE(names(complaint("y.h5:/whole"), "reduce.by", folder_ / "y.h5"));
  const hdf5::Type text = text_type(2);
  make_dataset(file, "texts", text.get(), {{4, 3}}, text.get(), "aabbccddaabbccddaabbccdd");
  EXPECT_TRUE(names(complaint("x.h5:/texts"), "reduce.by", "texts", "2"));
  make_dataset(file, "scalar", text.get(), {{}}, text.get(), "aa");
  EXPECT_TRUE(names(complaint("x.h5:/scalar"), "reduce.by", "scalar", "0"));
  const hdf5::Type long_text = text_type(5000);
  make_dataset(file, "long", long_text.get(), {{4}}, long_text.get(), nullptr);
  EXPECT_TRUE(names(complaint("x.h5:/long"), "reduce.by", "long", "5000"));
  make_dataset(file, "unwritten", text.get(), {{4}}, text.get(), nullptr);
  EXPECT_TRUE(names(complaint("x.h5:/unwritten"), "reduce.by", "unwritten"));
}

TEST_F(CellInputs, AreNoneByDefault) {
  make_data("x.h5", {3});
  const Options options = options_of(folder_ / "x.h5", "", "");
  const auto source = io::open_source(options);
  EXPECT_FALSE(open_groups(options, *source, Numbers{0}).has_value());
  EXPECT_FALSE(open_weights(options, *source, Numbers{0}).has_value());
}

}  // namespace
}  // namespace shardstream::workloads
