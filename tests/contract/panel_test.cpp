// Conversions before and after a matrix product, and checksums of rows, on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/round_elements.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using device::Buffer;
using device::Memory;
using Bytes = std::vector<std::byte>;

struct Digits {
  int bits;      // of a significand, including the leading one
  int last_bit;  // exponent of the smallest subnormal number
  int overflow;  // exponent of the first power of two that is infinite
};
Digits digits_of(Format format) {
  switch (format) {
    case Format::f64:
      return {53, -1074, 1024};
    case Format::f32:
    case Format::i8:  // its values are floats, too
      return {24, -149, 128};
    case Format::tf32:
      return {11, -136, 128};
    case Format::bf16:
      return {8, -133, 128};
    case Format::fp16:
      return {11, -24, 16};
  }
  return {};
}

/// Rounding by its definition: to a multiple of the last bit's unit. A long double holds every
/// value of the stored types.
double plainly_rounded(Precision precision, long double x) {
  if (x == 0 || !std::isfinite(x)) return static_cast<double>(x);
  const Format format = traits_of(precision).panel;
  const Digits digits = digits_of(format);
  int exponent = 0;
  (void)std::frexp(x, &exponent);
  const int unit = std::max(exponent - digits.bits, digits.last_bit);
  const long double units = std::ldexp(x, -unit);
  const bool away = format == Format::tf32;
  const long double value = std::ldexp(away ? std::round(units) : std::nearbyint(units), unit);
  const bool infinite = std::abs(value) >= std::ldexp(1.0L, digits.overflow);
  return static_cast<double>(infinite ? std::copysign(HUGE_VALL, x) : value);
}

double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <class T>
T at(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// Element `index` of a panel.
double element(const Bytes& panel, std::size_t index, Precision precision, Backend backend) {
  if (traits_of(precision).panel == Format::f64) return at<double>(panel, index);
  if (panel_element_bytes(precision, backend) == 1) return at<std::int8_t>(panel, index);
  if (panel_element_bytes(precision, backend) == 4) return at<float>(panel, index);
  const auto bits = at<std::uint16_t>(panel, index);
  if (precision == Precision::fp16) return half(bits);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Numbers that are hard to round to some precision, then numbers with random bits.
template <class T>
std::vector<T> hard_values(std::size_t count) {
  std::vector<T> values;
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    std::vector<double> around = {0,       1,       65504,    65520,          65536,
                                  0x1p-14, 0x1p-24, 0x1p-126, 0x1.fffffep127, 0x1.ffcp-15};
    for (const int bits : {8, 11, 24}) {  // ties above an even and above an odd number
      around.push_back(1 + std::ldexp(1, -bits));
      around.push_back(1 + std::ldexp(3, -bits));
    }
    for (const int last_bit : {-24, -133, -136, -149}) {
      for (const int units : {1, 3, 5}) around.push_back(std::ldexp(units, last_bit - 1));
    }
    for (const double x : around) {
      const auto exact = static_cast<T>(x);
      for (const T y : {exact, std::nextafter(exact, T(0)), std::nextafter(exact, Limits::max())}) {
        values.insert(values.end(), {y, -y});
      }
    }
    values.insert(values.end(), {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                 Limits::max(), -Limits::max(), Limits::denorm_min()});
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    for (unsigned high = 0; high < 8 * sizeof(T); ++high) {
      for (const int low : {0, 7, 8, 10, 11, 23, 24, 25, 39, 52, 53, 54}) {
        // A tie at `low` bits below the highest one, and its two neighbours
        std::uint64_t x = std::uint64_t{1} << high;
        if (low <= static_cast<int>(high))
          x |= std::uint64_t{1} << (high - static_cast<unsigned>(low));
        for (const std::uint64_t y : {x - 1, x, x + 1, 0 - x}) {
          values.push_back(static_cast<T>(static_cast<Unsigned>(y)));
        }
      }
    }
    values.insert(values.end(),
                  {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T{0}});
  }
  std::mt19937_64 random(5);
  while (values.size() < count) {
    const std::uint64_t bits = random();
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
    if constexpr (std::is_same_v<T, double>) {  // most doubles are far from any float
      values.push_back(
          std::ldexp(static_cast<double>(random() | 1), static_cast<int>(random() % 200) - 160));
    }
  }
  values.resize(count);
  return values;
}

/// Calls f(ElementType, T{}) for every element type.
template <class F>
void for_element_types(F&& f) {
  for (const auto type : {ElementType::f32, ElementType::f64, ElementType::i32, ElementType::i64,
                          ElementType::u8, ElementType::u64}) {
    with_element_type(type, [&](auto tag) { f(type, typename decltype(tag)::type{}); });
  }
}

struct PanelKernels : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  Backend backend_ = backend_named(device_->info().backend);

  template <class T>
  void expect_canonical(ElementType from, std::uint64_t rows, std::uint64_t columns,
                        std::uint64_t ld, bool transposed) {
    const auto values = hard_values<T>(rows * columns);
    const auto raw = test::on_device(*device_, *stream_, values);
    for (const Precision precision : all_precisions) {
      if (!takes(precision, from)) continue;
      const std::size_t bytes = panel_element_bytes(precision, backend_);
      const auto panel =
          test::on_device(*device_, *stream_, Bytes(rows * ld * bytes, std::byte{0x33}));
      stream_->launch(canonicalize_kernel(),
                      {raw.data(), from, transposed, panel.data(), precision, rows, columns, ld});
      const Bytes got = test::from_device(*stream_, panel);
      for (std::uint64_t r = 0; r < rows; ++r) {
        for (std::uint64_t c = 0; c < columns; ++c) {
          const T x = values[transposed ? c * rows + r : r * columns + c];
          const double wanted = plainly_rounded(precision, x);
          const double found = element(got, r * ld + c, precision, backend_);
          ASSERT_TRUE(same(found, wanted))
              << word_of(from) << " " << std::hexfloat << x << " to " << word_of(precision) << ": "
              << found << " for " << wanted << ", " << rows << " x " << columns << ", ld " << ld
              << (transposed ? " transposed" : "") << " at " << r << ", " << c;
        }
        const auto* rest = got.data() + (r * ld + columns) * bytes;
        ASSERT_TRUE(std::all_of(rest, rest + (ld - columns) * bytes,
                                [](std::byte b) { return b == std::byte{0x33}; }));
      }
    }
  }
};

TEST_F(PanelKernels, CanonicalPanelsAreRoundedOnce) {
  constexpr std::uint64_t shapes[][3] = {{1, 1, 1},      {1, 263, 263},  {263, 1, 1},
                                         {13, 263, 268}, {64, 128, 128}, {96, 80, 96},
                                         {700, 4, 4},    {333, 12, 12},  {90, 60, 64}};
  for (const auto& [rows, columns, ld] : shapes) {
    for (const bool transposed : {false, true}) {
      expect_canonical<float>(ElementType::f32, rows, columns, ld, transposed);
      expect_canonical<double>(ElementType::f64, rows, columns, ld, transposed);
      expect_canonical<std::int32_t>(ElementType::i32, rows, columns, ld, transposed);
      expect_canonical<std::int64_t>(ElementType::i64, rows, columns, ld, transposed);
      expect_canonical<std::int8_t>(ElementType::i8, rows, columns, ld, transposed);
      expect_canonical<std::uint8_t>(ElementType::u8, rows, columns, ld, transposed);
    }
  }
}

TEST_F(PanelKernels, OnlyTheValidPartIsShiftedAndScaled) {
  constexpr std::uint64_t rows = 70, columns = 132;
  struct Case {
    bool shift, scale;
    Side side;
    bool transposed;
    std::uint64_t valid_rows, valid_columns, ld;
  };
  constexpr Case cases[] = {{true, true, Side::a, false, rows, columns, 136},
                            {true, true, Side::b, false, 33, 101, columns},
                            {true, false, Side::a, true, 69, 1, columns},
                            {false, true, Side::b, true, 0, columns, 133},
                            {false, false, Side::b, false, 70, 131, columns},
                            {false, false, Side::a, true, 64, 128, 140},
                            {true, true, Side::b, false, 69, 128, 132},
                            {false, false, Side::b, false, 1, 4, 132}};
  std::vector<double> shift(columns), scale(columns);
  for (std::size_t v = 0; v < columns; ++v) {
    shift[v] = 0.37 * static_cast<double>(v) - 10;
    scale[v] = 1 / (1 + static_cast<double>(v));
  }
  const auto device_shift = test::on_device(*device_, *stream_, shift);
  const auto device_scale = test::on_device(*device_, *stream_, scale);
  for_element_types([&](ElementType from, auto zero) {
    using T = decltype(zero);
    const auto values = hard_values<T>(rows * columns);
    for (const Precision precision : {Precision::fp64, Precision::tf32, Precision::bf16}) {
      const std::size_t bytes = panel_element_bytes(precision, backend_);
      for (const Case& one : cases) {
        const std::uint64_t pitch = one.transposed ? one.valid_rows : one.valid_columns;
        const auto raw = test::on_device(
            *device_, *stream_,
            std::vector<T>(
                values.begin(),
                values.begin() + static_cast<std::ptrdiff_t>(one.valid_rows * one.valid_columns)));
        const auto panel =
            test::on_device(*device_, *stream_, Bytes(rows * one.ld * bytes, std::byte{0x33}));
        stream_->launch(
            canonicalize_kernel(),
            {raw.data(), from, one.transposed, panel.data(), precision, rows, columns, one.ld,
             one.shift ? device_shift.data() : nullptr, one.scale ? device_scale.data() : nullptr,
             one.side, one.valid_rows, one.valid_columns});
        const Bytes got = test::from_device(*stream_, panel);
        for (std::uint64_t r = 0; r < rows; ++r) {
          for (std::uint64_t c = 0; c < columns; ++c) {
            const bool valid = r < one.valid_rows && c < one.valid_columns;
            const T x = valid ? values[one.transposed ? c * pitch + r : r * pitch + c] : T{};
            const std::uint64_t variable = one.side == Side::a ? r : c;
            double centred = static_cast<double>(x);
            if (one.shift) centred -= shift[variable];
            if (one.scale) centred *= scale[variable];
            if (std::isinf(static_cast<double>(x))) centred = std::nan("");
            const bool plain = !one.shift && !one.scale;
            const long double exact = plain ? static_cast<long double>(x) : centred;
            const double wanted = valid ? plainly_rounded(precision, exact) : 0;
            const double found = element(got, r * one.ld + c, precision, backend_);
            ASSERT_TRUE(same(found, wanted))
                << word_of(from) << " to " << word_of(precision) << ": " << found << " for "
                << wanted << ", case " << &one - cases << " at " << r << ", " << c;
          }
          const auto* rest = got.data() + (r * one.ld + columns) * bytes;
          ASSERT_TRUE(std::all_of(rest, rest + (one.ld - columns) * bytes,
                                  [](std::byte b) { return b == std::byte{0x33}; }));
        }
      }
    }
  });
}

/// Panels rounded by readers equal panels rounded on the device, also in place if elements do not
/// grow.
TEST_F(PanelKernels, ReadersAndTheDeviceRoundEqually) {
  constexpr std::uint64_t count = 4099;
  for_element_types([&](ElementType from, auto zero) {
    const auto values = hard_values<decltype(zero)>(count);
    const auto raw = test::on_device(*device_, *stream_, values);
    for (const Precision precision : all_precisions) {
      if (!takes(precision, from)) continue;
      const std::size_t bytes = panel_element_bytes(precision, backend_);
      const Buffer<std::byte> panel(*device_, Memory::device, count * bytes);
      stream_->launch(canonicalize_kernel(),
                      {raw.data(), from, false, panel.data(), precision, 1, count, count});
      const Bytes wanted = test::from_device(*stream_, panel);
      const auto expect_equal = [&](const std::byte* got, const char* where) {
        const Bytes found(got, got + count * bytes);
        for (std::uint64_t i = 0; i < count; ++i) {
          ASSERT_TRUE(
              same(element(found, i, precision, backend_), element(wanted, i, precision, backend_)))
              << word_of(from) << " to " << word_of(precision) << " " << where << ", " << i;
        }
      };
      Bytes separate(count * bytes);
      round_elements(from, precision, backend_, values.data(), count, separate.data());
      expect_equal(separate.data(), "in other memory");
      if (bytes > sizeof(zero)) continue;
      auto within = values;
      round_elements(from, precision, backend_, within.data(), count, within.data());
      expect_equal(reinterpret_cast<const std::byte*>(within.data()), "in place");
    }
  });
}

TEST(PanelWork, ReadersRoundElementsThatDoNotGrowAndAreNotCentred) {
  using enum PanelWork;
  for (const Backend backend : {Backend::cuda, Backend::host}) {
    EXPECT_FALSE(readers_round(ElementType::f32, Precision::fp32, backend));
    EXPECT_TRUE(readers_round(ElementType::f32, Precision::tf32, backend));
    EXPECT_TRUE(readers_round(ElementType::f64, Precision::fp32, backend));
    EXPECT_FALSE(readers_round(ElementType::u8, Precision::bf16, backend));
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp32, backend, false, false), none);
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp32, backend, true, false), transpose);
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp32, backend, false, true), canonicalize);
    EXPECT_EQ(panel_work(ElementType::f64, Precision::bf16, backend, false, false), none);
    EXPECT_EQ(panel_work(ElementType::f64, Precision::bf16, backend, true, false), transpose);
    EXPECT_EQ(panel_work(ElementType::f64, Precision::bf16, backend, true, true), canonicalize);
    EXPECT_EQ(panel_work(ElementType::u8, Precision::fp32, backend, false, false), canonicalize);
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp32, backend, false, false, true), pad);
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp32, backend, true, false, true), transpose);
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp32, backend, false, true, true),
              canonicalize);
    EXPECT_EQ(panel_work(ElementType::f32, Precision::fp64, backend, false, false), canonicalize);
  }
}

/// Compares with the definition of the sums, element by element.
template <class T>
void expect_row_checksums(ElementType type) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const auto values = hard_values<T>(9000);
  for (const std::uint64_t count : {0, 1, 7, 8, 9, 15, 64, 263, 4097, 8191}) {
    for (const std::uint64_t padded : {count, count + 1, count + 9, count + 500}) {
      const T* const row = values.data() + 3;
      std::uint64_t bits = 0, in_row = 0, in_column = 0;
      std::array<double, 8> squares{};
      constexpr std::uint64_t index = (std::uint64_t{1} << 40) + 17, step = 65'537;
      for (std::uint64_t j = 0; j < count; ++j) {
        const std::uint64_t x = mixed_bits(std::bit_cast<Bits>(row[j]));
        bits += x;
        in_row += x * (2 * (index + j) + 1);
        in_column += x * (2 * (index + j * step) + 1);
        const auto value = static_cast<double>(row[j]);
        squares[j % 8] += value * value;
      }
      const RowChecksums got = row_checksums(type, row, count, padded);
      EXPECT_EQ(got.words, word_checksum(row, padded * sizeof(T))) << count << " of " << padded;
      EXPECT_EQ(got.bits, bits) << count;
      EXPECT_EQ(got.matrix_checksum(index), in_row) << count;
      EXPECT_EQ(got.matrix_checksum(index, step), in_column) << count;
      EXPECT_TRUE(same(got.squares, ((squares[0] + squares[1]) + (squares[2] + squares[3])) +
                                        ((squares[4] + squares[5]) + (squares[6] + squares[7]))))
          << count;
    }
  }
}

TEST(RowChecksums, EqualTheSumsOfSingleElements) {
  expect_row_checksums<float>(ElementType::f32);
  expect_row_checksums<double>(ElementType::f64);
  expect_row_checksums<std::int32_t>(ElementType::i32);
  expect_row_checksums<std::int64_t>(ElementType::i64);
  EXPECT_THROW((void)row_checksums(ElementType::u8, "", 0, 0), std::logic_error);
}

template <class T>
struct Finish : PanelKernels {
  static constexpr Precision precision =
      std::is_same_v<T, double> ? Precision::fp64 : Precision::tf32;

  static std::vector<T> random_values(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<T> normal;
    std::vector<T> values(count);
    for (T& value : values) value = normal(random);
    return values;
  }

  void expect(std::uint64_t rows, std::uint64_t columns, std::uint64_t ld, double alpha,
              double beta) {
    const auto tile = random_values(rows * ld, 1), c0 = random_values(rows * columns, 2);
    const Buffer<T> out(*device_, Memory::device, rows * columns);
    // Without C0, with C0, and in the memory of C0 and of the tile
    for (const int way : {0, 1, 2, 3}) {
      const auto device_c0 = test::on_device(*device_, *stream_, c0);
      const auto device_tile = test::on_device(*device_, *stream_, tile);
      const Buffer<T>& to = way == 3 ? device_tile : way == 2 ? device_c0 : out;
      const std::uint64_t ld_out = way == 3 ? ld : columns;
      stream_->launch(finish_kernel(),
                      {device_tile.data(), precision, rows, columns, ld, alpha, beta,
                       way == 0 ? nullptr : device_c0.data(), to.data(), ld_out});
      const auto got = test::from_device(*stream_, to);
      for (std::uint64_t i = 0; i < rows * columns; ++i) {
        const double scaled = alpha * static_cast<double>(tile[i / columns * ld + i % columns]);
        const double more = way == 0 ? 0 : beta * static_cast<double>(c0[i]);
        const T wanted = static_cast<T>(way == 0 ? scaled : scaled + more);
        ASSERT_EQ(got[i / columns * ld_out + i % columns], wanted)
            << rows << " x " << columns << ", way " << way << " at " << i;
      }
    }
  }
};
using Accumulators = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Finish, Accumulators);

TYPED_TEST(Finish, ScalesAndAddsInDouble) {
  this->expect(1, 1, 16, 1, 0);
  this->expect(13, 263, 272, 0.1, -3);
  this->expect(263, 13, 16, -1, 1e-3);
  this->expect(96, 128, 128, 2.5, 1);
  this->expect(64, 48, 64, 1.0 / 3, 0.7);
}

}  // namespace
}  // namespace shardstream::gemm
