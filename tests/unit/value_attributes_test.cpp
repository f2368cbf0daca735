// Attributes that change what values mean are found under any of their names, and others are not.
#include "io/description/value_attributes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/attribute_content.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using Names = std::vector<std::string>;

TEST(ValueAttributes, AreKnownByTheirNames) {
  const std::map<ValueMeaning, Names> names = {
      {ValueMeaning::marker,
       {"_FillValue",       "missing_value", "MissingValue", "FillValue",     "_Fillvalue",
        "FILLVAL",          "FILL_VALUE",    "fill",         "Fill Value",    "NODATA",
        "nodata",           "no_data",       "NoDataValue",  "no_data_value", "NODATA_value",
        "CodeMissingValue", "missing_data",  "undef",        "BLANK",         "invalid_value",
        "bad_value",        "undetect",      "_FillValue2",  "missing.value"}},
      {ValueMeaning::limit,
       {"valid_min", "valid_max", "valid_range", "ValidRange", "VALIDMIN", "Valid Range",
        "valid_minimum", "MinimumValidValue"}},
      {ValueMeaning::factor,
       {"scale_factor", "ScaleFactor", "SCALE FACTOR", "scale", "Scale", "slope", "Slope",
        "RescaleSlope", "gain", "channel_gain", "scaling_factor", "radiance_scales",
        "corrected_counts_scales", "BSCALE", "conversion", "calibration_factor", "multiplier"}},
      {ValueMeaning::addend,
       {"add_offset", "AddOffset", "Offset", "OFFSET", "offset", "intercept", "RescaleIntercept",
        "reflectance_offsets", "zero_point", "BZERO"}},
      {ValueMeaning::signedness, {"_Unsigned", "unsigned", "_unsigned"}},
      {ValueMeaning::no_values, {"MATLAB_empty"}}};
  for (const auto& [meaning, all] : names) {
    for (const auto& name : all) EXPECT_EQ(value_meaning(name), meaning) << name;
  }
}

TEST(ValueAttributes, OtherNamesAreNotTakenForThem) {
  for (const std::string name : {"DIMENSION_SCALE",
                                 "CLASS",
                                 "NAME",
                                 "REFERENCE_LIST",
                                 "DIMENSION_LIST",
                                 "DIMENSION_LABELS",
                                 "long_name",
                                 "standard_name",
                                 "units",
                                 "actual_range",
                                 "grayscale",
                                 "gray_scale",
                                 "log_scale",
                                 "colorscale",
                                 "timescale",
                                 "time_scale",
                                 "scale_height",
                                 "pixel_scale",
                                 "scale_factor_err",
                                 "add_offset_err",
                                 "scale_units",
                                 "offset_units",
                                 "time_offset",
                                 "utc_offset",
                                 "byte_offset",
                                 "data_offset",
                                 "x_offset",
                                 "polyfill",
                                 "again",
                                 "offsetting",
                                 "number_missing",
                                 "missing_count",
                                 "percent_missing",
                                 "missing_data_percentage",
                                 "valid_time",
                                 "valid",
                                 "validated",
                                 "MATLAB_class",
                                 "MATLAB_int_decode",
                                 "least_significant_digit",
                                 "IMAGE_MINMAXRANGE",
                                 "_ChunkSizes",
                                 "_Netcdf4Dimid",
                                 "coordinates",
                                 "description",
                                 "data",
                                 "value",
                                 "",
                                 "_",
                                 "1",
                                 "\xff\xfe",
                                 "fill_method",
                                 "biased_by",
                                 "upscaled"}) {
    EXPECT_EQ(value_meaning(name), std::nullopt) << name;
  }
}

class StoredValueAttributes : public testing::Test {
 protected:
  /// The result of value_attributes() for a data set of type `stored` with this attribute alone.
  Names found(hid_t stored, const std::string& name, hid_t type, std::vector<hsize_t> shape,
              const void* value) {
    const hdf5::Lock lock;
    const auto file = test::make_file(folder_ / "x.h5");
    test::make_dataset(file, "x", stored, {{3}}, stored, nullptr);
    const hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    const hdf5::Space space(
        shape.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const hdf5::Attribute attribute(
        H5Acreate2(dataset.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
        "attribute");
    hdf5::check(H5Awrite(attribute.get(), type, value), "write");
    return value_attributes(dataset);
  }
  Names found(const std::string& name, std::vector<double> values, hid_t stored = H5T_STD_I16LE) {
    return found(stored, name, H5T_NATIVE_DOUBLE, {values.size()}, values.data());
  }
  Names found_text(const std::string& name, const char* text, hid_t stored = H5T_STD_I16LE) {
    const hdf5::Lock lock;
    const hdf5::Type type(H5Tcopy(H5T_C_S1), "type");
    hdf5::check(H5Tset_size(type.get(), std::strlen(text) + 1), "size");
    return found(stored, name, type.get(), {}, text);
  }

  test::TemporaryFolder folder_;
};

TEST_F(StoredValueAttributes, ThoseThatChangeNothingAreLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Names none;
  EXPECT_EQ(found("_FillValue", {nan}), none);
  EXPECT_EQ(found("missing_value", {nan, nan}), none);
  EXPECT_EQ(found("missing_value", {nan, -999}), Names{"missing_value"});
  EXPECT_EQ(found_text("missing_value", "NaN"), none);
  EXPECT_EQ(found_text("CodeMissingValue", "-9999.9"), Names{"CodeMissingValue"});
  EXPECT_EQ(found("_FillValue", {-999}), Names{"_FillValue"});
  EXPECT_EQ(found("scale_factor", {1}), none);
  EXPECT_EQ(found("scales", {1, 1, 1}), none);
  EXPECT_EQ(found("scales", {1, 2, 1}), Names{"scales"});
  EXPECT_EQ(found_text("scale", "linear"), none);
  EXPECT_EQ(found_text("Slope", "0.1"), Names{"Slope"});
  EXPECT_EQ(found("add_offset", {0}), none);
  EXPECT_EQ(found("Offset", {-5}), Names{"Offset"});
  EXPECT_EQ(found("valid_range", {0, 5}), Names{"valid_range"});
  EXPECT_EQ(found("MATLAB_empty", {0}), none);
  EXPECT_EQ(found("MATLAB_empty", {1}), Names{"MATLAB_empty"});
  EXPECT_EQ(found("fill\x1b[31m", {1}), Names{"fill\\x1b[31m"});
}

TEST_F(StoredValueAttributes, ASignIsComparedWithTheType) {
  const Names none, it{"_Unsigned"};
  EXPECT_EQ(found_text("_Unsigned", "true"), it);
  EXPECT_EQ(found_text("_Unsigned", "True"), it);
  EXPECT_EQ(found_text("_Unsigned", "false"), none);
  EXPECT_EQ(found("_Unsigned", {1}), it);
  EXPECT_EQ(found("_Unsigned", {0}), none);
  EXPECT_EQ(found_text("_Unsigned", "perhaps"), it);
  EXPECT_EQ(found_text("_Unsigned", "true", H5T_STD_U8LE), none);
  EXPECT_EQ(found_text("_Unsigned", "false", H5T_STD_U8LE), it);
  EXPECT_EQ(found_text("_Unsigned", "true", H5T_IEEE_F32LE), none);
}

TEST_F(StoredValueAttributes, OfAnyTypeAreFound) {
  const std::int16_t big_endian = 0x0100;
  EXPECT_EQ(found(H5T_STD_I16LE, "scale_factor", H5T_STD_I16BE, {}, &big_endian), Names{});
  EXPECT_EQ(found(H5T_STD_I16LE, "_FillValue", H5T_STD_I16BE, {}, &big_endian),
            Names{"_FillValue"});
  const hdf5::Lock lock;
  const hdf5::Type boolean(H5Tenum_create(H5T_NATIVE_INT8), "type");
  std::int8_t one = 1, zero = 0;
  H5Tenum_insert(boolean.get(), "FALSE", &zero);
  H5Tenum_insert(boolean.get(), "TRUE", &one);
  EXPECT_EQ(found(H5T_STD_I16LE, "_Unsigned", boolean.get(), {}, &one), Names{"_Unsigned"});
  EXPECT_EQ(found(H5T_STD_I16LE, "_Unsigned", boolean.get(), {}, &zero), Names{});
  const hdf5::Type pair(H5Tcreate(H5T_COMPOUND, 2), "type");
  H5Tinsert(pair.get(), "a", 0, H5T_NATIVE_INT8);
  EXPECT_EQ(found(H5T_STD_I16LE, "missing_value", pair.get(), {}, &big_endian),
            Names{"missing_value"});
  const std::vector<double> many(10'000, 1);
  EXPECT_EQ(found(H5T_STD_I16LE, "scale", H5T_NATIVE_DOUBLE, {5'000}, many.data()), Names{"scale"});
}

}  // namespace
}  // namespace shardstream::io
