// Products of panels against a plain triple loop, on every backend.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "support/multiply.hpp"

namespace shardstream::gemm {
namespace {

using namespace fixtures;

INSTANTIATE_TEST_SUITE_P(Precisions, Multiply, ::testing::ValuesIn(all_precisions), test_name);

TEST_P(Multiply, SmallIntegersAreExact) {
  for (const Tile& tile : shapes()) {
    expect_product(tile, 2, 3);
    if (tile.m == 128 && backend_ == Backend::host) continue;  // shared like smaller tiles
    expect_product(tile, 1, 1);
    expect_product(tile, 5, 1);
  }
}

/// Compares each tile, computed alone from a B panel of its own width, with the same tile among
/// others. The largest shape is one that runs use.
TEST_P(Multiply, TheBitsOfATileDoNotDependOnItsPosition) {
  const bool on_host = backend_ == Backend::host;  // whose tiles may be smaller
  const Tile usual = tile_for(on_host ? 300 : 500, on_host ? 150 : 300, 400, precision_, backend_);
  for (const Tile& tile : {Tile{48, 32, 64}, Tile{128, 64, 96}, usual}) {
    constexpr std::size_t across = 2, along = 3, blocks = 2;
    const Matrix a = uneven(across * tile.m, blocks * tile.k, precision_, 3);
    const Matrix b = uneven(blocks * tile.k, along * tile.n, precision_, 4);
    const auto plan = plan_for(tile);
    const Bytes together = tiles(*plan, tile, a, b);
    EXPECT_EQ(tiles(*plan, tile, a, b), together);
    const auto another = plan_for(tile);
    EXPECT_EQ(another->algorithm(), plan->algorithm());
    const std::size_t tile_bytes = tile.m * tile.n * accumulator_bytes(precision_);
    for (std::size_t i = 0; i < across; ++i) {
      for (std::size_t j = 0; j < along; ++j) {
        const Bytes alone = tiles(*another, tile, a.part(i * tile.m, 0, tile.m, a.columns),
                                  b.part(0, j * tile.n, b.rows, tile.n));
        const auto among =
            together.begin() + static_cast<std::ptrdiff_t>((i * along + j) * tile_bytes);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), among))
            << "tile " << i << ", " << j << " of " << tile.m << " x " << tile.n;
      }
    }
  }
}

TEST_P(Multiply, ALaneSumsItsPartOfEachBlock) {
  if (splits(precision_) || has_residues()) GTEST_SKIP() << "this precision has no lanes";
  constexpr std::size_t across = 2, along = 3, blocks = 2;
  const Tile tile{48, 32, 256, 4};
  const Matrix a = small_integers(across * tile.m, blocks * tile.k, 1);
  const Matrix b = small_integers(blocks * tile.k, along * tile.n, 2);
  const auto plan = plan_for(tile);
  const Bytes got = tiles(*plan, tile, a, b);
  std::size_t wrong = 0;
  for (std::size_t lane = 0; lane < tile.lanes; ++lane) {
    Matrix wanted{a.rows, b.columns};
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t k = block * tile.k + lane * tile.lane_k();
      const Matrix product = plain_product(a.part(0, k, a.rows, tile.lane_k()),
                                           b.part(k, 0, tile.lane_k(), b.columns));
      for (std::size_t i = 0; i < wanted.values.size(); ++i) {
        wanted.values[i] += product.values[i];
      }
    }
    for (std::size_t i = 0; i < wanted.rows; ++i) {
      for (std::size_t j = 0; j < wanted.columns; ++j) {
        const std::size_t number = i / tile.m * along + j / tile.n;
        const std::size_t place =
            (number * tile.lanes + lane) * tile.m * tile.n + i % tile.m * tile.n + j % tile.n;
        if (sum_at(got, place) != wanted(i, j)) ++wrong;
      }
    }
  }
  EXPECT_EQ(wrong, 0U) << plan->algorithm();
}

/// Compares tiles with those of a larger tile that has the same algorithm.
TEST_P(Multiply, TheBitsDependOnTheAlgorithmNotOnTheSizeOfTheTile) {
  if (backend_ == Backend::host) GTEST_SKIP() << "a host's tiles are no parts of others";
  const Tile large{2048, 2048, 320};
  Tile small{1024, 512, large.k};
  small.like_m = large.m;
  small.like_n = large.n;
  const Matrix a = uneven(large.m, large.k, precision_, 3);
  const Matrix b = uneven(large.k, large.n, precision_, 4);
  const auto plan = plan_for(large);
  const auto another = plan_for(small);
  EXPECT_EQ(another->algorithm(), plan->algorithm());
  const Bytes whole = tiles(*plan, large, a, b), parts = tiles(*another, small, a, b);
  const std::size_t row = small.n * accumulator_bytes(precision_);
  std::size_t differ = 0;
  for (std::size_t i = 0; i < large.m; ++i) {
    for (std::size_t j = 0; j < large.n / small.n; ++j) {
      const std::size_t number = i / small.m * (large.n / small.n) + j;
      const auto* const part = parts.data() + (number * small.m + i % small.m) * row;
      const auto* const same = whole.data() + (i * large.n / small.n + j) * row;
      if (std::memcmp(part, same, row) != 0) ++differ;
    }
  }
  EXPECT_EQ(differ, 0U) << "rows of tiles";
}

/// Exact sums would not reveal a change of the order. Only those of int8 must be exact.
TEST_P(Multiply, SumsOfUnevenValuesAreRounded) {
  const Tile tile{48, 32, 64};
  const Matrix a = uneven(tile.m, tile.k, precision_, 3), b = uneven(tile.k, tile.n, precision_, 4);
  const auto plan = plan_for(tile);
  const Bytes got = tiles(*plan, tile, a, b);
  std::size_t inexact = 0;
  for (std::size_t i = 0; i < tile.m; ++i) {
    for (std::size_t j = 0; j < tile.n; ++j) {
      long double sum = 0, sizes = 0;
      for (std::size_t l = 0; l < tile.k; ++l) {
        const long double product = static_cast<long double>(a(i, l)) * b(l, j);
        sum += product;
        sizes += std::abs(product);
      }
      const long double error = std::abs(sum_at(got, i * tile.n + j) - sum);
      // Twice the maximum of k roundings, since tensor cores truncate; tf32's elements are exact.
      // Residues err relative to |a| |b|, which is at most some times the sum of magnitudes here.
      // With fp32x3, products of low parts are 2^-12 of the others, so a missing one is detected.
      const long double unit =
          accumulator_type(precision_) == ElementType::f64 ? 0x1p-53L : 0x1p-24L;
      EXPECT_LE(error, splits(precision_) ? 0x1p-18L * sizes
                                          : 2 * static_cast<long double>(tile.k) * unit * sizes);
      if (error > 0) ++inexact;
    }
  }
  if (sums_integers(precision_)) {
    EXPECT_EQ(inexact, 0U);
  } else {
    EXPECT_GT(inexact, tile.m * tile.n / 2);
  }
}

constexpr std::uint64_t max_int8_k = traits_of(Precision::int8).max_terms;
using MultiplyInt8 = Multiply;
INSTANTIATE_TEST_SUITE_P(Of, MultiplyInt8, ::testing::Values(Precision::int8), test_name);

/// Sums with the maximum number of the largest products, of either sign.
TEST_P(MultiplyInt8, TheLargestSumsAreExact) {
  const Tile tile{16, 16, 1024};
  Matrix a{tile.m, (max_int8_k + tile.k - 1) / tile.k * tile.k}, b{a.columns, tile.n};
  for (std::size_t kk = 0; kk < max_int8_k; ++kk) {
    for (std::size_t i = 0; i < tile.m; ++i) a(i, kk) = -128;
    for (std::size_t j = 0; j < tile.n; ++j) b(kk, j) = j % 2 == 0 ? -128 : 127;
  }
  const auto plan = plan_for(tile);
  const Bytes got = tiles(*plan, tile, a, b);
  for (std::size_t i = 0; i < tile.m * tile.n; ++i) {
    const std::int64_t product = i % 2 == 0 ? 128 * 128 : -128 * 127;
    ASSERT_EQ(sum_at(got, i), static_cast<double>(product * std::int64_t{max_int8_k})) << i;
  }
  EXPECT_LE(max_int8_k * 128 * 128, 0x7fffffffU);
  EXPECT_GT((max_int8_k + 1) * 128 * 128, 0x7fffffffU);
}

TEST(MultiplyPlans, ABuildWithoutTheLibraryThrows) {
  if (host_multiply_exists()) {
    EXPECT_FALSE(
        make_multiply_plan(Precision::fp32, {8, 8, 8}, Backend::host)->algorithm().empty());
  } else {
    EXPECT_THROW(make_multiply_plan(Precision::fp32, {8, 8, 8}, Backend::host), std::runtime_error);
  }
}

}  // namespace
}  // namespace shardstream::gemm
