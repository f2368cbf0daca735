// The attributes of netCDF and HDF-EOS5 are applied as netCDF4-python does. Attributes that cannot
// be applied are reported, and those that leave no valid value are errors.
#include "io/description/conventions.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "io/hdf5/attribute_content.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"
#include "types/stored_value.hpp"

namespace shardstream::io {
namespace {

using S = StoredType;
using Names = std::vector<std::string>;

class ConventionsTest : public testing::Test {
 protected:
  /// Begins a data set of this type, without attributes.
  void start(hid_t type, S stored) {
    const hdf5::Lock lock;
    stored_ = stored;
    dataset_ = {};
    file_ = {};
    file_ = test::make_file(folder_ / "x.h5");
    test::make_dataset(file_, "x", type, {{3}}, type, nullptr);
    dataset_ = hdf5::Dataset(H5Dopen2(file_.get(), "x", H5P_DEFAULT), "open");
  }
  void start(S stored) {
    const hid_t types[] = {H5T_STD_I8LE,   H5T_STD_U8LE,  H5T_STD_I16LE, H5T_STD_U16LE,
                           H5T_STD_I32LE,  H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64LE,
                           H5T_IEEE_F32LE, H5T_IEEE_F64LE};
    start(types[static_cast<std::size_t>(stored)], stored);
  }
  void add(hid_t object, const std::string& name, hid_t type, std::vector<hsize_t> shape,
           const void* value) {
    const hdf5::Lock lock;
    const hdf5::Space space(
        shape.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const hdf5::Attribute attribute(
        H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), name);
    if (value != nullptr) hdf5::check(H5Awrite(attribute.get(), type, value), name);
  }
  void add(const std::string& name, hid_t type, std::vector<hsize_t> shape, const void* value) {
    add(dataset_.get(), name, type, std::move(shape), value);
  }
  void add(const std::string& name, const std::vector<double>& values) {
    add(name, H5T_NATIVE_DOUBLE, {values.size()}, values.data());
  }
  void add_f32(const std::string& name, float value) { add(name, H5T_NATIVE_FLOAT, {}, &value); }
  void add_text(const std::string& name, const char* text) {
    const hdf5::Lock lock;
    const hdf5::Type type(H5Tcopy(H5T_C_S1), "type");
    hdf5::check(H5Tset_size(type.get(), std::strlen(text) + 1), "size");
    add(name, type.get(), {}, text);
  }

  Conventions read() {
    const hdf5::Lock lock;
    return conventions_of(convention_attributes_of(dataset_, stored_), stored_, "x.h5:/x");
  }
  /// The missing values in words: "-9 or outside [0, 5]".
  std::string missing() {
    const Conventions found = read();
    const std::string before = ", missing: ";
    const std::string text = text_of(Conversion{
        .from = found.type, .to = ElementType::f64, .missing = found.missing, .unpacking = {}});
    const auto start = text.find(before);
    return start == std::string::npos ? "" : text.substr(start + before.size());
  }
  /// The unpacking in words: "* 0.5 (f64), + 3 (f64)".
  std::string unpacking() {
    const Conventions found = read();
    const std::string text =
        text_of(Conversion{.to = ElementType::f64, .missing = {}, .unpacking = found.unpacking});
    const auto start = text.find(", ");
    return start == std::string::npos ? "" : text.substr(start + 2);
  }
  Names not_applied() {
    const hdf5::Lock lock;
    Names found = value_attributes(dataset_);
    for (const std::string& applied : read().applied) std::erase(found, applied);
    return found;
  }
  /// Whether reading fails with a message that names the attribute and the option.
  void expect_error(const std::string& attribute) {
    try {
      read();
      ADD_FAILURE() << attribute;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(attribute), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("--input.conventions none"), std::string::npos);
    }
  }

  test::TemporaryFolder folder_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
  S stored_ = S::f32;
};

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_F(ConventionsTest, DataWithoutAttributesAreTakenAsTheyAre) {
  start(S::f32);
  add_text("units", "K");
  add("actual_range", {0, 5});
  const Conventions found = read();
  EXPECT_FALSE(found.missing.any());
  EXPECT_FALSE(found.unpacking.any());
  EXPECT_EQ(found.type, S::f32);
  EXPECT_EQ(found.applied, Names{});
  EXPECT_EQ(found.warnings, Names{});
}

TEST_F(ConventionsTest, MissingValuesOfAllAttributesAreCollected) {
  start(S::i16);
  add("_FillValue", {-9});
  add("missing_value", {-8, -9, -7});
  add("MissingValue", {-6});
  EXPECT_EQ(missing(), "-9 or -8 or -7 or -6");
  EXPECT_EQ(read().applied, (Names{"_FillValue", "missing_value", "MissingValue"}));
  EXPECT_EQ(read().warnings, Names{});
  EXPECT_EQ(not_applied(), Names{});
}

TEST_F(ConventionsTest, NaNIsMissingIfAnAttributeSaysSo) {
  start(S::f32);
  add("missing_value", {nan, -1});
  EXPECT_EQ(missing(), "-1 or NaN");
  start(S::i32);
  add("_FillValue", {nan});
  EXPECT_EQ(missing(), "");
  EXPECT_EQ(read().applied, Names{});
  EXPECT_EQ(read().warnings, Names{});
}

TEST_F(ConventionsTest, AttributesMayHaveAnyNumericType) {
  start(S::i16);
  const std::int16_t big_endian = 0x0100;
  add("_FillValue", H5T_STD_I16BE, {1, 1}, &big_endian);
  const hdf5::Type flag = [] {
    const hdf5::Lock lock;
    hdf5::Type type(H5Tenum_create(H5T_NATIVE_INT8), "type");
    std::int8_t zero = 0;
    H5Tenum_insert(type.get(), "FALSE", &zero);
    return type;
  }();
  const std::int8_t zero = 0;
  add("missing_value", flag.get(), {}, &zero);
  EXPECT_EQ(missing(), "1 or 0");
  start(S::u64);
  const std::uint64_t large = 18446744073709551614u;
  add("_FillValue", H5T_STD_U64LE, {}, &large);
  EXPECT_EQ(missing(), "18446744073709551614");
}

TEST_F(ConventionsTest, AttributesThatAreNoStoredValuesAreReportedAndNotApplied) {
  const double many[600] = {};
  const std::vector<std::pair<const char*, std::vector<double>>> unusable = {
      {"_FillValue", {0.5}}, {"_FillValue", {1, 2}},     {"missing_value", {1, 40000}},
      {"_FillValue", {}},    {"valid_min", {-1e9}},      {"valid_max", {1, 2}},
      {"valid_range", {1}},  {"valid_range", {1, 2, 3}}, {"missing_value", {many, many + 600}}};
  for (const auto& [name, values] : unusable) {
    start(S::i16);
    add(name, values);
    EXPECT_EQ(missing(), "") << name;
    EXPECT_EQ(read().applied, Names{});
    ASSERT_EQ(read().warnings.size(), 1u) << name;
    EXPECT_NE(read().warnings[0].find(name), std::string::npos);
    EXPECT_EQ(not_applied(), Names{name});
  }
  start(S::f32);
  add("missing_value", {1e20});
  EXPECT_EQ(missing(), "");
  EXPECT_EQ(read().warnings.size(), 1u);
}

TEST_F(ConventionsTest, AttributesOfOddTypesAreReported) {
  start(S::i16);
  add_text("missing_value", "-9");
  EXPECT_EQ(read().warnings.size(), 1u);
  EXPECT_EQ(not_applied(), Names{"missing_value"});
  const hdf5::Lock lock;
  const hdf5::Type pair(H5Tcreate(H5T_COMPOUND, 2), "type");
  H5Tinsert(pair.get(), "a", 0, H5T_NATIVE_INT8);
  const hdf5::Type list(H5Tvlen_create(H5T_NATIVE_INT), "type");
  const hdf5::Space null(H5Screate(H5S_NULL), "space");
  for (const hid_t type : {pair.get(), list.get(), H5T_STD_REF_OBJ, H5T_STD_B8LE}) {
    start(S::i16);
    add("_FillValue", type, {}, nullptr);
    EXPECT_EQ(read().applied, Names{});
    EXPECT_EQ(read().warnings.size(), 1u);
    add("scale_factor", type, {}, nullptr);
    expect_error("scale_factor");
  }
  start(S::i16);
  const hdf5::Attribute empty(H5Acreate2(dataset_.get(), "valid_range", H5T_NATIVE_INT, null.get(),
                                         H5P_DEFAULT, H5P_DEFAULT),
                              "attribute");
  EXPECT_EQ(read().warnings.size(), 1u);
}

TEST_F(ConventionsTest, AValidRangeTakesPrecedenceOverLimits) {
  start(S::i16);
  add("valid_min", {1});
  EXPECT_EQ(missing(), "below 1");
  add("valid_max", {9});
  EXPECT_EQ(missing(), "outside [1, 9]");
  add("valid_range", {0, 100});
  EXPECT_EQ(missing(), "outside [0, 100]");
  EXPECT_EQ(read().applied, Names{"valid_range"});
  EXPECT_EQ(not_applied(), (Names{"valid_max", "valid_min"}));
}

TEST_F(ConventionsTest, LimitsThatHoldForAllValuesAreDropped) {
  start(S::i16);
  add("valid_range", {-32768, 32767});
  EXPECT_EQ(missing(), "");
  EXPECT_EQ(read().applied, Names{"valid_range"});
  start(S::u8);
  add("valid_range", {0, 254});
  EXPECT_EQ(missing(), "above 254");
  start(S::f32);
  add("valid_min", {-std::numeric_limits<double>::infinity()});
  add("valid_max", {nan});
  EXPECT_EQ(missing(), "");
}

TEST_F(ConventionsTest, UnsignedReinterpretsValuesAndAttributes) {
  start(S::i8);
  add_text("_Unsigned", "true");
  add("_FillValue", {-1});
  add("valid_range", {0, -6});
  EXPECT_EQ(read().type, S::u8);
  EXPECT_EQ(missing(), "255 or above 250");
  EXPECT_EQ(read().applied, (Names{"_Unsigned", "_FillValue", "valid_range"}));
  EXPECT_EQ(not_applied(), Names{});
  start(S::i8);
  add_text("_Unsigned", "True");
  add("_FillValue", {255});  // the attribute has the stored type, which has no 255
  EXPECT_EQ(missing(), "");
  EXPECT_EQ(not_applied(), Names{"_FillValue"});
}

TEST_F(ConventionsTest, UnsignedAppliesOnlyToSignedIntegers) {
  start(S::u16);
  add_text("_Unsigned", "true");
  EXPECT_EQ(read().type, S::u16);
  EXPECT_EQ(read().applied, Names{});
  start(S::f32);
  add_text("_Unsigned", "true");
  EXPECT_EQ(read().type, S::f32);
  start(S::u16);
  add_text("_Unsigned", "false");
  EXPECT_EQ(read().type, S::u16);
  EXPECT_EQ(not_applied(), Names{"_Unsigned"});
}

TEST_F(ConventionsTest, TheUnpackedTypeFollowsTheAttributesAndTheStoredType) {
  const auto type = [&](S stored, bool scale_is_f32, bool offset_is_f32) {
    start(stored);
    if (scale_is_f32) add_f32("scale_factor", 0.5f);
    if (!scale_is_f32) add("scale_factor", {0.5});
    if (offset_is_f32) add_f32("add_offset", 2);
    if (!offset_is_f32) add("add_offset", {2});
    return unpacked_type(read().unpacking).value();
  };
  for (const S stored : {S::i8, S::u8, S::i16, S::u16, S::f32}) {
    EXPECT_EQ(type(stored, true, true), ElementType::f32);
    EXPECT_EQ(type(stored, true, false), ElementType::f64);
    EXPECT_EQ(type(stored, false, true), ElementType::f64);
  }
  for (const S stored : {S::i32, S::u32, S::i64, S::u64, S::f64}) {
    EXPECT_EQ(type(stored, true, true), ElementType::f64);
  }
  EXPECT_EQ(unpacked_type(Unpacking{}), std::nullopt);
}

TEST_F(ConventionsTest, UnpackingRoundsAsItsOperandsDo) {
  start(S::i16);
  add_f32("scale_factor", 0.01f);
  EXPECT_EQ(unpacking(), "* 0.01 (f32)");
  add("add_offset", {273.15});
  EXPECT_EQ(unpacking(), "* 0.01 (f32), + 273.15 (f64)");
  EXPECT_EQ(read().applied, (Names{"scale_factor", "add_offset"}));
  start(S::i16);
  add_f32("add_offset", 0.1f);
  EXPECT_EQ(unpacking(), "+ 0.1 (f32)");
  start(S::i16);
  const std::int16_t integer = 3;
  add("scale_factor", H5T_STD_I16LE, {}, &integer);
  EXPECT_EQ(unpacking(), "* 3 (f64)");
}

TEST_F(ConventionsTest, AFactorOf1AndAnOffsetOf0UnpackNothing) {
  start(S::i16);
  add("scale_factor", {1});
  EXPECT_EQ(unpacking(), "");
  add("add_offset", {0});
  EXPECT_EQ(unpacking(), "");
  EXPECT_EQ(read().applied, Names{});
  EXPECT_EQ(not_applied(), Names{});
  start(S::i16);
  add("scale_factor", {1});
  add("add_offset", {5});
  EXPECT_EQ(unpacking(), "* 1 (f64), + 5 (f64)");
}

TEST_F(ConventionsTest, NamesOfHdfEos5CountIfThoseOfNetcdfAreAbsent) {
  start(S::i16);
  add("ScaleFactor", {0.5});
  EXPECT_EQ(unpacking(), "* 0.5 (f64)");
  EXPECT_EQ(read().warnings, Names{});
  add("Offset", {3});
  EXPECT_EQ(unpacking(), "* 0.5 (f64), + 3 (f64)");
  EXPECT_EQ(read().applied, (Names{"ScaleFactor", "Offset"}));
  EXPECT_EQ(read().warnings.size(), 1u);  // programs disagree on its sign
  add("scale_factor", {2});
  EXPECT_EQ(unpacking(), "* 2 (f64)");
  EXPECT_EQ(not_applied(), (Names{"Offset", "ScaleFactor"}));
  start(S::i16);
  add_text("Offset", "from the left edge");
  EXPECT_EQ(unpacking(), "");
}

TEST_F(ConventionsTest, DefaultFillValuesCountInFilesOfNetcdf) {
  const std::vector<std::pair<S, std::string>> defaults = {{S::i8, ""},
                                                           {S::u8, ""},
                                                           {S::i16, "-32767"},
                                                           {S::u16, "65535"},
                                                           {S::i32, "-2147483647"},
                                                           {S::u32, "4294967295"},
                                                           {S::i64, "-9223372036854775806"},
                                                           {S::u64, "18446744073709551614"},
                                                           {S::f32, "9.96921e+36"},
                                                           {S::f64, "9.969209968386869e+36"}};
  for (const auto& [stored, value] : defaults) {
    start(stored);
    EXPECT_EQ(missing(), "");
    add(file_.get(), "_NCProperties", H5T_NATIVE_INT, {}, nullptr);
    EXPECT_EQ(missing(), value);
    EXPECT_EQ(read().applied, value.empty() ? Names{} : Names{"default fill value"});
  }
  start(S::i16);
  add(file_.get(), "_NCProperties", H5T_NATIVE_INT, {}, nullptr);
  add("missing_value", {5});
  EXPECT_EQ(missing(), "-32767 or 5");
  add("_FillValue", {1});
  EXPECT_EQ(missing(), "1 or 5");
  start(S::i16);
  add(file_.get(), "_NCProperties", H5T_NATIVE_INT, {}, nullptr);
  add_text("_Unsigned", "true");
  EXPECT_EQ(missing(), "");
}

TEST_F(ConventionsTest, TheFileOfADataSetIsTheOneThatContainsIt) {
  start(S::i16);
  add(file_.get(), "_NCProperties", H5T_NATIVE_INT, {}, nullptr);
  const hdf5::Lock lock;
  dataset_ = {};
  file_ = {};
  const hdf5::File linking = test::make_file(folder_ / "linking.h5");
  hdf5::check(H5Lcreate_external("x.h5", "/x", linking.get(), "x", H5P_DEFAULT, H5P_DEFAULT),
              "link");
  dataset_ = hdf5::Dataset(H5Dopen2(linking.get(), "x", H5P_DEFAULT), "open");
  EXPECT_EQ(missing(), "-32767");
}

TEST_F(ConventionsTest, AttributesThatLeaveNoValueAreErrors) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<const char*, std::vector<double>>> wrong = {
      {"scale_factor", {0}},    {"scale_factor", {nan}}, {"scale_factor", {infinity}},
      {"scale_factor", {1, 2}}, {"scale_factor", {}},    {"add_offset", {nan}},
      {"add_offset", {1, 2}},   {"valid_range", {5, 1}}, {"ScaleFactor", {0}},
      {"MATLAB_empty", {1}}};
  for (const auto& [name, values] : wrong) {
    start(S::i16);
    add(name, values);
    expect_error(name);
  }
  for (const char* name : {"scale_factor", "add_offset"}) {
    start(S::i16);
    add_text(name, "0.1");
    expect_error(name);
  }
  start(S::f32);
  add("valid_min", {5});
  add("valid_max", {1});
  expect_error("valid_min, valid_max");
  start(S::i16);
  add("missing_value", {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(read().missing.count, 8u);
  add("_FillValue", {9});
  expect_error("missing values");
}

TEST_F(ConventionsTest, AttributesOfATableAreNotThoseOfAMember) {
  const hdf5::Lock lock;
  const hdf5::Type row(H5Tcreate(H5T_COMPOUND, 2), "type");
  H5Tinsert(row.get(), "a", 0, H5T_STD_I16LE);
  start(row.get(), S::i16);
  add("scale_factor", {0.5});
  EXPECT_EQ(read().applied, Names{});
  EXPECT_EQ(not_applied(), Names{"scale_factor"});
}

}  // namespace
}  // namespace shardstream::io
