// Means and standard deviations from the sums of shifted and scaled values.
#include "workloads/product/engine/normalization/variable_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shardstream::workloads::product {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

VariableMoments sums(double sum, double squares, double weights, std::uint64_t count,
                     unsigned ddof) {
  return {.sum = sum,
          .squares = squares,
          .weights = weights,
          .count = count,
          .degrees = weights - ddof};
}

TEST(VariableStatistics, UndoShiftAndScale) {
  // 10, 12 and 17 with the shift 11 and the scale 1/4.
  const auto of = [](unsigned ddof) { return sums(1.5, (1 + 1 + 36) / 16.0, 3, 3, ddof); };
  const VariableStatistics one = statistics_of(of(1), {0, 11}, 0.25, true);
  EXPECT_EQ(one.mean, 13);
  EXPECT_DOUBLE_EQ(one.deviation, std::sqrt((9 + 1 + 16) / 2.0));
  EXPECT_EQ(one.count, 3U);
  EXPECT_DOUBLE_EQ(statistics_of(of(0), {0, 11}, 0.25, true).deviation, std::sqrt(26 / 3.0));
  EXPECT_DOUBLE_EQ(statistics_of(of(1), {}, 0.25, false).deviation, std::sqrt(38 / 3.0));
}

TEST(VariableStatistics, HaveWeights) {
  // 1 with the weight 1/2, and 5 with the weight 3/2.
  const VariableStatistics of = statistics_of(sums(8, 38, 2, 2, 0), {}, 1, true);
  EXPECT_EQ(of.mean, 4);
  EXPECT_DOUBLE_EQ(of.deviation, std::sqrt((0.5 * 9 + 1.5 * 1) / 2));
}

TEST(VariableStatistics, RoundMeansOfLargeIntegersOnce) {
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  const auto mean = [](std::int64_t whole, double part, double sum) {
    return statistics_of(sums(sum, 1e9, 4, 4, 1), {whole, part}, 1, true).mean;
  };
  EXPECT_EQ(mean(max, 0, 0), 0x1p63);
  EXPECT_EQ(mean(max, -1023, 0), 0x1p63 - 1024);
  EXPECT_EQ(mean(-max - 1, 1024, 4096), -0x1p63 + 2048);
  constexpr std::int64_t beyond = (std::int64_t{1} << 53) + 1;  // no double
  EXPECT_EQ(mean(beyond, 0.5, 2), static_cast<double>(beyond + 1));
  EXPECT_EQ(mean(beyond, 0.75, 0), 0x1p53 + 2);
}

TEST(VariableStatistics, AreConstantEmptyOrUnknown) {
  EXPECT_TRUE(statistics_of(sums(0, 0, 5, 5, 1), {0, 0.1}, 2, true).is_constant());
  EXPECT_EQ(statistics_of(sums(0, 0, 5, 5, 1), {0, 0.1}, 2, true).mean, 0.1);
  const VariableStatistics empty = statistics_of(sums(0, 0, 0, 0, 1), {}, 1, true);
  EXPECT_TRUE(empty.is_empty() && std::isnan(empty.mean) && std::isnan(empty.deviation));
  for (const auto& [sum, squares] : {std::pair{nan, nan}, {0.0, nan}, {1.0, infinity}}) {
    const VariableStatistics of = statistics_of(sums(sum, squares, 5, 5, 1), {}, 1, true);
    EXPECT_TRUE(std::isnan(of.mean) && std::isnan(of.deviation)) << squares;
    EXPECT_FALSE(of.is_constant() || of.is_empty());
  }
}

}  // namespace
}  // namespace shardstream::workloads::product
