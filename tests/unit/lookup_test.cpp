// Names of data sets and of members of compound types, and the data set that FILE alone means.
#include "io/hdf5/lookup.hpp"

#include <fstream>
#include <optional>

#include "core/error.hpp"
#include "io/hdf5/member.hpp"
#include "io/hdf5/stored_type.hpp"
#include "support/sources.hpp"

namespace shardstream::io {
namespace {

using hdf5::Type;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

TEST(DatasetNames, AreSplitAfterTheNameOfAFile) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "odd:");
  const std::string file = folder / "in.h5", odd = folder / "odd:/in.h5";
  for (const auto& each : {file, odd}) std::ofstream(each) << "x";
  const auto expect = [](const std::string& text, const std::string& name, const std::string& path,
                         const std::string& member = "",
                         const std::optional<std::string>& selection = {}) {
    const DatasetName split = dataset_name(text);
    EXPECT_EQ(split.file, name) << text;
    EXPECT_EQ(split.path, path) << text;
    EXPECT_EQ(split.member, member) << text;
    EXPECT_EQ(split.selection, selection) << text;
    EXPECT_EQ(split.within_file(), text.substr(std::min(name.size() + 1, text.size())));
  };
  expect(file, file, "");
  expect(file + ":/x", file, "/x");
  expect(file + ":/a:/b", file, "/a:/b");
  expect(file + ":/a:/b:/c", file, "/a:/b:/c");
  expect(odd, odd, "");
  expect(odd + ":/x", odd, "/x");
  expect(odd + ":/a:/b", odd, "/a:/b");
  expect("none.h5:/a:/b", "none.h5:/a", "/b");
  expect("none.h5", "none.h5", "");
  expect(":/x", "", "/x");
  expect(file + ":/t{energy}", file, "/t", "energy");
  expect(file + ":/g/t{pos.x}", file, "/g/t", "pos.x");
  expect(file + ":/t{v {m/s}}", file, "/t", "v {m/s}");
  expect(file + ":/t{a}{b}", file, "/t{a}", "b");
  expect("none.h5:/t{a}", "none.h5", "/t", "a");
  for (const char* const path : {"/t{}", "/t{a", "/ta}", "/{a}", "/t}{a}}", "/t{a}b", "/}"}) {
    expect(file + ":" + path, file, path);
  }
  expect(file + "{a}", file + "{a}", "");
  expect(file + ":/t[0:3, :]", file, "/t", "", "0:3, :");
  expect(file + ":/t[]", file, "/t", "", "");
  expect(file + ":/t[1][lat=-3:3]", file, "/t[1]", "", "lat=-3:3");
  expect(file + ":/t{v [m/s]}[0:3]", file, "/t", "v [m/s]", "0:3");
  expect(file + ":/t{v [m/s]}", file, "/t", "v [m/s]");
  expect(file + ":/t[0]{a}", file, "/t[0]", "a");
  for (const char* const path : {"/t[0", "/t0]", "/[0]", "/t[0]x", "/]"}) {
    expect(file + ":" + path, file, path);
  }
  expect(file + "[0]", file + "[0]", "");
}

/// A compound type with padding: flag (an enum) at 0, energy (f64) at 8, pos (a compound of x and
/// y, i16) at 16, a.b (u8) at 24, label (a text) at 25.
Type table_type() {
  const hdf5::Lock lock;
  const std::int8_t no = 0;
  const Type flag(H5Tenum_create(H5T_STD_I8LE)), text(H5Tcopy(H5T_C_S1)),
      pos(H5Tcreate(H5T_COMPOUND, 4));
  H5Tenum_insert(flag.get(), "no", &no);
  H5Tinsert(pos.get(), "x", 0, H5T_STD_I16BE);
  H5Tinsert(pos.get(), "y", 2, H5T_STD_I16BE);
  Type table(H5Tcreate(H5T_COMPOUND, 32));
  H5Tinsert(table.get(), "flag", 0, flag.get());
  H5Tinsert(table.get(), "energy", 8, H5T_IEEE_F64LE);
  H5Tinsert(table.get(), "pos", 16, pos.get());
  H5Tinsert(table.get(), "a.b", 24, H5T_STD_U8LE);
  H5Tinsert(table.get(), "label", 25, text.get());
  return table;
}

TEST(Members, AreFoundByTheirNames) {
  const Type table = table_type();
  const hdf5::Lock lock;
  const auto expect = [&](const std::string& name, std::uint64_t offset, hid_t number) {
    const Member member = find_member(table.get(), name, "f.h5:/t");
    EXPECT_EQ(member.offset, offset) << name;
    EXPECT_GT(H5Tequal(number_type(member.type.get()).get(), number), 0) << name;
  };
  expect("flag", 0, H5T_STD_I8LE);
  expect("energy", 8, H5T_IEEE_F64LE);
  expect("pos.x", 16, H5T_STD_I16BE);
  expect("pos.y", 18, H5T_STD_I16BE);
  expect("a.b", 24, H5T_STD_U8LE);
  for (const char* const name :
       {"enregy", "pos", "pos.z", "pos.x.y", "a", "label", ".", "energy."}) {
    const auto message = error_of([&] { find_member(table.get(), name, "f.h5:/t"); });
    EXPECT_TRUE(names(message, name, "f.h5:/t", "flag, energy, pos.x, pos.y, a.b"));
  }
  const auto message = error_of([] { find_member(H5T_STD_I16LE, "energy", "f.h5:/t"); });
  EXPECT_TRUE(names(message, "energy", "f.h5:/t", "i16"));
}

TEST(Members, OfHugeElementsAreAnError) {
  const hdf5::Lock lock;
  const Type table(H5Tcreate(H5T_COMPOUND, std::size_t{300} << 20));
  H5Tinsert(table.get(), "energy", 4, H5T_IEEE_F32LE);
  EXPECT_TRUE(names(error_of([&] { find_member(table.get(), "energy", "t"); }), "energy", "bytes"));
}

TEST(Members, AMessageListsAtMostEight) {
  const hdf5::Lock lock;
  const Type table(H5Tcreate(H5T_COMPOUND, 80));
  for (std::size_t i = 0; i < 20; ++i) {
    H5Tinsert(table.get(), ("m" + std::to_string(i)).c_str(), 4 * i, H5T_IEEE_F32LE);
  }
  const auto message = error_of([&] { find_member(table.get(), "x", "t"); });
  EXPECT_TRUE(names(message, "m7", "12 more"));
  EXPECT_FALSE(names(message, "m8"));
}

TEST(NumberTypes, EnumsAndBitFieldsAreIntegers) {
  const hdf5::Lock lock;
  const std::int16_t value = 7;
  const Type choice(H5Tenum_create(H5T_STD_I16BE)), bits(H5Tcopy(H5T_STD_B16BE));
  H5Tenum_insert(choice.get(), "seven", &value);
  H5Tset_precision(bits.get(), 10);
  H5Tset_offset(bits.get(), 3);
  EXPECT_GT(H5Tequal(number_type(choice.get()).get(), H5T_STD_I16BE), 0);
  const Type number = number_type(bits.get());
  EXPECT_EQ(H5Tget_class(number.get()), H5T_INTEGER);
  EXPECT_EQ(H5Tget_sign(number.get()), H5T_SGN_NONE);
  EXPECT_EQ(H5Tget_size(number.get()), 2u);
  EXPECT_EQ(H5Tget_precision(number.get()), 10u);
  EXPECT_EQ(H5Tget_offset(number.get()), 3);
  EXPECT_EQ(H5Tget_order(number.get()), H5T_ORDER_BE);
  EXPECT_EQ(natural_type(choice.get()), ElementType::i32);
  EXPECT_EQ(describe_type(choice.get()), "i16 (big-endian, enum)");
  EXPECT_EQ(natural_type(H5T_STD_B8LE), ElementType::u8);
  EXPECT_EQ(describe_type(H5T_STD_B8LE), "u8 (bit field)");
  EXPECT_FALSE(number_type(table_type().get()).valid());
  EXPECT_FALSE(number_type(H5T_C_S1).valid());
}

TEST_F(Sources, EnumsAndBitFieldsAreIntegers) {
  const Type choice(H5Tenum_create(H5T_STD_I8LE));
  for (const std::int8_t value : {0, 1}) {
    H5Tenum_insert(choice.get(), value == 0 ? "FALSE" : "TRUE", &value);
  }
  const std::vector<std::int8_t> values = {0, 1, 1, -5};  // -5 has no name
  const std::vector<std::uint16_t> bits = {0, 1, 0x8001, 0xffff};
  {
    const auto file = make_file(file_);
    make_dataset(file, "x", choice.get(), {{4}}, choice.get(), values.data());
    make_dataset(file, "y", H5T_STD_B16LE, {{4}, {3}}, H5T_NATIVE_B16, bits.data());
  }
  EXPECT_EQ(read<std::int8_t>(*open(file_ + ":/x")), values);
  EXPECT_EQ(read<std::int32_t>(*open(file_ + ":/y")),
            std::vector<std::int32_t>(bits.begin(), bits.end()));
}

TEST_F(Sources, ATableWithoutAMemberNamesItsMembers) {
  const Type table = table_type();
  const auto make = [&](const hdf5::File& file) {
    make_dataset(file, "t", table.get(), {{3}}, table.get(), nullptr);
  };
  make(make_file(file_));
  for (const std::string& data : {file_, file_ + ":/t"}) {
    EXPECT_TRUE(names(refusal(data), file_ + ":/t{flag}", "energy, pos.x"));
  }
  const auto file = make_file(file_);
  make(file);
  make_dataset(file, "text", H5T_C_S1, {{1}}, H5T_C_S1, nullptr);
  EXPECT_TRUE(names(refusal(file_), file_ + ":/t{flag}", "/text"));
}

TEST_F(Sources, BracketsMayBelongToTheNameOfADataSet) {
  const float one = 1;
  const auto file = make_file(file_);
  test::make_group(file, "g[0]");
  for (const char* const path : {"t", "t[0]", "t{a}", "t{a}[0]", "g[0]/x"}) {
    make_dataset(file, path, H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
  }
  const hdf5::Lock lock;
  const auto expect = [&](const std::string& text, const std::string& path,
                          const std::string& member, const std::optional<std::string>& selection) {
    const DatasetName name = resolve_braces(file, dataset_name(file_ + ":" + text));
    EXPECT_EQ(name.path, path) << text;
    EXPECT_EQ(name.member, member) << text;
    EXPECT_EQ(name.selection, selection) << text;
  };
  expect("/t[0]", "/t[0]", "", {});
  expect("/t[1]", "/t", "", "1");
  expect("/t[0][0]", "/t[0]", "", "0");
  expect("/t{a}[0]", "/t{a}[0]", "", {});
  expect("/t{a}[1]", "/t{a}", "", "1");
  expect("/t{b}[0]", "/t", "b", "0");
  expect("/g[0]/x", "/g[0]/x", "", {});
  expect("/g[0]/x{b}[0]", "/g[0]/x", "b", "0");
}

TEST_F(Sources, ASelectionNeedsAPathAndBothBrackets) {
  const float one = 1;
  make_dataset(make_file(file_), "t", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
  EXPECT_TRUE(names(refusal(file_ + "[0:1]"), file_ + ":/PATH[0:1]"));
  EXPECT_TRUE(names(refusal(file_ + ":/t[0:1"), "[0:1", "/t"));
  EXPECT_TRUE(names(refusal(file_ + ":/t[0:1]{a}"), "[0:1", "/t"));
}

TEST_F(Sources, BracesMayBelongToTheNameOfADataSet) {
  const float one = 1;
  const auto file = make_file(file_);
  test::make_group(file, "g{a}");
  for (const char* const path : {"t", "t{a}", "g{a}/x"}) {
    make_dataset(file, path, H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
  }
  EXPECT_EQ(open(file_ + ":/t{a}")->name(), file_ + ":/t{a}");
  EXPECT_EQ(open(file_ + ":/g{a}/x")->name(), file_ + ":/g{a}/x");
  const hdf5::Lock lock;
  const auto resolved = [&](const std::string& path) {
    const DatasetName name = resolve_braces(file, dataset_name(file_ + ":" + path));
    return std::pair(name.path, name.member);
  };
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(resolved("/t{a}"), Parts("/t{a}", ""));
  EXPECT_EQ(resolved("/t{b}"), Parts("/t", "b"));
  EXPECT_EQ(resolved("/t{a}{b}"), Parts("/t{a}", "b"));
  EXPECT_EQ(resolved("/g{a}/x{b}"), Parts("/g{a}/x", "b"));
  EXPECT_EQ(resolved("/none/x{b}"), Parts("/none/x", "b"));
}

// ---------------------------------------------------------------- coordinates

/// Adds a data set of one float, and text attributes.
void add(const hdf5::File& file, const std::string& name,
         const std::vector<std::pair<std::string, std::string>>& attributes = {}) {
  const float one = 1;
  const hdf5::Lock lock;
  make_dataset(file, name, H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
  const hdf5::Dataset dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), "open");
  for (const auto& [key, value] : attributes) {
    hdf5::write_fixed_attribute(dataset.get(), key, value);
  }
}

TEST_F(Sources, CoordinatesDoNotCountAsData) {
  {
    const auto file = make_file(file_);
    add(file, "area", {{"CLASS", "DIMENSION_SCALE"}, {"NAME", "area"}});
    add(file, "lat", {{"CLASS", "DIMENSION_SCALE"}, {"bounds", "lat_bnds"}});
    add(file, "lat_bnds");
    add(file, "nv",
        {{"CLASS", "DIMENSION_SCALE"},
         {"NAME", "This is a netCDF dimension but not a netCDF variable         2"}});
    add(file, "height");
    add(file, "crs");
    add(file, "tas_stderr");
    add(file, "tas",
        {{"coordinates", "height lat tas"},
         {"grid_mapping", "crs"},
         {"ancillary_variables", "tas_stderr"}});
    test::attach_scales(file, "tas", {"lat"});
  }
  EXPECT_EQ(open(file_)->name(), file_ + ":/tas");
  {
    const hdf5::Lock lock;
    const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    add(file, "pr");
  }
  EXPECT_TRUE(names(refusal(file_), "/pr (1), /tas (lat=1), /area (coordinates, area=1)"));
}

TEST_F(Sources, CoordinatesCountIfThereAreNoData) {
  const std::pair<std::string, std::string> scale = {"CLASS", "DIMENSION_SCALE"};
  {
    const auto file = make_file(file_);
    add(file, "lat", {scale});
    make_dataset(file, "text", H5T_C_S1, {{1}}, H5T_C_S1, nullptr);
  }
  EXPECT_EQ(open(file_)->name(), file_ + ":/lat");
  {
    const auto file = make_file(file_);
    add(file, "lat", {scale});
    add(file, "lon", {scale});
  }
  EXPECT_TRUE(names(refusal(file_), "/lat", "/lon"));
  const Type list(H5Tvlen_create(H5T_NATIVE_INT));
  {
    const auto file = make_file(file_);
    add(file, "lat", {scale});
    make_dataset(file, "lists", list.get(), {{1}}, list.get(), nullptr);
  }
  EXPECT_TRUE(names(refusal(file_), "/lists", "/lat"));
}

}  // namespace
}  // namespace shardstream::io
