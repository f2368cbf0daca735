// Weights of cells: the option reduce.weights.
#include <cmath>

#include "support/cell_inputs.hpp"

namespace shardstream::workloads {
namespace {

using test::attach_scales;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

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

}  // namespace
}  // namespace shardstream::workloads
