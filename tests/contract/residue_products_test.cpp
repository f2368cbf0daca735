// Whole products from residues against sums of more digits, on every backend.
#include <algorithm>

#include "contract/residues_fixture.hpp"
#include "kernels/gemm/check.hpp"

namespace shardstream::gemm {
namespace {

using ResidueProducts = LinesOf;
INSTANTIATE_TEST_SUITE_P(Precisions, ResidueProducts,
                         ::testing::Values(Precision::fp64_int8, Precision::fp32_int8),
                         [](const auto& tested) {
                           return tested.param == Precision::fp64_int8 ? "fp64" : "fp32";
                         });

/// Sums of integers that the scales keep are exact, however the sums cancel.
TEST_P(ResidueProducts, ProductsOfIntegersAreExact) {
  if (!can_multiply()) GTEST_SKIP() << "this build has no CBLAS";
  constexpr std::uint64_t k = 2064;
  std::mt19937_64 random(8);
  const int bits = is_double() ? 36 : 12;
  const auto integers = [&](std::uint64_t count) {
    Lines made{count, k};
    for (double& value : made.values) {
      value = static_cast<double>(static_cast<std::int64_t>(random() % (1ULL << bits)) -
                                  (1LL << (bits - 1)));
    }
    return made;
  };
  const Lines a = integers(160), b = integers(48);
  const std::vector<double> c = product(a, b, usual_);
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < a.count; ++i) {
    for (std::uint64_t j = 0; j < b.count; ++j) {
      Int128 sum = 0;
      for (std::uint64_t kk = 0; kk < k; ++kk) {
        sum += static_cast<Int128>(a.line(i)[kk]) * static_cast<Int128>(b.line(j)[kk]);
      }
      const double wanted =
          is_double() ? reference_rounding<double>(sum, 0) : reference_rounding<float>(sum, 0);
      if (c[i * b.count + j] != wanted) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0U);
}

/// Lines of all kinds, also those whose products overflow or become subnormal.
TEST_P(ResidueProducts, ErrorsAreWithinTheBound) {
  if (!can_multiply()) GTEST_SKIP() << "this build has no CBLAS";
  const Lines a = varied(32, 1040, precision_, 9), b = varied(48, 1040, precision_, 10);
  constexpr long double largest = std::numeric_limits<double>::max();
  const long double most = is_double() ? largest : std::numeric_limits<float>::max();
  const long double smallest = is_double() ? 0x1p-1074L : 0x1p-149L;
  for (const unsigned moduli : {usual_ - 2, usual_, max_moduli}) {
    const std::vector<double> c = product(a, b, moduli);
    std::size_t wrong = 0, overflows = 0;
    for (std::uint64_t i = 0; i < a.count; ++i) {
      for (std::uint64_t j = 0; j < b.count; ++j) {
        long double sum = 0;
        for (std::uint64_t kk = 0; kk < a.k; ++kk) {
          sum += static_cast<long double>(a.line(i)[kk]) * b.line(j)[kk];
        }
        // The last term is that of the reference.
        const long double bound = (residue_error(moduli, a.k) + 0x1p-54L) * a.norm(i) * b.norm(j) +
                                  unit() * std::abs(sum) + smallest / 2;
        const double got = c[i * b.count + j];
        if (std::abs(sum) > most) {
          overflows += 1;
          if (got != (sum > 0 ? INFINITY : -INFINITY)) ++wrong;
        } else if (!(std::abs(got - sum) <= bound)) {
          ++wrong;
        }
      }
    }
    EXPECT_EQ(wrong, 0U) << moduli << " moduli";
    EXPECT_GT(overflows, 0U);
  }
}

TEST_P(ResidueProducts, InfinitiesAndNansGiveThoseOfNativeProducts) {
  if (!can_multiply()) GTEST_SKIP() << "this build has no CBLAS";
  Lines a = varied(16, 32, precision_, 11), b = varied(16, 32, precision_, 12);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  a.line(0)[3] = infinity;
  a.line(1)[5] = -infinity;
  a.line(2)[3] = NAN;
  b.line(0)[3] = -infinity;
  b.line(1)[5] = 0;
  b.line(2)[7] = NAN;
  b.line(3)[3] = 0;
  const std::vector<double> c = product(a, b, usual_);
  for (std::uint64_t i = 0; i < a.count; ++i) {
    for (std::uint64_t j = 0; j < b.count; ++j) {
      if (i > 2 && j > 2) continue;
      double sum = 0;
      for (std::uint64_t kk = 0; kk < a.k; ++kk) sum += a.line(i)[kk] * b.line(j)[kk];
      const double got = c[i * b.count + j];
      EXPECT_EQ(std::isnan(got), std::isnan(sum)) << i << ", " << j;
      if (std::isinf(sum) && (i < 2 || j == 0)) {
        EXPECT_EQ(got, sum) << i << ", " << j;
      }
    }
  }
}

/// Freivalds' check finds a single wrong residue: the element differs by more than twice the bound
/// of its row.
TEST_P(ResidueProducts, AWrongResidueExceedsTheBoundOfTheCheck) {
  if (!can_multiply()) GTEST_SKIP() << "this build has no CBLAS";
  const Lines a = varied(16, 512, precision_, 13), b = varied(16, 512, precision_, 14);
  const std::vector<double> right = product(a, b, usual_);
  const auto parameters = detail::error_parameters(precision_, a.k, false, false, usual_);
  constexpr std::uint64_t row = 10;  // a uniform one, as is column 10
  const auto model = detail::error_model(parameters, static_cast<double>(b.count),
                                         std::numeric_limits<double>::infinity(),
                                         static_cast<double>(a.norm(row) * a.norm(row)),
                                         static_cast<double>(b.norm(row) * b.norm(row)));
  for (unsigned t = 0; t < usual_; ++t) {
    const std::vector<double> wrong =
        product(a, b, usual_, [&](const test::DeviceResidues& residues) {
          std::int8_t byte = 0;
          std::int8_t* const there = residues.planes.data() + t * residues.pitch + row * a.k + 100;
          stream_->download(&byte, there, 1);
          stream_->synchronize();
          byte = static_cast<std::int8_t>(byte ^ 1);
          stream_->upload(there, &byte, 1);
          stream_->synchronize();
        });
    const std::uint64_t at = row * b.count + row;
    EXPECT_GT(std::abs(wrong[at] - right[at]), 16 * std::sqrt(model.variance)) << t;
  }
}

}  // namespace
}  // namespace shardstream::gemm
