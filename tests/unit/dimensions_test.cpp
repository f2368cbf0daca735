// The dimensions of data sets: names, extents and coordinates, also in damaged files.
#include "io/hdf5/dimensions.hpp"

#include <cmath>

#include "support/sources.hpp"

namespace shardstream::io {
namespace {

using test::attach_scales;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::make_scale;
using test::names;

constexpr auto netcdf_extent = "This is a netCDF dimension but not a netCDF variable         3";

/// A file with data sets and scales.
class Dimensions : public testing::Test {
 protected:
  template <class T>
  void add(const std::string& name, hid_t stored, hid_t given, const std::vector<T>& values,
           const test::Storage& storage = {}) {
    test::Storage described = storage;
    if (described.shape.empty()) described.shape = {values.size()};
    make_dataset(file_, name, stored, described, given, values.data());
  }
  void add_scale(const std::string& name, const std::vector<double>& values) {
    add(name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values);
    make_scale(file_, name, name);
  }
  /// A data set without values.
  void add_data(const std::vector<hsize_t>& shape, const std::vector<std::string>& scales = {}) {
    make_dataset(file_, "x", H5T_IEEE_F32LE, {shape}, H5T_NATIVE_FLOAT, nullptr);
    if (!scales.empty()) attach_scales(file_, "x", scales);
  }
  hdf5::Dataset open(const std::string& name = "x") {
    const hdf5::Lock lock;
    return {H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT), "open"};
  }
  std::vector<Dimension> dimensions(const std::string& name = "x") {
    const hdf5::Lock lock;
    return dimensions_of(open(name), "f.h5:/" + name);
  }
  std::optional<Coordinates> coordinates(std::size_t dimension, const std::string& name = "x") {
    const hdf5::Lock lock;
    return read_coordinates(open(name), dimension, "f.h5:/" + name);
  }
  void label(const std::vector<const char*>& labels) {
    const hdf5::Lock lock;
    const hdf5::Type text(H5Tcopy(H5T_C_S1), "H5Tcopy");
    H5Tset_size(text.get(), H5T_VARIABLE);
    const hsize_t count = labels.size();
    const hdf5::Space space(H5Screate_simple(1, &count, nullptr), "space");
    const auto dataset = open();
    const hdf5::Attribute attribute(H5Acreate2(dataset.get(), "DIMENSION_LABELS", text.get(),
                                               space.get(), H5P_DEFAULT, H5P_DEFAULT),
                                    "DIMENSION_LABELS");
    hdf5::check(H5Awrite(attribute.get(), text.get(), labels.data()), "H5Awrite");
  }

  const test::TemporaryFolder folder_;
  hdf5::File file_ = make_file(folder_ / "f.h5");
};

using Expected = std::vector<Dimension>;

TEST_F(Dimensions, HaveTheNamesOfTheirScales) {
  test::make_group(file_, "g");
  add_scale("g/lat", {10, 20});
  add_scale("n", {0, 0, 0});
  make_scale(file_, "g/lat", "latitude");
  {
    const hdf5::Lock lock;
    const auto scale = open("n");
    hdf5::write_fixed_attribute(scale.get(), "NAME", netcdf_extent);
  }
  add_data({2, 3, 4}, {"g/lat", "n", ""});
  EXPECT_EQ(dimensions(), (Expected{{"lat", 2, true}, {"n", 3, false}, {"", 4, false}}));
  EXPECT_EQ(text_of(dimensions()), "lat=2 x n=3 x 4");
  EXPECT_EQ(coordinates(0)->name, "lat");
  EXPECT_EQ(coordinates(0)->values, (std::vector<double>{10, 20}));
  EXPECT_FALSE(coordinates(1));
  EXPECT_FALSE(coordinates(2));
}

TEST_F(Dimensions, WithoutAScaleHaveTheirLabels) {
  add_scale("lat", {10, 20});
  add_data({2, 3, 4}, {"lat", "", ""});
  label({"rows", "columns", ""});
  EXPECT_EQ(dimensions(), (Expected{{"lat", 2, true}, {"columns", 3, false}, {"", 4, false}}));
}

TEST_F(Dimensions, OfAScaleAreItself) {
  add_scale("lat", {10, 20});
  EXPECT_EQ(dimensions("lat"), (Expected{{"lat", 2, true}}));
  EXPECT_EQ(coordinates(0, "lat")->values, (std::vector<double>{10, 20}));
}

TEST_F(Dimensions, OfAScalarAreNone) {
  add_data({});
  EXPECT_EQ(dimensions(), Expected());
  EXPECT_EQ(text_of(dimensions()), "");
}

TEST_F(Dimensions, MayBeShorterThanTheirScales) {
  add_scale("time", {1, 2, 3, 4});
  add_data({3}, {"time"});
  EXPECT_EQ(coordinates(0)->values, (std::vector<double>{1, 2, 3}));
}

TEST_F(Dimensions, ScalesThatDoNotFitGiveOnlyTheName) {
  add_scale("short", {1});
  add("square", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, std::vector<double>(9), {{3, 3}});
  add("names", H5T_C_S1, H5T_C_S1, std::vector<char>{'a', 'b', 'c'});
  make_dataset(file_, "virtual", H5T_IEEE_F64LE,
               {{3}, {}, [](hid_t creation) { H5Pset_layout(creation, H5D_VIRTUAL); }},
               H5T_NATIVE_DOUBLE, nullptr);
  make_dataset(file_, "outside", H5T_IEEE_F64LE,
               {{3}, {}, [](hid_t creation) { H5Pset_external(creation, "none", 0, 24); }},
               H5T_NATIVE_DOUBLE, nullptr);
  const std::vector<std::string> scales = {"short", "square", "names", "virtual", "outside"};
  add_data({3, 3, 3, 3, 3}, scales);
  const auto found = dimensions();
  for (std::size_t d = 0; d < scales.size(); ++d) {
    EXPECT_EQ(found[d], (Dimension{scales[d], 3, false}));
    EXPECT_FALSE(coordinates(d));
  }
}

TEST_F(Dimensions, CoordinatesAreUnpackedAndMissingOnesAreNaN) {
  add("t", H5T_STD_I16BE, H5T_NATIVE_INT16, std::vector<std::int16_t>{1, -1, 3});
  {
    const hdf5::Lock lock;
    const auto scale = open("t");
    hdf5::write_attribute(scale.get(), "scale_factor", 0.5);
    hdf5::write_attribute(scale.get(), "_FillValue", std::int64_t{-1});
    hdf5::write_attribute(scale.get(), "units", std::string("days since 2000-01-01"));
    hdf5::write_attribute(scale.get(), "axis", std::string("T"));
    hdf5::write_attribute(scale.get(), "history", std::string("none"));
  }
  add_data({3}, {"t"});
  const auto found = coordinates(0).value();
  EXPECT_EQ(found.type, ElementType::f64);
  EXPECT_EQ(found.values[0], 0.5);
  EXPECT_TRUE(std::isnan(found.values[1]));
  EXPECT_EQ(found.values[2], 1.5);
  using Texts = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(found.attributes, (Texts{{"units", "days since 2000-01-01"}, {"axis", "T"}}));
}

TEST_F(Dimensions, CoordinatesMayHaveAnyTypeOfNumbers) {
  const hdf5::Lock lock;
  const hdf5::Type half(H5Tcopy(H5T_IEEE_F32BE)), wide(H5Tcopy(H5T_STD_I32LE));
  H5Tset_fields(half.get(), 15, 10, 5, 0, 10);
  H5Tset_size(half.get(), 2);
  H5Tset_ebias(half.get(), 15);
  H5Tset_precision(wide.get(), 24);
  const std::vector<double> values = {0, 1, 2};
  for (const hid_t stored : {hid_t{H5T_STD_U64BE}, hid_t{H5T_IEEE_F32LE}, half.get(), wide.get()}) {
    file_ = {};
    file_ = make_file(folder_ / "f.h5");
    add("t", stored, H5T_NATIVE_DOUBLE, values);
    add_data({3}, {"t"});
    EXPECT_EQ(coordinates(0).value().values, values);
  }
}

TEST_F(Dimensions, DanglingReferencesCountAsNone) {
  add_scale("lat", {10, 20});
  add_scale("lon", {1, 2});
  add_data({2, 2}, {"lat", "lon"});
  {
    const hdf5::Lock lock;
    H5Ldelete(file_.get(), "lat", H5P_DEFAULT);
    file_ = {};
    file_ = hdf5::File(H5Fopen((folder_ / "f.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
  }
  EXPECT_EQ(dimensions(), (Expected{{"", 2, false}, {"lon", 2, true}}));
  EXPECT_FALSE(coordinates(0));
}

TEST_F(Dimensions, AttributesOfOtherTypesOrSizesCountAsNone) {
  add_data({2, 3});
  for (const char* const name : {"DIMENSION_LIST", "DIMENSION_LABELS"}) {
    const hdf5::Lock lock;
    const auto dataset = open();
    for (const auto& write : std::vector<std::function<void()>>{
             [&] { hdf5::write_attribute(dataset.get(), name, std::string("x")); },
             [&] { hdf5::write_attribute(dataset.get(), name, 1.0); },
             [&] {
               hdf5::write_attribute(dataset.get(), name, std::vector<std::int64_t>{1, 2});
             },
             [&] { hdf5::write_attribute(dataset.get(), name, std::vector<std::int64_t>{}); }}) {
      write();
      EXPECT_EQ(dimensions(), (Expected{{"", 2, false}, {"", 3, false}}));
    }
  }
}

TEST_F(Dimensions, CoordinatesThatCannotBeReadAreAnError) {
  make_dataset(file_, "t", H5T_IEEE_F64LE,
               {{3}, {3}, [](hid_t creation) { H5Pset_deflate(creation, 1); }}, H5T_NATIVE_DOUBLE,
               nullptr);
  {
    const hdf5::Lock lock;
    const auto scale = open("t");
    const hsize_t first = 0;
    hdf5::check(H5Dwrite_chunk(scale.get(), H5P_DEFAULT, 0, &first, 4, "junk"), "H5Dwrite_chunk");
  }
  add_data({3}, {"t"});
  EXPECT_EQ(dimensions(), (Expected{{"t", 3, true}}));
  EXPECT_TRUE(names(error_of([&] { coordinates(0); }), "'t'", "f.h5:/x"));
}

}  // namespace
}  // namespace shardstream::io
