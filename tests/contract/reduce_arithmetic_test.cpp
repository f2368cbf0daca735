// The arithmetic that all backends of the reduction share: the tree, sums, means and deviations.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reference.hpp"
#include "kernels/reduce/tree.hpp"

namespace shardstream::reduce {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Tree, SubtreesAreTheLargestAligned) {
  using List = std::vector<Subtree>;
  EXPECT_EQ(subtrees({0, 0}), List{});
  EXPECT_EQ(subtrees({0, 8}), (List{{0, 3}}));
  EXPECT_EQ(subtrees({0, 7}), (List{{0, 2}, {4, 1}, {6, 0}}));
  EXPECT_EQ(subtrees({3, 6}), (List{{3, 0}, {4, 2}, {8, 0}}));
  EXPECT_EQ(subtrees({1, std::uint64_t{1} << 47}).size(), 48U);
  EXPECT_LE(subtrees({1, (std::uint64_t{1} << 48) - 2}).size(), max_subtrees);
}

TEST(Tree, OnlyTheLargestSubtreesAreNotJoinedAndHaveTheirIndex) {
  for (std::uint64_t first = 0; first < 40; ++first) {
    for (std::uint64_t count = 1; count < 40; ++count) {
      const Leaves leaves{first, count};
      std::vector<Subtree> list;
      for (std::uint64_t leaf = first; leaf < leaves.end(); ++leaf) {
        for (unsigned level = 0; leaf % (std::uint64_t{1} << level) == 0 && level < 7; ++level) {
          const Subtree node{leaf, level};
          if (leaves.hold(node) && !leaves.join(node)) list.push_back(node);
        }
      }
      EXPECT_EQ(subtrees(leaves), list) << first << ", " << count;
      for (unsigned i = 0; i < list.size(); ++i) {
        EXPECT_EQ(subtree_index(leaves, list[i].first), i) << first << ", " << count;
      }
    }
  }
}

TEST(Combine, DeviationsThatAreNotRequestedStayUnknown) {
  Partial<double> unknown, known;
  unknown.count = known.count = 2;
  unknown.m2 = no_m2;
  EXPECT_EQ(combine(unknown, unknown).m2, no_m2);
  EXPECT_EQ(combine(known, unknown).m2, no_m2);
  EXPECT_EQ(combine(unknown, known).m2, no_m2);
}

TEST(Combine, SumsOf128BitsAreExact) {
  Partial<std::int64_t> big;
  big.count = 1, big.sum = Int128{std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(combine(big, big).sum, 2 * Int128{std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(to_double(Int128{-1}), -1.0);
  EXPECT_EQ(to_double(Int128{1} << 100), std::ldexp(1.0, 100));
  EXPECT_EQ(to_double(-(Int128{1} << 64) - 1), -std::ldexp(1.0, 64));
}

/// The mean of `base` + 0, 1, ..., count - 1.
Mean mean_from(std::int64_t base, std::int64_t count) {
  return mean_of(Int128{base} * count + Int128{count} * (count - 1) / 2, count);
}

TEST(Mean, OfLargeIntegersKeepsItsFraction) {
  for (const std::int64_t base :
       {std::int64_t{1} << 33, std::int64_t{1} << 53, std::int64_t{1'700'000'000'000'000'000},
        std::numeric_limits<std::int64_t>::max() - 1000, -(std::int64_t{1} << 60) + 7,
        std::numeric_limits<std::int64_t>::min()}) {
    for (const std::int64_t count : {2, 4, 101, 1000}) {
      const Mean mean = mean_from(base, count);
      const double rest = static_cast<double>(count - 1) / 2;
      EXPECT_EQ(static_cast<double>(Int128{mean.whole} - base) + mean.rest, rest) << base;
      EXPECT_LE(std::abs(mean.rest), 1) << base;
      EXPECT_EQ(deviation(base, mean), -rest) << base;
      EXPECT_EQ(deviation(base + (count - 1), mean), rest) << base;
      EXPECT_EQ(difference(mean_from(base + 1, count - 1), mean), 0.5) << base;
    }
  }
}

TEST(Mean, OfSmallIntegersIsADouble) {
  const Mean mean = mean_of(Int128{10}, 4);
  EXPECT_EQ(mean.whole, 0);
  EXPECT_EQ(mean.rest, 2.5);
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(difference(mean_of(Int128{max}, 1), mean_of(Int128{-max}, 1)), std::ldexp(1.0, 64));
}

TEST(Deviation, OnlyFiniteErrorsWithinTheBoundPass) {
  EXPECT_TRUE((Deviation{1, 1}).passes());
  EXPECT_FALSE((Deviation{infinity, 1}).passes());
  EXPECT_FALSE((Deviation{std::nan(""), 1}).passes());
  EXPECT_EQ(Deviation::worse({1, 10}, {1, 20}).bound, 10);
  EXPECT_EQ(Deviation::worse({1, 0}, {5, 10}).bound, 0);
}

}  // namespace
}  // namespace shardstream::reduce
