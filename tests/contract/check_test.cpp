// Freivalds' check on every backend: it passes correct products, and names the row and the tile of
// a wrong element whose error exceeds the detection threshold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "support/check.hpp"

namespace shardstream::gemm {
namespace {

using namespace fixtures;

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
                    {there.data(), precision, n, n, n, 1, sign_seed, first, y.data()});
    const auto got = test::from_device(*stream_, y);
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_EQ(got[2 * i], -2 * sign_of(sign_seed, first + i)) << word_of(precision) << " " << i;
      ASSERT_EQ(got[2 * i + 1], 4);
    }
  }
}

TEST_F(Check, SumsOfIntegersAreExact) {
  for (const Shape& s : shapes) {
    const Values a = whole(s.m * s.k, 1), b = whole(s.k * s.n, 2), c = product<double>(s, a, b);
    Values z(s.m * s.tiles()), row_squares(s.m), column_squares(s.tiles());
    for (std::uint64_t i = 0; i < c.size(); ++i) {
      z[i / s.n * s.tiles() + i % s.n / s.tile_n] += sign_of(sign_seed, i % s.n) * c[i];
    }
    for (std::uint64_t i = 0; i < a.size(); ++i) row_squares[i / s.k] += a[i] * a[i];
    for (std::uint64_t i = 0; i < b.size(); ++i) {
      column_squares[i % s.n / s.tile_n] += b[i] * b[i];
    }
    for (const Precision precision : all_precisions) {
      const Sides got = sides(s, a, b, precision);
      EXPECT_EQ(test::from_device(*stream_, got.z), z) << word_of(precision) << " n " << s.n;
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
    for (std::uint64_t j = 0; j < s.n; ++j)
      b[j] = sign_of(sign_seed, j) * (j % 2 ? 0x1p69 : -0x1p69);
    const auto c = product<float>(s, a, b);
    ASSERT_FALSE(std::isfinite(c[8 * s.n]));
    const Sides all = sides(s, a, b, precision);
    ASSERT_EQ(test::from_device(*stream_, all.z)[8 * s.tiles()], 0) << "the signs cancel";
    const auto found = verdicts(s, c, all, precision);
    for (const TileVerdict& tile : found) {
      EXPECT_EQ(tile.failures, 0U) << word_of(precision);
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
      z[i / n] += sign_of(sign_seed, i % n) * static_cast<double>(c[i]);
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
