#include "core/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.hpp"

namespace shardstream {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.rbegin(), values.rend(), 1.0);  // not in order
  return values;
}

TEST(Summary, OrderStatisticsOfTheMediansInterval) {
  // n, l: the interval is x(l)..x(n-l+1); exact binomial tables.
  const std::pair<int, int> rows[] = {{6, 1}, {9, 2}, {10, 2}, {20, 6}, {30, 10}};
  for (const auto& [n, l] : rows) {
    const Summary s = summarize(one_to(n));
    EXPECT_EQ(s.ci_lo, l) << n;
    EXPECT_EQ(s.ci_hi, n - l + 1) << n;
  }
}

TEST(Summary, FewSamplesHaveNoInterval) {
  const Summary s = summarize(one_to(5));
  EXPECT_TRUE(std::isnan(s.ci_lo) && std::isnan(s.ci_hi));
  EXPECT_EQ(s.median, 3);
}

TEST(Summary, Quartiles) {
  const Summary s = summarize(one_to(4));
  EXPECT_EQ(s.n, 4U);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.q1, 1.75);
  EXPECT_DOUBLE_EQ(s.q3, 3.25);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(summarize({7.0}).median, 7.0);
}

/// For n alternating values with mean 0 the n - 1 products are all -1 and the n squares 1.
TEST(Autocorrelation, OfKnownSeries) {
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector{1.0, -1.0, 1.0, -1.0}), -0.75);
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector{1.0, 1.0, -1.0, -1.0}), 0.25);
  // Deviations -2 -1 0 1 2: products 2 + 0 + 0 + 2, squares 10.
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector{1.0, 2.0, 3.0, 4.0, 5.0}), 0.4);
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector{3.0, 5.0, 1.0, 2.0, 4.0}), -0.3);
}

TEST(Autocorrelation, IsUnknownForFewSamplesOrNoVariance) {
  EXPECT_TRUE(std::isnan(autocorrelation({})));
  EXPECT_TRUE(std::isnan(autocorrelation(std::vector{1.0, 2.0})));
  EXPECT_TRUE(std::isnan(autocorrelation(std::vector{0.1, 0.1, 0.1})));  // 0.1 + 0.1 + 0.1 > 0.3
}

TEST(Median, IsThatOfTheFiniteValues) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(median({3, std::nan(""), 1, infinity, 2, -infinity, 5}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(median({infinity})));
}

TEST(Summary, WithoutSamplesIsAContractError) {
  EXPECT_THROW(summarize({}), ContractError);
}

}  // namespace
}  // namespace shardstream
