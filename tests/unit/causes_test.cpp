#include "study/causes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace shardstream::study {
namespace {

TEST(Causes, MultiplyToTheTotal) {
  const std::array<double, 3> useful = {3, 6, 9};
  const auto causes = find_causes(useful, 12);
  ASSERT_TRUE(causes);
  EXPECT_DOUBLE_EQ(causes->balance, 6.0 / 9);
  EXPECT_DOUBLE_EQ(causes->busy, 9.0 / 12);
  EXPECT_DOUBLE_EQ(causes->total(), 6.0 / 12);
}

TEST(Causes, OfDevicesMultiplyToTheTotalOnRecordedSpans) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> start(0, 900'000'000), length(1, 90'000'000);
  std::vector<double> kernels, active;
  for (int device = 0; device < 4; ++device) {
    std::vector<TimeSpan> in_kernels, in_anything;
    for (int i = 0; i < 20; ++i) {
      const std::int64_t begin = start(random), end = begin + length(random);
      in_anything.push_back({begin, end});
      if (i % 2 == 0) in_kernels.push_back({begin, end});
    }
    kernels.push_back(union_of(in_kernels));
    active.push_back(union_of(in_anything));
    EXPECT_LE(kernels.back(), active.back());
  }
  const auto causes = find_device_causes(kernels, active, 1.0);
  ASSERT_TRUE(causes);
  const double total = (kernels[0] + kernels[1] + kernels[2] + kernels[3]) / 4;
  EXPECT_NEAR(causes->total(), total, 1e-14);
  EXPECT_NEAR(causes->balance * causes->overlap * causes->active, total, 1e-14);
}

TEST(Causes, WithoutUsefulTimeAreUnknown) {
  EXPECT_FALSE(find_causes({}, 1));
  EXPECT_FALSE(find_causes(std::array{0.0, 0.0}, 1));
  EXPECT_FALSE(find_causes(std::array{1.0}, 0));
  EXPECT_FALSE(find_device_causes({}, {}, 1));
}

TEST(Overlap, IsOneWhenHiddenAndZeroWhenSequential) {
  const std::array<double, 3> busy = {1, 2, 4};
  EXPECT_DOUBLE_EQ(*find_overlap(busy, 4), 1);
  EXPECT_DOUBLE_EQ(*find_overlap(busy, 7), 0);
  EXPECT_DOUBLE_EQ(*find_overlap(busy, 5.5), 0.5);
  EXPECT_FALSE(find_overlap(std::array{1.0, 0.0}, 1));
}

TEST(UnionOfSpans, CountsOverlapsOnce) {
  EXPECT_DOUBLE_EQ(union_of({}), 0);
  EXPECT_DOUBLE_EQ(union_of({{0, 10}, {5, 20}, {30, 40}, {32, 33}}), 30e-9);
  EXPECT_DOUBLE_EQ(union_of({{-20, -10}, {-12, -5}}), 15e-9);
}

}  // namespace
}  // namespace shardstream::study
