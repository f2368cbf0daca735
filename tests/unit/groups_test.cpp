// Groups by dates and by labels, and weights: the options reduce.by and reduce.weights.
#include <array>
#include <cmath>

#include "support/sources.hpp"
#include "workloads/reduce/cells/groups.hpp"
#include "workloads/reduce/cells/weights.hpp"

namespace shardstream::workloads {
namespace {

namespace hdf5 = io::hdf5;

using test::attach_scales;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::make_scale;
using test::names;

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;
using GroupNumbers = std::vector<std::int32_t>;
using Numbers = std::vector<std::size_t>;

constexpr std::array option_rows = {
    OptionRow{"reduce.by", OptionKind::text, "", "", "Groups."},
    OptionRow{"reduce.weights", OptionKind::text, "", "", "Weights."},
};

Options options_of(const std::string& data, const std::string& by, const std::string& weights,
                   const std::string& conventions = "auto") {
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = {{"input.data", data},
                  {"reduce.by", by},
                  {"reduce.weights", weights},
                  {"input.conventions", conventions}};
  return OptionTable({io::input_options(), option_rows}).resolve(given, no_environment, {});
}

/// Files with data x, weights and labels.
class CellInputs : public testing::Test {
 protected:
  /// A file with the data set x of this shape, whose dimensions have coordinates 0, 1, 2, ... if
  /// they have names.
  hdf5::File make_data(const std::string& file, const std::vector<hsize_t>& shape,
                       const Strings& dimensions = {}) {
    hdf5::File made = make_file(folder_ / file);
    add(made, "x", shape, dimensions);
    return made;
  }
  /// Adds a data set of 1, 2, 3, ..., and scales of its dimensions that are not there yet.
  void add(const hdf5::File& file, const std::string& name, const std::vector<hsize_t>& shape,
           const Strings& dimensions = {}) {
    hsize_t count = 1;
    for (const hsize_t extent : shape) count *= extent;
    add(file, name, shape, dimensions, test::counting<double>(count, 1));
  }
  void add(const hdf5::File& file, const std::string& name, const std::vector<hsize_t>& shape,
           const Strings& dimensions, const Doubles& values) {
    make_dataset(file, name, H5T_IEEE_F64LE, {shape}, H5T_NATIVE_DOUBLE, values.data());
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      add_scale(file, dimensions[d], test::counting<double>(shape[d]));
    }
    if (!dimensions.empty()) attach_scales(file, name, dimensions);
  }
  void add_scale(const hdf5::File& file, const std::string& name, const Doubles& values) {
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) return;
    make_dataset(file, name, H5T_IEEE_F64LE, {{values.size()}}, H5T_NATIVE_DOUBLE, values.data());
    make_scale(file, name, name);
  }
  /// A file with x(time, 2) and a time coordinate.
  void make_times(const std::string& file, const Doubles& times, const std::string& units,
                  const std::string& calendar = "") {
    const hdf5::Lock lock;
    const hdf5::File made = make_file(folder_ / file);
    add_scale(made, "time", times);
    add(made, "x", {times.size(), 2});
    attach_scales(made, "x", {"time", ""});
    const hdf5::Dataset scale(H5Dopen2(made.get(), "time", H5P_DEFAULT), "open");
    if (!units.empty()) hdf5::write_attribute(scale.get(), "units", units);
    if (!calendar.empty()) hdf5::write_attribute(scale.get(), "calendar", calendar);
  }
  /// Adds bounds of the time coordinate, `per_element` numbers for each, and names them.
  void add_bounds(const std::string& file, const Doubles& bounds, hsize_t per_element = 2,
                  const std::string& name = "time_bnds") {
    {
      const hdf5::Lock lock;
      const hdf5::File opened(H5Fopen((folder_ / file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
      make_dataset(opened, "time_bnds", H5T_IEEE_F64LE,
                   {{bounds.size() / per_element, per_element}}, H5T_NATIVE_DOUBLE, bounds.data());
    }
    set(file, "time", "bounds", name);
  }
  template <class T>
  void add_labels(const hdf5::File& file, const std::string& name, hid_t stored, hid_t given,
                  const std::vector<T>& labels, const Strings& dimensions = {}) {
    make_dataset(file, name, stored, {{labels.size()}}, given, labels.data());
    if (!dimensions.empty()) attach_scales(file, name, dimensions);
  }
  static hdf5::Type text_type(std::size_t size, H5T_str_t padding = H5T_STR_NULLPAD) {
    hdf5::Type type(H5Tcopy(H5T_C_S1), "H5Tcopy");
    hdf5::check(H5Tset_size(type.get(), size), "H5Tset_size");
    if (size != H5T_VARIABLE) hdf5::check(H5Tset_strpad(type.get(), padding), "H5Tset_strpad");
    return type;
  }
  template <class Value>
  void set(const std::string& file, const std::string& dataset, const std::string& attribute,
           const Value& value) {
    const hdf5::Lock lock;
    const hdf5::File opened(H5Fopen((folder_ / file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    const hdf5::Dataset object(H5Dopen2(opened.get(), dataset.c_str(), H5P_DEFAULT), "open");
    hdf5::write_attribute(object.get(), attribute, value);
  }

  std::string path(const std::string& text) const {
    return text.find(".h5") == std::string::npos ? text : folder_ / text;
  }
  CellGroups groups(const std::string& data, const std::string& by, const Numbers& reduced) {
    const Options options = options_of(path(data), path(by), "");
    const auto source = io::open_source(options);
    const auto found = open_groups(options, *source, reduced);
    if (!found) throw std::logic_error("no groups");
    return *found;
  }
  CellWeights weights(const std::string& data, const std::string& named, const Numbers& reduced,
                      const std::string& conventions = "auto") {
    const Options options = options_of(path(data), "", path(named), conventions);
    const auto source = io::open_source(options);
    const auto found = open_weights(options, *source, reduced);
    if (!found) throw std::logic_error("no weights");
    return *found;
  }
  std::string groups_error(const std::string& data, const std::string& by, const Numbers& reduced) {
    return error_of([&] { groups(data, by, reduced); });
  }
  std::string weights_error(const std::string& data, const std::string& named,
                            const Numbers& reduced) {
    return error_of([&] { weights(data, named, reduced); });
  }

  test::TemporaryFolder folder_;
};

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
  set("x.h5", "time_bnds", "units", std::string("hours since 2002-01-01"));
  const CellGroups years = groups("x.h5:/x", "time:year", {0});
  EXPECT_EQ(std::get<Integers>(years.labels), (Integers{2002}));
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

// ---------------------------------------------------------------- weights

using WeightsOfCells = CellInputs;

TEST_F(WeightsOfCells, FindTheirDimensionsByName) {
  const hdf5::File file = make_data("x.h5", {2, 3, 4}, {"t", "y", "z"});
  add(file, "w", {3}, {"y"});
  const CellWeights one = weights("x.h5:/x", "x.h5:/w", {0, 1, 2});
  EXPECT_EQ(one.dimensions, (Numbers{1}));
  EXPECT_EQ(one.values, (Doubles{1, 2, 3}));
  EXPECT_EQ(one.name, (folder_ / "x.h5") + ":/w");
  EXPECT_EQ(one.origin.files.size(), 1U);
  EXPECT_EQ(one.origin.files[0].option, "reduce.weights");
  add(file, "transposed", {4, 3}, {"z", "y"});
  const CellWeights two = weights("x.h5:/x", "x.h5:/transposed", {1});
  EXPECT_EQ(two.dimensions, (Numbers{1, 2}));
  EXPECT_EQ(two.values, (Doubles{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}));
  // A dimension that stays.
  EXPECT_EQ(weights("x.h5:/x", "x.h5:/w", {0}).dimensions, (Numbers{1}));
  add(file, "other", {3}, {"other"});
  EXPECT_TRUE(
      names(weights_error("x.h5:/x", "x.h5:/other", {1}), "reduce.weights", "other=3", "y=3"));
}

TEST_F(WeightsOfCells, FindTheirDimensionsByLengths) {
  const hdf5::File file = make_data("x.h5", {4, 3, 4, 5});
  add(file, "w", {3, 5});
  EXPECT_EQ(weights("x.h5:/x", "x.h5:/w", {0}).dimensions, (Numbers{1, 3}));
  add(file, "four", {4});
  EXPECT_TRUE(
      names(weights_error("x.h5:/x", "x.h5:/four", {0, 2}), "reduce.weights", "several", "4"));
  EXPECT_TRUE(names(weights_error("x.h5:/x", "x.h5:/four", {1}), "reduce.weights", "several"));
  EXPECT_EQ(weights("x.h5:/x", "x.h5:/four", {1, 2}).dimensions, (Numbers{2}));
  add(file, "wrong", {5, 3});
  EXPECT_TRUE(names(weights_error("x.h5:/x", "x.h5:/wrong", {0}), "reduce.weights", "5 x 3"));
  const hdf5::File ones = make_data("ones.h5", {1, 4, 1});
  add(ones, "w", {1, 4});
  EXPECT_EQ(weights("ones.h5:/x", "ones.h5:/w", {0, 1, 2}).dimensions, (Numbers{0, 1}));
}

TEST_F(WeightsOfCells, AreThoseOfTheSelectedIndices) {
  const hdf5::File file = make_data("x.h5", {6, 2}, {"t", "y"});
  add(file, "all", {2, 6}, {"y", "t"});
  const CellWeights some = weights("x.h5:/x[1::2, :]", "x.h5:/all", {0});
  EXPECT_EQ(some.dimensions, (Numbers{0, 1}));
  EXPECT_EQ(some.values, (Doubles{2, 8, 4, 10, 6, 12}));
  EXPECT_EQ(weights("x.h5:/x[1::2, :]", "x.h5:/all[:, 1::2]", {0}).values, some.values);
  EXPECT_EQ(weights("x.h5:/x[1::2, 1]", "x.h5:/all[1, :]", {0}).values, (Doubles{8, 10, 12}));
  EXPECT_TRUE(names(weights_error("x.h5:/x[1::2, :]", "x.h5:/all[:, 0::2]", {0}), "reduce.weights",
                    "t", "0", "1"));
  EXPECT_TRUE(names(weights_error("x.h5:/x[:, 1]", "x.h5:/all", {0}), "reduce.weights"));
  // Weights that do not count may have any value.
  add(file, "holes", {6}, {"t"}, {NAN, 1, -1, 2, INFINITY, 3});
  EXPECT_EQ(weights("x.h5:/x[1::2]", "x.h5:/holes", {0}).values, (Doubles{1, 2, 3}));
  EXPECT_TRUE(names(weights_error("x.h5:/x[0::2]", "x.h5:/holes", {0}), "reduce.weights", "0"));
}

TEST_F(WeightsOfCells, AreFiniteAndNotNegative) {
  const hdf5::File file = make_data("x.h5", {2, 3});
  const auto complaint = [&](const std::string& name, const Doubles& values) {
    add(file, name, {2, 3}, {}, values);
    return weights_error("x.h5:/x", "x.h5:/" + name, {0});
  };
  EXPECT_TRUE(names(complaint("nan", {1, 1, 1, 1, 1, NAN}), "reduce.weights", "[1, 2]", "NaN"));
  EXPECT_TRUE(names(complaint("inf", {1, INFINITY, 1, 1, 1, NAN}), "reduce.weights", "[0, 1]"));
  EXPECT_TRUE(
      names(complaint("negative", {1, 1, 1, -0.5, 1, 1}), "reduce.weights", "[1, 0]", "-0.5"));
  EXPECT_TRUE(names(complaint("zero", Doubles(6)), "reduce.weights", "6"));
  EXPECT_TRUE(names(weights_error("x.h5:/x", "uniform", {0}), "reduce.weights", "uniform"));
  EXPECT_TRUE(names(weights_error("x.h5:/x", "x.h5:/none", {0}), "reduce.weights", "none"));
}

TEST_F(WeightsOfCells, AreNeitherScalarsNorTooMany) {
  const hdf5::File file = make_data("x.h5", {2, 3});
  add(file, "scalar", {}, {}, {1});
  EXPECT_TRUE(names(weights_error("x.h5:/x", "x.h5:/scalar", {0}), "reduce.weights", "scalar"));
  make_dataset(file, "large", H5T_STD_I8LE, {{max_weights + 1}}, H5T_NATIVE_INT8, nullptr);
  EXPECT_TRUE(names(weights_error("x.h5:/x", "x.h5:/large", {0}), "reduce.weights", max_weights));
}

TEST_F(WeightsOfCells, HaveTheCoordinatesOfTheData) {
  make_data("x.h5", {3, 2}, {"t", "y"});
  const hdf5::File file = make_file(folder_ / "w.h5");
  add_scale(file, "t", {0, 1, 2.5});
  add(file, "w", {3});
  attach_scales(file, "w", {"t"});
  EXPECT_TRUE(names(weights_error("x.h5:/x", "w.h5:/w", {0}), "reduce.weights", "t", "2"));
  const hdf5::File twice = make_file(folder_ / "twice.h5");
  add_scale(twice, "t", {1, 0, 1});
  add(twice, "w", {3}, {"t"});
  EXPECT_TRUE(names(weights_error("x.h5:/x", "twice.h5:/w", {0}), "reduce.weights", "t", "1"));
}

TEST_F(WeightsOfCells, ArePairedByCoordinatesInAnyOrder) {
  const hdf5::File data = make_data("x.h5", {4, 3}, {"t", "y"});
  const hdf5::File file = make_file(folder_ / "w.h5");
  add_scale(file, "t", {2, 0, 3, 1});
  add_scale(file, "y", {0, 1, 2});
  add(file, "w", {3, 4}, {"y", "t"});
  const CellWeights all = weights("x.h5:/x", "w.h5:/w", {0, 1});
  EXPECT_EQ(all.values, (Doubles{2, 6, 10, 4, 8, 12, 1, 5, 9, 3, 7, 11}));
  EXPECT_EQ(all.paired.reordered, (Strings{"t"}));
  EXPECT_TRUE(all.paired.by_position.empty());
  EXPECT_EQ(weights("x.h5:/x[1::2]", "w.h5:/w", {0}).values, (Doubles{4, 8, 12, 3, 7, 11}));
  add(file, "bad", {4}, {"t"}, {1, 1, -1, 1});
  EXPECT_TRUE(names(weights_error("x.h5:/x", "w.h5:/bad", {0}), "reduce.weights", "[2]", "-1"));
  add(file, "plain", {4});
  const CellWeights plain = weights("x.h5:/x", "w.h5:/plain", {0});
  EXPECT_EQ(plain.values, (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(plain.paired.by_position, (Strings{"t"}));
  EXPECT_TRUE(plain.paired.reordered.empty());
}

TEST_F(WeightsOfCells, CompareUnitsByTheirMeaning) {
  {
    make_data("x.h5", {3}, {"t"});
    const hdf5::File file = make_file(folder_ / "w.h5");
    add_scale(file, "t", {2, 1, 0});
    add(file, "w", {3}, {"t"});
  }
  const auto values = [&](const char* of_data, const char* of_weights) {
    set("x.h5", "t", "units", std::string(of_data));
    set("w.h5", "t", "units", std::string(of_weights));
    return weights("x.h5:/x", "w.h5:/w", {0}).values;
  };
  const Doubles reordered = {3, 2, 1};
  EXPECT_EQ(weights("x.h5:/x", "w.h5:/w", {0}).values, reordered);
  EXPECT_EQ(values("degrees_north", "degree_N"), reordered);
  EXPECT_EQ(values("degreesE", "degree_east"), reordered);
  EXPECT_EQ(values("days since 2001-01-01", "day since 2001-1-1 00:00"), reordered);
  EXPECT_EQ(values("level", "Level"), reordered);
  for (const auto& [one, two] : {std::pair("degrees_north", "degrees_east"), std::pair("m", "K"),
                                 std::pair("days since 2001-01-01", "m"),
                                 std::pair("days since 2001-01-01", "days since 2002-01-01")}) {
    EXPECT_TRUE(names(error_of([&] { values(one, two); }), "reduce.weights", "t")) << one;
  }
}

TEST_F(WeightsOfCells, OfIntegersMayBeMissing) {
  const hdf5::File file = make_data("x.h5", {3});
  add_labels<std::int64_t>(file, "w", H5T_STD_I16LE, H5T_NATIVE_INT64, {3, 0, -1});
  set("x.h5", "w", "missing_value", std::int64_t{-1});
  set("x.h5", "w", "units", std::string("km2"));
  EXPECT_TRUE(names(weights_error("x.h5:/x", "x.h5:/w", {0}), "reduce.weights", "[2]", "missing"));
  EXPECT_EQ(weights("x.h5:/x[:2]", "x.h5:/w", {0}).values, (Doubles{3, 0}));
  EXPECT_EQ(weights("x.h5:/x[:2]", "x.h5:/w", {0}).units, "km2");
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
