// Freivalds' check on every backend: it passes correct products, and names the row and the tile of
// a wrong element whose error exceeds the detection threshold.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/rounding.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using device::Buffer;
using device::Memory;
using Values = std::vector<double>;

constexpr std::uint64_t seed = 77;

Values made(std::uint64_t count, const std::function<double()>& value) {
  Values values(count);
  for (double& x : values) x = value();
  return values;
}
/// Small integers, which are exact in every precision, as are their sums.
Values whole(std::uint64_t count, unsigned from) {
  std::mt19937 random(from);
  return made(count, [&] { return static_cast<double>(random() % 9) - 4; });
}

struct Shape {
  std::uint64_t m, n, k, tile_n, block;  ///< K blocks of `block`
  std::uint64_t tiles() const { return (n + tile_n - 1) / tile_n; }
};

struct Check : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  Backend backend_ = backend_named(device_->info().backend);

  /// A panel of columns [first, first + columns) of the values, padded with zeros up to `ld`.
  Buffer<std::byte> panel(const Values& values, std::uint64_t stride, std::uint64_t rows,
                          std::uint64_t first, std::uint64_t columns, std::uint64_t ld,
                          Precision precision) {
    Values padded(rows * ld);
    for (std::uint64_t i = 0; i < rows * columns; ++i) {
      padded[i / columns * ld + i % columns] = values[i / columns * stride + first + i % columns];
    }
    const ElementType from =
        takes(precision, ElementType::f64) ? ElementType::f64 : ElementType::i8;
    return with_element_type(from, [&](auto tag) {
      const std::vector<typename decltype(tag)::type> stored(padded.begin(), padded.end());
      const auto raw = test::on_device(*device_, *stream_, stored);
      Buffer<std::byte> made(*device_, Memory::device,
                             rows * ld * panel_element_bytes(precision, backend_));
      stream_->launch(canonicalize_kernel(),
                      {raw.data(), from, false, made.data(), precision, rows, ld, ld});
      stream_->synchronize();
      return made;
    });
  }

  struct Sides {
    Buffer<double> z, row_squares, column_squares;
  };
  /// Z and the sums of squares over all K blocks.
  Sides sides(const Shape& s, const Values& a, const Values& b, Precision precision) {
    Sides sides{{*device_, Memory::device, s.m * s.tiles()},
                {*device_, Memory::device, s.m},
                {*device_, Memory::device, s.tiles()}};
    const std::uint64_t width = s.tiles() * s.tile_n;
    for (std::uint64_t kk = 0; kk < s.k; kk += s.block) {
      const std::uint64_t depth = std::min(s.block, s.k - kk);
      const Values rows(b.begin() + static_cast<std::ptrdiff_t>(kk * s.n),
                        b.begin() + static_cast<std::ptrdiff_t>((kk + depth) * s.n));
      const auto b_panel = panel(rows, s.n, depth, 0, s.n, width, precision);
      const auto a_panel = panel(a, s.k, s.m, kk, depth, depth, precision);
      const Buffer<double> y(*device_, Memory::device, depth * 2 * s.tiles());
      stream_->launch(signed_sums_kernel(), {b_panel.data(), precision, depth, width, s.tile_n,
                                             s.tiles(), seed, 0, y.data()});
      stream_->launch(
          add_products_kernel(),
          {a_panel.data(), precision, s.m, depth, depth, y.data(), s.tiles(), sides.z.data(),
           sides.row_squares.data(), sides.column_squares.data(), kk == 0});
      stream_->synchronize();
    }
    return sides;
  }

  /// The verdicts on all column tiles of C, m x n.
  template <class T>
  std::vector<TileVerdict> verdicts(const Shape& s, const std::vector<T>& c, const Sides& sides,
                                    Precision precision) {
    const auto there = test::on_device(*device_, *stream_, c);
    const Buffer<RowVerdict> rows(*device_, Memory::device, s.m);
    const Buffer<TileVerdict> found(*device_, Memory::device, s.tiles());
    for (std::uint64_t tile = 0; tile < s.tiles(); ++tile) {
      const std::uint64_t first = tile * s.tile_n;
      const CheckTileArgs args{there.data() + first,
                               precision,
                               s.m,
                               std::min(s.tile_n, s.n - first),
                               s.n,
                               seed,
                               first,
                               s.k,
                               sides.z.data() + tile,
                               s.tiles(),
                               sides.row_squares.data(),
                               sides.column_squares.data() + tile,
                               rows.data(),
                               found.data() + tile};
      stream_->launch(check_rows_kernel(), args);
      stream_->launch(verdict_kernel(), args);
    }
    return test::from_device(*stream_, found);
  }
};

template <class T>
std::vector<T> product(const Shape& s, const Values& a, const Values& b) {
  std::vector<T> c(s.m * s.n);
  for (std::uint64_t i = 0; i < s.m; ++i) {
    for (std::uint64_t kk = 0; kk < s.k; ++kk) {
      const T x = static_cast<T>(a[i * s.k + kk]);
      for (std::uint64_t j = 0; j < s.n; ++j) c[i * s.n + j] += x * static_cast<T>(b[kk * s.n + j]);
    }
  }
  return c;
}

const Shape shapes[] = {{1, 1, 1, 1, 1},       {13, 263, 1, 64, 1},    {263, 13, 13, 16, 8},
                        {1, 263, 263, 13, 64}, {70, 260, 200, 4, 128}, {130, 100, 263, 20, 263},
                        {64, 128, 96, 32, 64}, {5, 4100, 7, 4100, 7}};

/// Rows of the identity matrix select single signs.
TEST_F(Check, AllBackendsUseTheSameSigns) {
  constexpr std::uint64_t n = 144, first = 1'000'003;
  Values identity(n * n);
  for (std::uint64_t i = 0; i < n; ++i) identity[i * (n + 1)] = -2;
  for (const Precision precision : all_precisions) {
    const auto there = panel(identity, n, n, 0, n, n, precision);
    const Buffer<double> y(*device_, Memory::device, n * 2);
    stream_->launch(signed_sums_kernel(),
                    {there.data(), precision, n, n, n, 1, seed, first, y.data()});
    const auto got = test::from_device(*stream_, y);
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_EQ(got[2 * i], -2 * sign_of(seed, first + i)) << name_of(precision) << " " << i;
      ASSERT_EQ(got[2 * i + 1], 4);
    }
  }
}

TEST_F(Check, SumsOfIntegersAreExact) {
  for (const Shape& s : shapes) {
    const Values a = whole(s.m * s.k, 1), b = whole(s.k * s.n, 2), c = product<double>(s, a, b);
    Values z(s.m * s.tiles()), row_squares(s.m), column_squares(s.tiles());
    for (std::uint64_t i = 0; i < c.size(); ++i) {
      z[i / s.n * s.tiles() + i % s.n / s.tile_n] += sign_of(seed, i % s.n) * c[i];
    }
    for (std::uint64_t i = 0; i < a.size(); ++i) row_squares[i / s.k] += a[i] * a[i];
    for (std::uint64_t i = 0; i < b.size(); ++i) {
      column_squares[i % s.n / s.tile_n] += b[i] * b[i];
    }
    for (const Precision precision : all_precisions) {
      const Sides got = sides(s, a, b, precision);
      EXPECT_EQ(test::from_device(*stream_, got.z), z) << name_of(precision) << " n " << s.n;
      EXPECT_EQ(test::from_device(*stream_, got.row_squares), row_squares);
      EXPECT_EQ(test::from_device(*stream_, got.column_squares), column_squares);
    }
  }
}

template <class T>
struct CheckOf : Check {
  static constexpr Precision precision = std::is_same_v<T, double>  ? Precision::fp64
                                         : std::is_same_v<T, float> ? Precision::fp32
                                                                    : Precision::int8;
};
using Accumulators = ::testing::Types<float, double, std::int32_t>;
template <class T>
using CheckOfExact = CheckOf<T>;
TYPED_TEST_SUITE(CheckOfExact, Accumulators);
using RoundedAccumulators = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CheckOf, RoundedAccumulators);

TYPED_TEST(CheckOfExact, PassesExactProducts) {
  using T = TypeParam;
  for (const Shape& s : shapes) {
    const Values a = whole(s.m * s.k, 1), b = whole(s.k * s.n, 2);
    const auto c = product<T>(s, a, b);
    const auto found = this->verdicts(s, c, this->sides(s, a, b, this->precision), this->precision);
    for (std::uint64_t tile = 0; tile < s.tiles(); ++tile) {
      EXPECT_EQ(found[tile].worst, 0);
      EXPECT_EQ(found[tile].failures, 0U);
      EXPECT_EQ(found[tile].unchecked, 0U);
    }
  }
}

/// A triple loop, the least accurate order, reaches 0.3 of the bound (kernels/MEASUREMENTS.md).
TYPED_TEST(CheckOf, PassesRoundedProductsFarBelowTheBound) {
  using T = TypeParam;
  const Shape s{64, 256, 1024, 128, 256};
  std::mt19937_64 random(9);
  std::uniform_real_distribution<T> uniform(0, 1);
  std::normal_distribution<T> normal;
  const std::function<double()> sources[] = {[&] { return uniform(random); },
                                             [&] { return uniform(random) - T(0.5); },
                                             [&] { return normal(random); }};
  for (const auto& source : sources) {
    const Values a = made(s.m * s.k, source), b = made(s.k * s.n, source);
    for (const auto& found : this->verdicts(
             s, product<T>(s, a, b), this->sides(s, a, b, this->precision), this->precision)) {
      EXPECT_GT(found.worst, 0);
      EXPECT_LT(found.worst, 0.6);
      EXPECT_EQ(found.failures + found.unchecked, 0U);
    }
  }
}

TYPED_TEST(CheckOf, NamesTheRowAndTileOfAWrongElement) {
  using T = TypeParam;
  const Shape s{130, 150, 400, 64, 128};
  std::mt19937_64 random(11);
  std::normal_distribution<T> normal;
  const auto source = [&] { return static_cast<double>(normal(random)); };
  const Values a = made(s.m * s.k, source), b = made(s.k * s.n, source);
  const auto right = product<T>(s, a, b);
  const auto sides = this->sides(s, a, b, this->precision);
  const auto before = this->verdicts(s, right, sides, this->precision);
  for (const auto& [row, column] : {std::pair{0U, 0U}, {129U, 149U}, {64U, 63U}, {77U, 128U}}) {
    const std::size_t wrong_tile = column / s.tile_n;
    for (const double sign : {1.0, -1.0}) {
      auto c = right;
      c[row * s.n + column] +=
          static_cast<T>(sign * 1.001 * before[wrong_tile].detection_threshold);
      const auto found = this->verdicts(s, c, sides, this->precision);
      for (std::size_t tile = 0; tile < found.size(); ++tile) {
        const bool wrong = tile == wrong_tile;
        EXPECT_EQ(found[tile].failures, wrong ? 1U : 0U) << row << ", " << column;
        if (!wrong) continue;
        EXPECT_GT(found[tile].worst, 1);
        EXPECT_EQ(found[tile].worst_row, row);
      }
    }
  }
}

TYPED_TEST(CheckOf, ElementsThatAreNotFiniteAreWrongIfTheOperandsAreFinite) {
  using T = TypeParam;
  const Shape s{20, 40, 30, 20, 30};
  Values a = whole(s.m * s.k, 1);
  const Values b = whole(s.k * s.n, 2);
  for (std::uint64_t kk = 0; kk < s.k; ++kk) a[5 * s.k + kk] = 0;
  const auto right = product<T>(s, a, b);
  const auto sides = this->sides(s, a, b, this->precision);
  using Limits = std::numeric_limits<T>;
  for (const T wrong : {Limits::quiet_NaN(), Limits::infinity(), -Limits::max()}) {
    auto c = right;
    c[7 * s.n + 3] = wrong;
    const auto found = this->verdicts(s, c, sides, this->precision);
    EXPECT_EQ(found[0].failures, 1U);
    EXPECT_EQ(found[0].worst_row, 7U);
    EXPECT_EQ(found[0].unchecked, 0U);
    EXPECT_EQ(found[1].failures, 0U);
  }
  auto c = right;
  c[5 * s.n + 3] = Limits::min();  // the correct row is zero
  const auto zeros = this->verdicts(s, c, sides, this->precision);
  EXPECT_EQ(zeros[0].failures, 1U);
  EXPECT_EQ(zeros[0].worst_row, 5U);

  a[9 * s.k + 2] = Limits::quiet_NaN();
  const auto unknown = this->verdicts(s, product<T>(s, a, b), this->sides(s, a, b, this->precision),
                                      this->precision);
  for (const auto& found : unknown) {
    EXPECT_EQ(found.failures, 0U);
    EXPECT_EQ(found.unchecked, 1U);
  }
}

/// Sums of products of finite values exceed the range of C's type. This is not an error of the
/// hardware, even if the signs cancel, so that Z is small. An element that is not finite for
/// another reason is wrong.
TEST_F(Check, SumsThatOverflowAreUncheckedAndCounted) {
  const Shape s{20, 40, 30, 20, 30};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp32x3}) {
    Values a = whole(s.m * s.k, 1), b = whole(s.k * s.n, 2);
    for (double& x : b) x = std::ldexp(x, 66);
    for (std::uint64_t kk = 0; kk < s.k; ++kk) {
      a[7 * s.k + kk] = 0x1p60;
      a[8 * s.k + kk] = kk == 0 ? 0x1p60 : 0;
    }
    for (std::uint64_t j = 0; j < s.n; ++j) b[j] = sign_of(seed, j) * (j % 2 ? 0x1p69 : -0x1p69);
    const auto c = product<float>(s, a, b);
    ASSERT_FALSE(std::isfinite(c[8 * s.n]));
    const Sides all = sides(s, a, b, precision);
    ASSERT_EQ(test::from_device(*stream_, all.z)[8 * s.tiles()], 0) << "the signs cancel";
    const auto found = verdicts(s, c, all, precision);
    for (const TileVerdict& tile : found) {
      EXPECT_EQ(tile.failures, 0U) << name_of(precision);
      EXPECT_EQ(tile.unchecked, 2U);
      EXPECT_EQ(tile.overflowed, 2U);
    }
    auto wrong = c;
    wrong[3 * s.n] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(verdicts(s, wrong, all, precision)[0].failures, 1U);
  }
}

/// Values of the whole range, so that sums are not small.
TEST_F(Check, DetectsEveryErrorInInt8) {
  const Shape s{130, 150, 400, 64, 128};
  std::mt19937 random(17);
  const auto source = [&] { return static_cast<double>(random() % 256) - 128; };
  const Values a = made(s.m * s.k, source), b = made(s.k * s.n, source);
  const auto right = product<std::int32_t>(s, a, b);
  const Sides all = sides(s, a, b, Precision::int8);
  for (const auto& found : verdicts(s, right, all, Precision::int8)) {
    EXPECT_EQ(found.worst, 0);
    EXPECT_EQ(found.detection_threshold, 1);
    EXPECT_EQ(found.failures + found.unchecked, 0U);
  }
  for (const auto& [row, column] : {std::pair{0U, 0U}, {129U, 149U}, {64U, 63U}, {77U, 128U}}) {
    for (const int by : {1, -1, 1 << 29}) {  // sums are far below 2^30
      auto c = right;
      c[row * s.n + column] += by;
      const auto found = verdicts(s, c, all, Precision::int8);
      for (std::size_t tile = 0; tile < found.size(); ++tile) {
        const bool wrong = tile == column / s.tile_n;
        EXPECT_EQ(found[tile].failures, wrong ? 1U : 0U) << row << ", " << column;
        EXPECT_EQ(found[tile].worst_row, wrong ? row : 0);
      }
    }
  }
}

/// In a model of tensor cores, so many products are added to the sum exactly, and the result is
/// truncated to a float.
constexpr std::uint64_t products_a_step = traits_of(Precision::tf32).rounding.products_a_step;
float cut_off(double sum) {
  const auto nearest = static_cast<float>(sum);
  return std::abs(static_cast<double>(nearest)) > std::abs(sum) ? std::nextafter(nearest, 0.0f)
                                                                : nearest;
}

/// The product of fp32x3 on tensor cores, or that of the high parts alone.
std::vector<float> split_product(const Shape& s, const Values& a, const Values& b,
                                 bool high_alone) {
  const auto parts = [](const Values& of) {
    std::array<std::vector<float>, 2> made;  // low, high
    for (const double x : of) {
      made[1].push_back(detail::high_part(static_cast<float>(x)));
      made[0].push_back(detail::low_part(static_cast<float>(x), made[1].back()));
    }
    return made;
  };
  const auto of_a = parts(a), of_b = parts(b);
  const std::uint64_t block = tile_for(1, 1, s.k, Precision::fp32x3, Backend::cuda).k;
  std::vector<float> c(s.m * s.n);
  for (std::uint64_t first = 0; first < s.k; first += block) {
    const std::uint64_t end = std::min(first + block, s.k);
    for (std::uint64_t i = 0; i < s.m; ++i) {
      for (std::uint64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (const auto& [left, right] : {std::pair{0U, 1U}, {1U, 0U}, {1U, 1U}}) {
          if (high_alone && left + right < 2) continue;
          for (std::uint64_t kk = first; kk < end; kk += products_a_step) {
            double step = sum;
            for (std::uint64_t l = kk; l < std::min(kk + products_a_step, end); ++l) {
              step += static_cast<double>(of_a[left][i * s.k + l]) * of_b[right][l * s.n + j];
            }
            sum = cut_off(step);
          }
        }
        c[i * s.n + j] += sum;
      }
    }
  }
  return c;
}

TEST_F(Check, PassesSplitProductsAndRejectsThoseOfHighPartsAlone) {
  std::mt19937_64 random(19);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::normal_distribution<float> normal;
  // All elements are equal, and each part has the maximum error, so that all errors have one sign.
  const auto worst = [] { return 1 + 0x1p-12 + 0x1p-22 + 0x1p-23; };
  const auto tiny = [&] { return static_cast<double>(0x1p-120f * normal(random)); };
  const std::function<double()> sources[] = {[&] { return uniform(random); },
                                             [&] { return uniform(random) - 0.5F; },
                                             [&] { return normal(random); }, worst, tiny};
  for (const Shape& s :
       {Shape{16, 64, 4096, 64, 4096}, {16, 64, 13, 64, 13}, {8, 32, 263, 32, 100}}) {
    for (std::size_t i = 0; i < std::size(sources); ++i) {
      const Values a = made(s.m * s.k, sources[i]);
      const Values b = made(s.k * s.n, i == 4 ? sources[2] : sources[i]);
      const Sides all = sides(s, a, b, Precision::fp32x3);
      const auto found = verdicts(s, split_product(s, a, b, false), all, Precision::fp32x3);
      EXPECT_LT(found[0].worst, 0.6) << "source " << i << ", k " << s.k;
      EXPECT_EQ(found[0].failures + found[0].unchecked, 0U);
      if (i != 1 && i != 2) continue;
      const auto rough = verdicts(s, split_product(s, a, b, true), all, Precision::fp32x3);
      EXPECT_GT(2 * rough[0].failures, s.m);
    }
  }
}

/// All errors of sums of one sign have the same sign, so the errors of a row add up where most signs
/// of x are equal. Some of 64 tiles are as unequal as chance makes them.
TEST_F(Check, PassesTruncatedSumsOfOneSign) {
  const Shape s{2, 1024, 4096, 16, 4096};
  std::mt19937_64 random(29);
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    const unsigned least = precision == Precision::bf16 ? 1 << 7 : 1 << 10;  // in all bits of it
    const auto value = [&] { return static_cast<double>(least + random() % least) / least; };
    const Values a = made(s.m * s.k, value), b = made(s.k * s.n, value);
    std::vector<float> c(s.m * s.n);
    for (std::uint64_t i = 0; i < s.m; ++i) {
      std::vector<double> steps(s.n);
      for (std::uint64_t kk = 0; kk < s.k; ++kk) {
        for (std::uint64_t j = 0; j < s.n; ++j) {
          steps[j] += a[i * s.k + kk] * b[kk * s.n + j];
          if (kk % products_a_step == products_a_step - 1) steps[j] = cut_off(steps[j]);
        }
      }
      std::ranges::copy(steps, c.begin() + static_cast<std::ptrdiff_t>(i * s.n));
    }
    double worst = 0;
    for (const TileVerdict& each : verdicts(s, c, sides(s, a, b, precision), precision)) {
      worst = std::max(worst, each.worst);
    }
    EXPECT_LT(worst, 0.6) << name_of(precision);
    EXPECT_GT(worst, 0.1) << name_of(precision);
  }
}

/// A synthetic row of a large product, of which only the check's sums exist.
TEST_F(Check, DetectsOneHundredthOfAnElementInLargeFp32Products) {
  constexpr std::uint64_t n = 4096;
  const Shape s{3, n, n, n, n};
  std::mt19937_64 random(13);
  std::normal_distribution<float> normal;
  for (const bool positive : {false, true}) {
    // The sums of normal elements are normal with variance k; those of uniform elements are about
    // k/4.
    const double rms = positive ? n / 4.0 : 64;
    const double square = positive ? 1.0 / 3 : 1;
    std::vector<float> c(s.m * n);
    for (float& x : c) x = positive ? 1024 + 5 * normal(random) : 64 * normal(random);
    Values z(s.m);
    for (std::uint64_t i = 0; i < c.size(); ++i) {
      z[i / n] += sign_of(seed, i % n) * static_cast<double>(c[i]);
    }
    const Sides sides{test::on_device(*device_, *stream_, z),
                      test::on_device(*device_, *stream_, Values(s.m, n * square)),
                      test::on_device(*device_, *stream_, Values(1, n * square * n))};
    const auto right = verdicts(s, c, sides, Precision::fp32);
    EXPECT_EQ(right[0].failures, 0U);
    EXPECT_GT(right[0].detection_threshold, 0);
    EXPECT_LE(right[0].detection_threshold, 0.003 * rms);
    c[2 * n + 1234] += static_cast<float>(0.01 * rms);
    const auto wrong = verdicts(s, c, sides, Precision::fp32);
    EXPECT_EQ(wrong[0].failures, 1U);
    EXPECT_EQ(wrong[0].worst_row, 2U);
  }
}

}  // namespace
}  // namespace shardstream::gemm
