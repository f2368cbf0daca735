// The elements of generators, and of HDF5 data sets of every layout and type.
#include <unistd.h>

#include <cmath>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "support/sources.hpp"

namespace shardstream::io {
namespace {

using test::counting;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

// ---------------------------------------------------------------- generators

TEST_F(Sources, GeneratorsHaveTheirCountAndType) {
  const auto ramp = open("ramp", "i32", "5");
  EXPECT_EQ(ramp->name(), "ramp");
  EXPECT_EQ(ramp->stored_bytes(), 0u);
  EXPECT_EQ(read<std::int32_t>(*ramp), counting<std::int32_t>(5));
  const auto uniform = open("uniform");
  EXPECT_EQ(uniform->type(), ElementType::f32);
  EXPECT_EQ(uniform->count(), 100u);
  EXPECT_EQ(uniform->shape(), uniform->box());
  EXPECT_NE(read<float>(*uniform), read<float>(*open("uniform", "auto", "100", "2")));
  EXPECT_THROW(ramp->read(4, 2, nullptr), ContractError);
}

TEST_F(Sources, AnEmptyGeneratorIsAnError) {
  error_of([] { open("ramp", "auto", "0"); });
}

// ---------------------------------------------------------------- the direct way

TEST_F(Sources, NativeContiguousDataAreReadDirectly) {
  const auto values = counting<double>(60);
  make_dataset(make_file(file_), "x", H5T_NATIVE_DOUBLE, {{3, 4, 5}}, H5T_NATIVE_DOUBLE,
               values.data());
  const auto source = open(file_ + ":/x");
  EXPECT_EQ(source->name(), file_ + ":/x");
  EXPECT_EQ(source->access(), "contiguous, parallel pread");
  EXPECT_EQ(source->type(), ElementType::f64);
  EXPECT_EQ(source->shape(), (std::vector<std::uint64_t>{3, 4, 5}));
  EXPECT_EQ(source->stored_bytes(), 480u);
  EXPECT_EQ(read<double>(*source), values);
  EXPECT_EQ(read<double>(*source, 7, 9), counting<double>(9, 7));
}

TEST_F(Sources, AUserBlockShiftsDirectReads) {
  const auto values = counting<float>(1000);
  make_dataset(make_file(file_, 512), "x", H5T_NATIVE_FLOAT, {{1000}}, H5T_NATIVE_FLOAT,
               values.data());
  const auto source = open(file_);
  EXPECT_EQ(source->access(), "contiguous, parallel pread");
  EXPECT_EQ(read<float>(*source), values);
}

TEST_F(Sources, NeverWrittenDataHaveTheFillValue) {
  for (const hsize_t user_block : {0, 512}) {
    const float fill = 2.5f;
    make_dataset(make_file(file_, user_block), "x", H5T_NATIVE_FLOAT,
                 {{100}, {}, [&](hid_t p) { H5Pset_fill_value(p, H5T_NATIVE_FLOAT, &fill); }},
                 H5T_NATIVE_FLOAT, nullptr);
    const auto source = open(file_);
    EXPECT_EQ(source->access(), "H5Dread, contiguous");
    EXPECT_EQ(read<float>(*source), std::vector<float>(100, fill));
  }
}

TEST_F(Sources, ScalarsAreOneElement) {
  const std::int32_t one = 42;
  {
    const auto file = make_file(file_);
    make_dataset(file, "native", H5T_STD_I32LE, {{}}, H5T_NATIVE_INT32, &one);
    make_dataset(file, "swapped", H5T_STD_I32BE, {{}}, H5T_NATIVE_INT32, &one);
  }
  for (const auto* path : {":/native", ":/swapped"}) {
    const auto source = open(file_ + path);
    EXPECT_EQ(source->shape(), std::vector<std::uint64_t>{1});
    EXPECT_EQ(read<std::int32_t>(*source), std::vector<std::int32_t>{42}) << source->access();
  }
}

TEST_F(Sources, ExternalFilesAreLeftToHdf5) {
  const auto values = counting<float>(10);
  const std::string raw = folder_ / "raw.bin";
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT,
               {{10}, {}, [&](hid_t p) { H5Pset_external(p, raw.c_str(), 0, H5F_UNLIMITED); }},
               H5T_NATIVE_FLOAT, values.data());
  const auto source = open(file_);
  EXPECT_EQ(source->access(), "H5Dread, contiguous");
  EXPECT_EQ(read<float>(*source), values);
}

TEST_F(Sources, ExternalLinksLeadToTheOtherFilesBytes) {
  const auto values = counting<float>(10), others = counting<float>(10, 100);
  make_dataset(make_file(folder_ / "other.h5"), "y", H5T_NATIVE_FLOAT, {{10}}, H5T_NATIVE_FLOAT,
               others.data());
  {
    const auto file = make_file(file_);
    make_dataset(file, "x", H5T_NATIVE_FLOAT, {{10}}, H5T_NATIVE_FLOAT, values.data());
    H5Lcreate_external("other.h5", "/y", file.get(), "link", H5P_DEFAULT, H5P_DEFAULT);
  }
  const auto source = open(file_ + ":/link");
  EXPECT_EQ(source->access(), "contiguous, parallel pread");
  EXPECT_EQ(read<float>(*source), others);
}

TEST_F(Sources, AFileShortenedWhileReadIsTruncated) {
  const auto values = counting<double>(10'000);
  make_dataset(make_file(file_), "x", H5T_NATIVE_DOUBLE, {{10'000}}, H5T_NATIVE_DOUBLE,
               values.data());
  const auto source = open(file_);
  truncate_to(file_, 40'000);
  EXPECT_EQ(read<double>(*source, 0, 100), counting<double>(100));
  const auto message = error_of([&] { read<double>(*source, 4000, 3000); }, ExitCode::failed);
  EXPECT_TRUE(names(message, "truncated", "24000 bytes"));
}

// ---------------------------------------------------------------- through HDF5

/// 7 x 10 elements in chunks of 3 x 4, in the order of ElementOrder.
std::vector<float> chunk_by_chunk(const Source& source) {
  std::vector<float> expected;
  for (std::uint64_t i = 0; i < source.count(); ++i) {
    const auto at = source.coordinates(i);
    expected.push_back(static_cast<float>(at[0] * 10 + at[1]));
  }
  return expected;
}

TEST_F(Sources, ChunkedDataIsReadChunkByChunk) {
  const auto values = counting<float>(70);
  const auto deflate = [](hid_t p) {
    H5Pset_shuffle(p);
    H5Pset_deflate(p, 6);
  };
  {
    const auto file = make_file(file_);
    make_dataset(file, "plain", H5T_NATIVE_FLOAT, {{7, 10}, {3, 4}}, H5T_NATIVE_FLOAT,
                 values.data());
    make_dataset(file, "packed", H5T_IEEE_F64BE, {{7, 10}, {3, 4}, deflate}, H5T_NATIVE_FLOAT,
                 values.data());
  }
  const auto plain = open(file_ + ":/plain");
  EXPECT_EQ(plain->access(), "chunks 3x4, parallel pread");
  EXPECT_EQ(read<float>(*plain), chunk_by_chunk(*plain));
  const auto packed = open(file_ + ":/packed", "f32");
  EXPECT_EQ(packed->access(), "chunks 3x4, filtered, parallel decoding");
  const auto expected = chunk_by_chunk(*packed);
  for (std::uint64_t first = 0; first < 70; ++first) {
    for (std::uint64_t count = 0; first + count <= 70; ++count) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
      ASSERT_EQ(read<float>(*packed, first, count),
                std::vector(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
}

TEST_F(Sources, CompactDataAreRead) {
  const auto values = counting<std::int32_t>(6);
  make_dataset(make_file(file_), "x", H5T_NATIVE_INT32,
               {{2, 3}, {}, [](hid_t p) { H5Pset_layout(p, H5D_COMPACT); }}, H5T_NATIVE_INT32,
               values.data());
  EXPECT_EQ(open(file_)->access(), "H5Dread, compact");
  EXPECT_EQ(read<std::int32_t>(*open(file_)), values);
}

TEST_F(Sources, ManyThreadsMayReadAtOnce) {
  const auto values = counting<std::int32_t>(60'000);
  {
    const auto file = make_file(file_);
    make_dataset(file, "direct", H5T_NATIVE_INT32, {{60'000}}, H5T_NATIVE_INT32, values.data());
    make_dataset(file, "chunked", H5T_STD_I32BE,
                 {{60'000}, {1000}, [](hid_t p) { H5Pset_deflate(p, 1); }}, H5T_NATIVE_INT32,
                 values.data());
  }
  for (const auto* path : {":/direct", ":/chunked"}) {
    const auto source = open(file_ + path);
    std::vector<std::int32_t> out(60'000);
    std::vector<std::thread> readers;
    for (std::uint64_t r = 0; r < 4; ++r) {
      readers.emplace_back([&, r] {
        for (std::uint64_t piece = r; piece < 60; piece += 4) {
          source->read(piece * 1000, 1000, reinterpret_cast<std::byte*>(&out[piece * 1000]));
        }
      });
    }
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(out, values) << path;
  }
}

// ---------------------------------------------------------------- types

/// A float type of `size` bytes with the given fields, like IEEE half or bfloat16.
io::hdf5::Type small_float(std::size_t exponent_bits, std::size_t fraction_bits) {
  io::hdf5::Type type(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(type.get(), 15, fraction_bits, exponent_bits, 0, fraction_bits);
  H5Tset_precision(type.get(), 16);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), (std::size_t{1} << (exponent_bits - 1)) - 1);
  return type;
}

TEST_F(Sources, EveryStoredTypeHasAnElementType) {
  const auto half = small_float(5, 10), brain = small_float(8, 7);
  const std::map<std::string, std::pair<hid_t, ElementType>> types = {
      {"f16", {half.get(), ElementType::f32}},
      {"bf16", {brain.get(), ElementType::f32}},
      {"f32", {H5T_IEEE_F32LE, ElementType::f32}},
      {"f32be", {H5T_IEEE_F32BE, ElementType::f32}},
      {"f64", {H5T_IEEE_F64LE, ElementType::f64}},
      {"f64be", {H5T_IEEE_F64BE, ElementType::f64}},
      {"f80", {H5T_NATIVE_LDOUBLE, ElementType::f64}},
      {"i8", {H5T_STD_I8LE, ElementType::i8}},
      {"i8be", {H5T_STD_I8BE, ElementType::i8}},
      {"i16be", {H5T_STD_I16BE, ElementType::i32}},
      {"i32", {H5T_STD_I32LE, ElementType::i32}},
      {"i64be", {H5T_STD_I64BE, ElementType::i64}},
      {"u8", {H5T_STD_U8LE, ElementType::u8}},
      {"u8be", {H5T_STD_U8BE, ElementType::u8}},
      {"u16be", {H5T_STD_U16BE, ElementType::i32}},
      {"u32", {H5T_STD_U32LE, ElementType::i64}},
      {"u64", {H5T_STD_U64LE, ElementType::u64}}};
  const auto values = counting<std::int32_t>(100);
  {
    const auto file = make_file(file_);
    for (const auto& [name, type] : types) {
      make_dataset(file, name, type.first, {{100}}, H5T_NATIVE_INT32, values.data());
    }
  }
  for (const auto& [name, type] : types) {
    const auto source = open(file_ + ":/" + name);
    EXPECT_EQ(source->type(), type.second) << name;
    // Each can be read as any other type, since all types can hold these values.
    for (const auto* wanted : {"auto", "f32", "f64", "i32", "i64", "i8", "u8", "u64"}) {
      const auto converted = open(file_ + ":/" + name, wanted);
      with_element_type(converted->type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        EXPECT_EQ(read<T>(*converted), counting<T>(100)) << name << " as " << wanted;
      });
    }
  }
}

TEST_F(Sources, InfinityAndNanAreKept) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {inf, -inf, std::nan(""), 0.1, -0.0, 1e-300};
  {
    const auto file = make_file(file_);
    make_dataset(file, "le", H5T_IEEE_F64LE, {{6}}, H5T_NATIVE_DOUBLE, values.data());
    make_dataset(file, "be", H5T_IEEE_F64BE, {{6}}, H5T_NATIVE_DOUBLE, values.data());
    make_dataset(file, "long", H5T_NATIVE_LDOUBLE, {{6}}, H5T_NATIVE_DOUBLE, values.data());
  }
  for (const auto* path : {":/le", ":/be", ":/long"}) {
    const auto read_back = read<float>(*open(file_ + path, "f32"));
    EXPECT_EQ(read_back[0], std::numeric_limits<float>::infinity()) << path;
    EXPECT_EQ(read_back[1], -std::numeric_limits<float>::infinity()) << path;
    EXPECT_TRUE(std::isnan(read_back[2])) << path;
    EXPECT_EQ(read_back[3], 0.1f) << path;
    EXPECT_TRUE(read_back[4] == 0 && std::signbit(read_back[4])) << path;
    EXPECT_EQ(read_back[5], 0.0f) << path;
  }
}

TEST_F(Sources, IntegersMayLosePrecisionAsFloats) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  make_dataset(make_file(file_), "x", H5T_STD_I64LE, {{1}}, H5T_NATIVE_INT64, &big);
  EXPECT_EQ(read<double>(*open(file_, "f64"))[0], 0x1p53);
  EXPECT_EQ(read<float>(*open(file_, "f32"))[0], 0x1p53f);
}

struct Misfit {
  const char* name;
  hid_t stored;
  long double value;
  const char* wanted;
  const char* named;   ///< the value, or the type that it does not fit
  const char* remedy;  ///< another input.type
};

TEST_F(Sources, AValueThatDoesNotFitIsAnError) {
  const long double inf = std::numeric_limits<long double>::infinity();
  const Misfit misfits[] = {
      {"u64", H5T_STD_U64LE, 18446744073709551615.0L, "i64", "i64", "u64"},
      {"u64be", H5T_STD_U64BE, 18446744073709551615.0L, "i64", "i64", "u64"},
      {"i32", H5T_STD_I32LE, 256, "u8", "u8", "i32"},
      {"i16be", H5T_STD_I16BE, -1, "u8", "u8", "i32"},
      {"u32be", H5T_STD_U32BE, 3e9L, "i32", "i32", "i64"},
      {"i8", H5T_STD_I8LE, -1, "u8", "u8", "i8"},
      {"i8be", H5T_STD_I8BE, -1, "u8", "u8", "i8"},
      {"u8", H5T_STD_U8LE, 200, "i8", "i8", "u8"},
      {"u8be", H5T_STD_U8BE, 128, "i8", "i8", "u8"},
      {"i32low", H5T_STD_I32LE, -129, "i8", "i8", "i32"},
      {"i16", H5T_STD_I16LE, 128, "i8", "i8", "i32"},
      {"128", H5T_IEEE_F32LE, 128, "i8", "128", "f32"},
      {"-129", H5T_IEEE_F64BE, -129, "i8", "-129", "f64"},
      {"f64", H5T_IEEE_F64LE, 1e300L, "f32", "f32", "f64"},
      {"f64low", H5T_IEEE_F64LE, -1e300L, "f32", "f32", "f64"},
      {"f64be", H5T_IEEE_F64BE, 1e300L, "f32", "f32", "f64"},
      {"half", H5T_IEEE_F32LE, 0.5L, "i32", "0.5", "f32"},
      {"halfbe", H5T_IEEE_F32BE, 1.5L, "i64", "1.5", "f32"},
      {"3e9", H5T_IEEE_F64LE, 3e9L, "i32", "3e+09", "f64"},
      {"2^63", H5T_IEEE_F64LE, 9223372036854775808.0L, "i64", "9223372036854775808", "f64"},
      {"2^31be", H5T_IEEE_F32BE, 2147483648.0L, "i32", "2", "f32"},
      {"-1", H5T_IEEE_F32BE, -1, "u8", "-1", "f32"},
      {"i64", H5T_STD_I64BE, -1, "u64", "-1", "i64"},
      {"2^64", H5T_IEEE_F64LE, 18446744073709551616.0L, "u64", "18446744073709551616", "f64"},
      {"inf", H5T_IEEE_F64LE, inf, "i64", "inf", "f64"},
      {"infbe", H5T_IEEE_F64BE, -inf, "i64", "-inf", "f64"},
      {"nan", H5T_IEEE_F32LE, std::nan(""), "i32", "NaN", "f32"},
      {"nanbe", H5T_IEEE_F32BE, std::nan(""), "i32", "NaN", "f32"},
      {"f80", H5T_NATIVE_LDOUBLE, 1e4000L, "auto", "f64", "input.type"}};
  {
    const auto file = make_file(file_);
    for (const auto& misfit : misfits) {
      std::vector<long double> values(10, 1);
      values[7] = misfit.value;
      make_dataset(file, misfit.name, misfit.stored, {{10}}, H5T_NATIVE_LDOUBLE, values.data());
    }
  }
  for (const auto& misfit : misfits) {
    SCOPED_TRACE(misfit.name);
    const auto source = open(file_ + ":/" + misfit.name, misfit.wanted);
    EXPECT_NO_THROW(with_element_type(
        source->type(), [&](auto tag) { read<typename decltype(tag)::type>(*source, 0, 7); }));
    std::vector<std::byte> out(100);
    const auto message = error_of([&] { source->read(5, 4, out.data()); }, ExitCode::failed);
    EXPECT_TRUE(names(message, misfit.named, "input.type", misfit.remedy));
    EXPECT_TRUE(names(message, source->name()));
  }
}

}  // namespace
}  // namespace shardstream::io
