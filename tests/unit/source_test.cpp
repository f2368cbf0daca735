// Sources over HDF5 files of every layout and type, and every bad input that a test can make.
#include "io/source/source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <thread>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "io/source/hdf5_source.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::counting;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

std::unique_ptr<Source> open(const std::string& data, const std::string& type = "auto",
                             const std::string& count = "100", const std::string& seed = "1") {
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = {{"input.data", data}, {"input.type", type}};
  if (data == "uniform" || data == "ramp") {
    given.values["input.count"] = count;
    given.values["input.seed"] = seed;
  }
  return open_source(OptionTable({input_options()}).resolve(given, no_environment, {}));
}

template <class T>
std::vector<T> read(const Source& source, std::uint64_t first, std::uint64_t count) {
  EXPECT_EQ(size_of(source.type()), sizeof(T));
  std::vector<T> values(count);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  std::fill_n(bytes, count * sizeof(T), std::byte{0xa5});  // detects what read() does not write
  source.read(first, count, bytes);
  return values;
}

template <class T>
std::vector<T> read(const Source& source) {
  return read<T>(source, 0, source.order().count());
}

std::string refusal(const std::string& data, const std::string& type = "auto") {
  return error_of([&] { open(data, type); });
}

void truncate_to(const std::string& path, std::uint64_t bytes) {
  std::filesystem::resize_file(path, bytes);
}

class Sources : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "data.h5";
};

// ---------------------------------------------------------------- generators

TEST_F(Sources, GeneratorsHaveTheirCountAndType) {
  const auto ramp = open("ramp", "i32", "5");
  EXPECT_EQ(ramp->name(), "ramp");
  EXPECT_EQ(ramp->stored_bytes(), 0u);
  EXPECT_EQ(read<std::int32_t>(*ramp), counting<std::int32_t>(5));
  const auto uniform = open("uniform");
  EXPECT_EQ(uniform->type(), ElementType::f32);
  EXPECT_EQ(uniform->order().count(), 100u);
  EXPECT_EQ(uniform->order().shape(), uniform->order().box());
  EXPECT_NE(read<float>(*uniform), read<float>(*open("uniform", "auto", "100", "2")));
  EXPECT_THROW(ramp->read(4, 2, nullptr), ContractError);
}

TEST_F(Sources, AnEmptyGeneratorIsAnError) {
  error_of([] { open("ramp", "auto", "0"); });
}

// ---------------------------------------------------------------- damaged

/// Replaces the little-endian 32-bit numbers `from` in the file, which are there once, by `to`.
void damage(const std::string& path, const std::vector<std::uint32_t>& from,
            const std::vector<std::uint32_t>& to) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto as_text = [](const std::vector<std::uint32_t>& numbers) {
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  };
  const auto at = bytes.find(as_text(from));
  ASSERT_NE(at, bytes.npos);
  ASSERT_EQ(bytes.find(as_text(from), at + 1), bytes.npos);
  bytes.replace(at, from.size() * 4, as_text(to));
  std::ofstream(path, std::ios::binary) << bytes;
}

/// refusal() in a process of its own: libhdf5 leaks memory when it meets damaged metadata.
std::string rejection_elsewhere(const std::string& data, const std::string& type = "auto") {
  int ends[2] = {};
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string message = refusal(data, type);
    ::_exit(::write(ends[1], message.data(), message.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string message;
  std::array<char, 512> piece{};
  for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    message.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return message;
}

TEST_F(Sources, ImpossibleChunksAreErrors) {
  const auto values = counting<float>(11 * 13);
  const std::vector<std::uint32_t> chunk = {5, 7, 4};  // and an element's bytes
  for (const auto& [to, words] : std::map<std::vector<std::uint32_t>, std::string>{
           {{0, 7, 4}, ""}, {{12, 7, 4}, "12x7"}, {{5, 14, 4}, "5x14"}, {{1U << 31, 7, 4}, ""}}) {
    make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{11, 13}, {5, 7}}, H5T_NATIVE_FLOAT,
                 values.data());
    damage(file_, chunk, to);
    const auto message = rejection_elsewhere(file_ + ":/x");
    EXPECT_TRUE(names(message, "input.data", "data.h5", words));
  }
}

TEST_F(Sources, TypesWithBitsOutsideTheirBytesAreErrors) {
  const auto values = counting<float>(16);
  // Size; offset and precision in bits.
  for (const auto& to : {std::vector<std::uint32_t>{4, 32 << 16 | 2048}, {4 | 8 << 24, 32 << 16}}) {
    make_dataset(make_file(file_), "x", H5T_IEEE_F32LE, {{16}, {4}}, H5T_NATIVE_FLOAT,
                 values.data());
    damage(file_, {4, 32 << 16}, to);
    EXPECT_TRUE(names(rejection_elsewhere(file_ + ":/x", "f64"), "data.h5"));
  }
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
  EXPECT_EQ(source->order().shape(), (std::vector<std::uint64_t>{3, 4, 5}));
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
    EXPECT_EQ(source->order().shape(), std::vector<std::uint64_t>{1});
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
  EXPECT_TRUE(names(message, "truncated", "elements 4000 to 6999"));
}

// ---------------------------------------------------------------- through HDF5

/// 7 x 10 elements in chunks of 3 x 4, as the order promises them.
std::vector<float> chunk_by_chunk(const ElementOrder& order) {
  std::vector<float> expected;
  for (std::uint64_t i = 0; i < order.count(); ++i) {
    const auto at = order.coordinates(i);
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
  EXPECT_EQ(read<float>(*plain), chunk_by_chunk(plain->order()));
  const auto packed = open(file_ + ":/packed", "f32");
  EXPECT_EQ(packed->access(), "chunks 3x4, filtered, parallel decoding, f64 (big-endian) to f32");
  const auto expected = chunk_by_chunk(packed->order());
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
      {"u64", {H5T_STD_U64LE, ElementType::i64}}};
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
    // And each can be had as any other, since these values fit all of them.
    for (const auto* wanted : {"auto", "f32", "f64", "i32", "i64", "i8", "u8"}) {
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
  const Misfit misfits[] = {{"u64", H5T_STD_U64LE, 18446744073709551615.0L, "auto", "i64", "f64"},
                            {"u64be", H5T_STD_U64BE, 18446744073709551615.0L, "auto", "i64", "f64"},
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
                            {"3e9", H5T_IEEE_F64LE, 3e9L, "i32", "3000000000", "f64"},
                            {"2^63", H5T_IEEE_F64LE, 9223372036854775808.0L, "i64", "9", "f64"},
                            {"2^31be", H5T_IEEE_F32BE, 2147483648.0L, "i32", "2", "f32"},
                            {"-1", H5T_IEEE_F32BE, -1, "u8", "-1", "f32"},
                            {"inf", H5T_IEEE_F64LE, inf, "i64", "inf", "f64"},
                            {"infbe", H5T_IEEE_F64BE, -inf, "i64", "-inf", "f64"},
                            {"nan", H5T_IEEE_F32LE, std::nan(""), "i32", "nan", "f32"},
                            {"nanbe", H5T_IEEE_F32BE, std::nan(""), "i32", "nan", "f32"},
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
    EXPECT_TRUE(names(message, "elements 5 to 8", source->name()));
  }
}

// ---------------------------------------------------------------- names

TEST_F(Sources, NamesMayContainColons) {
  const auto one = counting<float>(3), two = counting<float>(4);
  std::filesystem::create_directories(folder_ / "a:");
  const std::string odd = folder_ / "run:12:00.h5", odder = folder_ / "a:/b.h5";
  make_dataset(make_file(odd), "x", H5T_NATIVE_FLOAT, {{3}}, H5T_NATIVE_FLOAT, one.data());
  make_dataset(make_file(odder), "x", H5T_NATIVE_FLOAT, {{4}}, H5T_NATIVE_FLOAT, two.data());
  EXPECT_EQ(open(odd)->order().count(), 3u);
  EXPECT_EQ(open(odd + ":/x")->order().count(), 3u);
  EXPECT_EQ(open(odder)->order().count(), 4u);
  EXPECT_EQ(open(odder + ":/x")->order().count(), 4u);
}

TEST_F(Sources, AFileNameMeansItsOnlyUsableDataSet) {
  const float one = 1;
  {
    const auto file = make_file(file_);
    test::make_group(file, "deep");
    test::make_group(file, "deep/er");
    make_dataset(file, "deep/er/x", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    make_dataset(file, "text", H5T_C_S1, {{1}}, H5T_C_S1, nullptr);
    make_dataset(file, "empty", H5T_NATIVE_FLOAT, {{0}}, H5T_NATIVE_FLOAT, nullptr);
  }
  EXPECT_EQ(open(file_)->name(), file_ + ":/deep/er/x");
}

TEST_F(Sources, AMissingSlashIsSuggested) {
  make_file(file_);
  EXPECT_TRUE(names(refusal(file_ + ":x"), file_ + ":/x"));
}

TEST_F(Sources, OptionsOfGeneratorsAreErrorsForAFile) {
  make_file(file_);
  const char* const variables[] = {"SHARDSTREAM_INPUT_COUNT=7", nullptr};
  for (const char* key : {"input.count", "input.seed"}) {
    const OptionTable table({input_options()});
    CommandLine given;
    given.values = {{"input.data", file_ + ":/x"}, {key, "7"}};
    try {
      open_source(table.resolve(given, variables, {}));
      ADD_FAILURE() << key << " was taken";
    } catch (const UsageError& error) {
      EXPECT_TRUE(names(error.what(), key));
    }
    given.values.erase(key);
    try {  // an environment may be for other commands too
      open_source(table.resolve(given, variables, {}));
    } catch (const UsageError& error) {
      EXPECT_FALSE(names(error.what(), key));
    }
  }
}

TEST_F(Sources, SeveralDataSetsAreListedButNotAll) {
  const float one = 1;
  {
    const auto file = make_file(file_);
    for (int i = 10; i < 24; ++i) {
      make_dataset(file, fmt::format("d{}", i), H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    }
  }
  const auto message = refusal(file_);
  EXPECT_TRUE(names(message, "/d10", "/d11", 4));
  EXPECT_EQ(message.find("/d20"), std::string::npos);
}

TEST_F(Sources, MissingPathsNameNearOnes) {
  const float one = 1;
  {
    const auto file = make_file(file_);
    test::make_group(file, "sea");
    make_dataset(file, "sea/elevation", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    make_dataset(file, "depth", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    H5Lcreate_soft("/nowhere", file.get(), "dangling", H5P_DEFAULT, H5P_DEFAULT);
  }
  EXPECT_TRUE(names(refusal(file_ + ":/sea/elevatoin"), "/sea/elevation"));
  EXPECT_TRUE(names(refusal(file_ + ":/elevation"), "/sea/elevation"));
  EXPECT_TRUE(names(refusal(file_ + ":/qqqqqqq"), "/depth", "/sea/elevation"));
  EXPECT_TRUE(names(refusal(file_ + ":/depth/x"), "'/depth/x'"));
  EXPECT_TRUE(names(refusal(file_ + ":/dangling"), "'/dangling'"));
  const auto group = refusal(file_ + ":/sea");
  EXPECT_TRUE(names(group, "group", "/sea/elevation"));
  EXPECT_EQ(group.find("/depth"), std::string::npos);
  EXPECT_TRUE(names(refusal(file_ + ":/"), "/depth", "/sea/elevation"));
}

// ---------------------------------------------------------------- files that cannot be used

TEST_F(Sources, UnusableFilesAreNamed) {
  EXPECT_TRUE(names(refusal(folder_ / "missing.h5"), folder_ / "missing.h5"));
  EXPECT_TRUE(names(refusal(folder_ / "missing.h5:/x"), "missing.h5'"));
  EXPECT_TRUE(names(refusal("unifrom"), "unifrom", "uniform"));
  EXPECT_TRUE(names(refusal(folder_.path().string()), folder_.path().string(), "folder"));
  EXPECT_TRUE(names(refusal("/dev/null"), "/dev/null", "device"));
  EXPECT_TRUE(names(refusal(":/x"), "input.data", "':/x'"));
  std::ofstream(folder_ / "notes.txt") << "not HDF5, but longer than a signature\n";
  EXPECT_TRUE(names(refusal(folder_ / "notes.txt"), "notes.txt", "HDF5"));
  std::ofstream(folder_ / "empty.h5").close();
  EXPECT_TRUE(names(refusal(folder_ / "empty.h5"), "0 bytes"));
}

TEST_F(Sources, AFileWithoutPermissionIsNamed) {
  make_file(file_).close();
  ASSERT_EQ(::chmod(file_.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto message = refusal(file_);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_TRUE(names(message, file_, "Permission denied"));
}

TEST_F(Sources, TruncatedFilesAreReported) {
  const auto values = counting<double>(10'000);
  make_dataset(make_file(file_), "x", H5T_NATIVE_DOUBLE, {{10'000}}, H5T_NATIVE_DOUBLE,
               values.data());
  for (const std::uint64_t bytes : {80'000, 3000, 100}) {
    truncate_to(file_, bytes);
    EXPECT_TRUE(names(refusal(file_ + ":/x"), "truncated"));
  }
}

TEST_F(Sources, ALockedFileNamesTheVariable) {
  if (std::getenv("HDF5_USE_FILE_LOCKING") != nullptr) {
    GTEST_SKIP() << "HDF5_USE_FILE_LOCKING is set: HDF5 may not look at locks";
  }
  make_file(file_).close();
  const Descriptor other(file_, O_RDONLY);
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(names(refusal(file_), "HDF5_USE_FILE_LOCKING"));
}

TEST_F(Sources, DamagedMetadataAreUsageErrors) {
  const float one = 1;
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
  std::fstream bytes(file_, std::ios::in | std::ios::out | std::ios::binary);
  for (int at = 96; at < 2000; ++at) bytes.seekp(at).put('\x5a');
  bytes.close();
  refusal(file_ + ":/x");
}

// ---------------------------------------------------------------- data sets that cannot be used

TEST_F(Sources, DataSetsWithoutNumbersAreNamed) {
  using io::hdf5::Type;
  const Type compound(H5Tcreate(H5T_COMPOUND, 4)), opaque(H5Tcreate(H5T_OPAQUE, 3)),
      list(H5Tvlen_create(H5T_NATIVE_INT)), choice(H5Tenum_create(H5T_NATIVE_INT8));
  const hsize_t three = 3;
  const Type array(H5Tarray_create2(H5T_NATIVE_INT, 1, &three));
  const std::int8_t no = 0;
  H5Tinsert(compound.get(), "a", 0, H5T_NATIVE_INT32);
  H5Tenum_insert(choice.get(), "no", &no);
  const std::map<std::string, std::pair<hid_t, const char*>> types = {
      {"string", {H5T_C_S1, "strings"}},
      {"compound", {compound.get(), "compound values"}},
      {"reference", {H5T_STD_REF_OBJ, "references"}},
      {"vlen", {list.get(), "variable-length lists"}},
      {"opaque", {opaque.get(), "opaque values"}},
      {"enum", {choice.get(), "enum values"}},
      {"array", {array.get(), "arrays"}},
      {"bits", {H5T_STD_B8LE, "bit fields"}}};
  {
    const auto file = make_file(file_);
    for (const auto& [name, type] : types) {
      make_dataset(file, name, type.first, {{2}}, type.first, nullptr);
    }
    const Type named(H5Tcopy(H5T_NATIVE_INT));  // a committed type keeps its file open
    H5Tcommit2(file.get(), "named", named.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  }
  for (const auto& [name, type] : types) {
    EXPECT_TRUE(names(refusal(file_ + ":/" + name), type.second));
    EXPECT_TRUE(names(refusal(file_ + ":/" + name, "f32"), type.second));
  }
  EXPECT_TRUE(names(refusal(file_ + ":/named"), "named", "type"));
  EXPECT_TRUE(names(refusal(file_), file_, "numbers"));
}

TEST_F(Sources, EmptyDataSetsAreErrors) {
  {
    const auto file = make_file(file_);
    make_dataset(file, "zero", H5T_NATIVE_FLOAT, {{3, 0}}, H5T_NATIVE_FLOAT, nullptr);
    const io::hdf5::Space null(H5Screate(H5S_NULL));
    const io::hdf5::Dataset dataset(H5Dcreate2(file.get(), "null", H5T_NATIVE_FLOAT, null.get(),
                                               H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_TRUE(names(refusal(file_ + ":/zero"), file_ + ":/zero", "elements"));
  EXPECT_TRUE(names(refusal(file_ + ":/null"), file_ + ":/null", "elements"));
}

TEST_F(Sources, TooManyElementsAreAnError) {
  const hsize_t wide = hsize_t{1} << 32;
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{wide, wide / 2}, {4, 4}},
               H5T_NATIVE_FLOAT, nullptr);
  EXPECT_TRUE(names(refusal(file_), "2^63"));
}

TEST_F(Sources, AMissingFilterIsNamed) {
  const auto blosc = [](hid_t p) { H5Pset_filter(p, 32001, H5Z_FLAG_OPTIONAL, 0, nullptr); };
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{10}, {5}, blosc}, H5T_NATIVE_FLOAT,
               nullptr);
  EXPECT_TRUE(names(refusal(file_), "filter 32001"));
}

TEST_F(Sources, ACorruptedChunkIsNamed) {
  const auto values = counting<float>(4000);
  haddr_t where = 0;
  {
    const auto file = make_file(file_);
    make_dataset(file, "x", H5T_NATIVE_FLOAT,
                 {{40, 100}, {20, 50}, [](hid_t p) { H5Pset_deflate(p, 6); }}, H5T_NATIVE_FLOAT,
                 values.data());
    const io::hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT));
    hsize_t size = 0;
    unsigned mask = 0;
    const hsize_t second[] = {0, 50};
    ASSERT_GE(H5Dget_chunk_info_by_coord(dataset.get(), second, &mask, &where, &size), 0);
  }
  std::fstream bytes(file_, std::ios::in | std::ios::out | std::ios::binary);
  for (int i = 0; i < 64; ++i) bytes.seekp(static_cast<std::streamoff>(where) + i).put('\x5a');
  bytes.close();
  const auto by_hdf5 =
      open_hdf5_source(file_, "/x", {}, ReadWay::by_hdf5, ReadOrder::elements, Unwritten::fill, {});
  const auto decoded = open(file_);
  for (const Source* const source : {by_hdf5.get(), decoded.get()}) {
    EXPECT_EQ(read<float>(*source, 0, 1000)[51], 101.0f);
    const auto message = error_of([&] { read<float>(*source, 1000, 1000); }, ExitCode::failed);
    EXPECT_TRUE(names(message, source->name(), "[0, 50]"));
    if (source == decoded.get()) continue;
    EXPECT_TRUE(names(message, "elements 1000 to 1999", "inflate()", "20x50"));
  }
}

}  // namespace
}  // namespace shardstream::io
