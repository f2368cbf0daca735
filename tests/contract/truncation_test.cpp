// Sums that tensor cores truncate: what they lose, and the check of products with such sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "kernels/gemm/panel/rounding.hpp"
#include "support/check.hpp"
#include "support/multiply.hpp"

namespace shardstream::gemm {
namespace {

using namespace fixtures;

using CheckTruncated = Check;

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

TEST_F(CheckTruncated, PassesSplitProductsAndRejectsThoseOfHighPartsAlone) {
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

/// All errors of sums of one sign have the same sign, so the errors of a row add up where most
/// signs of x are equal. Some of 64 tiles are as unequal as chance makes them.
TEST_F(CheckTruncated, PassesTruncatedSumsOfOneSign) {
  const Shape s{2, 1024, 4096, 16, 4096};
  std::mt19937_64 random(29);
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    // From 1 to 2, with all bits of a significand.
    const unsigned one = precision == Precision::bf16 ? 1 << 7 : 1 << 10;
    const auto value = [&] { return static_cast<double>(one + random() % one) / one; };
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
    EXPECT_LT(worst, 0.6) << word_of(precision);
    EXPECT_GT(worst, 0.1) << word_of(precision);
  }
}

using MultiplyOneSign = Multiply;
INSTANTIATE_TEST_SUITE_P(OnTensorCores, MultiplyOneSign,
                         ::testing::Values(Precision::fp32x3, Precision::tf32, Precision::bf16,
                                           Precision::fp16),
                         test_name);

/// Sums of one sign lose no more than the check expects (kernels/gemm/CHECK.md).
TEST_P(MultiplyOneSign, LosesNoMoreThanTheCheckExpects) {
  const PrecisionTraits& row = traits_of(precision_);
  const Tile tile{64, 64, splits(precision_) ? row.gpu.max_k : 4096};
  Matrix a = uneven(tile.m, tile.k, precision_, 5), b = uneven(tile.k, tile.n, precision_, 6);
  for (Matrix* const each : {&a, &b}) {
    for (double& value : each->values) value = std::abs(value);
  }
  const auto plan = plan_for(tile);
  const Bytes got = tiles(*plan, tile, a, b);
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < tile.m; ++i) {
    for (std::size_t j = 0; j < tile.n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < tile.k; ++l) sum += a(i, l) * b(l, j);
      lost += sum - static_cast<double>(sum_at(got, i * tile.n + j));
      all += sum;
    }
  }
  const double steps = static_cast<double>(tile.k) / row.rounding.products_a_step;
  EXPECT_LE(std::abs(lost / all), 1.1 * 0x1p-23 * steps / 4);
  EXPECT_TRUE(lost > 0 || backend_ == Backend::host) << lost;
}

}  // namespace
}  // namespace shardstream::gemm
