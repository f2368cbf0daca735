// The labels of results that have dimensions of a source.
#include "io/source/result_labels.hpp"

#include <cmath>

#include "support/sources.hpp"

namespace shardstream::io {
namespace {

using test::attach_scales;
using test::make_dataset;
using test::make_file;
using test::make_scale;
using test::names;

using Doubles = std::vector<double>;

class ResultLabels : public testing::Test {
 protected:
  /// A file with x(time, "a b", y, 2), in which y has no coordinates.
  void SetUp() override {
    const hdf5::Lock lock;
    const hdf5::File file = make_file(folder_ / "x.h5");
    add_scale(file, "time", {0, 31, 59});
    add_scale(file, "a b", {5, 4, 3, 2});
    make_dataset(file, "y", H5T_IEEE_F32LE, {{2}}, H5T_NATIVE_FLOAT, nullptr);
    make_scale(file, "y", "This is a netCDF dimension but not a netCDF variable         2");
    make_dataset(file, "x", H5T_IEEE_F32LE, {{3, 4, 2, 2}}, H5T_NATIVE_FLOAT, nullptr);
    attach_scales(file, "x", {"time", "a b", "y", ""});
    const hdf5::Dataset time(H5Dopen2(file.get(), "time", H5P_DEFAULT), "open");
    hdf5::write_attribute(time.get(), "units", std::string("days since 2001-01-01"));
    hdf5::write_attribute(time.get(), "axis", std::string("T"));
  }
  static void add_scale(const hdf5::File& file, const std::string& name, const Doubles& values) {
    make_dataset(file, name, H5T_IEEE_F32LE, {{values.size()}}, H5T_NATIVE_DOUBLE, values.data());
    make_scale(file, name, name);
  }
  std::vector<ResultDimension> dimensions(const std::string& selection,
                                          const std::vector<std::size_t>& kept) {
    warnings_.clear();
    const auto source = open((folder_ / "x.h5") + ":/x" + selection);
    EXPECT_EQ(data_name(*source), "x");
    return result_dimensions(*source, kept, taken_, warnings_);
  }

  test::TemporaryFolder folder_;
  std::set<std::string> taken_;
  std::vector<std::string> warnings_;
};

TEST_F(ResultLabels, AreCoordinatesWithTheirAttributes) {
  const auto found = dimensions("", {0, 1, 2, 3});
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].name, "time");
  EXPECT_EQ(found[0].extent, 3U);
  ASSERT_TRUE(found[0].coordinates.has_value());
  const Array& time = *found[0].coordinates;
  EXPECT_EQ(time.name, "time");
  EXPECT_EQ(time.dimension, "time");
  EXPECT_EQ(time.type, ElementType::f32);
  EXPECT_EQ(std::get<Doubles>(time.values), (Doubles{0, 31, 59}));
  EXPECT_EQ(time.attributes, (Attributes{{"units", std::string("days since 2001-01-01")},
                                         {"axis", std::string("T")}}));
  EXPECT_EQ(found[1].name, "a_b");
  EXPECT_EQ(found[1].coordinates->dimension, "a_b");
  EXPECT_EQ(found[2].name, "y");
  EXPECT_FALSE(found[2].coordinates.has_value());
  EXPECT_EQ(found[3].name, "dim_3");
  EXPECT_FALSE(found[3].coordinates.has_value());
  EXPECT_TRUE(warnings_.empty());
  LabelledData data;
  for (const ResultDimension& dimension : found) add(data, dimension);
  EXPECT_EQ(data.dimensions.size(), 4U);
  EXPECT_EQ(data.arrays.size(), 2U);
}

TEST_F(ResultLabels, AreThoseOfTheSelection) {
  const auto found = dimensions("[1:, ::3, 1:, 1:]", {3, 1, 2});
  EXPECT_EQ(found[0].name, "dim_3");
  ASSERT_TRUE(found[0].coordinates.has_value());
  EXPECT_EQ(std::get<Doubles>(found[0].coordinates->values), (Doubles{1}));
  EXPECT_EQ(found[0].coordinates->type, ElementType::i64);
  EXPECT_EQ(found[0].coordinates->attributes.at(0).first, "long_name");
  EXPECT_EQ(std::get<Doubles>(found[1].coordinates->values), (Doubles{5, 2}));
  EXPECT_EQ(found[2].extent, 1U);
  EXPECT_EQ(std::get<Doubles>(found[2].coordinates->values), (Doubles{1}));
}

TEST_F(ResultLabels, HaveNamesThatAreNotTaken) {
  taken_ = {"time", "a_b", "a_b_of_data"};
  const auto found = dimensions("", {0, 1});
  EXPECT_EQ(found[0].name, "time_of_data");
  EXPECT_EQ(found[0].coordinates->name, "time_of_data");
  EXPECT_EQ(found[1].name, "a_b_of_data_of_data");
  EXPECT_TRUE(taken_.contains("time_of_data"));
}

TEST_F(ResultLabels, OfGeneratorsAreExtents) {
  const auto source = open("ramp");
  EXPECT_EQ(data_name(*source), "ramp");
  const std::vector<std::size_t> all = {0};
  const auto found = result_dimensions(*source, all, taken_, warnings_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "dim_0");
  EXPECT_EQ(found[0].extent, 100U);
  EXPECT_FALSE(found[0].coordinates.has_value());
}

TEST_F(ResultLabels, LackCoordinatesThatCannotBeRead) {
  {
    const hdf5::Lock lock;
    const hdf5::File file(H5Fopen((folder_ / "x.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    const hdf5::Dataset time(H5Dopen2(file.get(), "time", H5P_DEFAULT), "open");
    hdf5::write_attribute(time.get(), "scale_factor", 0.0);
  }
  const auto found = dimensions("", {0});
  EXPECT_FALSE(found[0].coordinates.has_value());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(names(warnings_[0], "time", "scale_factor"));
}

}  // namespace
}  // namespace shardstream::io
