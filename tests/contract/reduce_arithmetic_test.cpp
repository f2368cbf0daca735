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

template <class T>
void expect_room_for_all_groups() {
  constexpr unsigned levels = group_levels<T>;
  for (const std::uint64_t first : {0, 1, 127, 255, 256, 65535}) {
    for (const std::uint64_t count : {1, 2, 255, 256, 257, 512, 513, 1 << 20}) {
      std::uint64_t groups = 0;
      for (unsigned level = levels; level < 64; level += levels) {
        groups += ((first + count - 1) >> level) - (first >> level) + 1;
      }
      EXPECT_LE(groups, groups_over<T>(count)) << first << ", " << count;
      EXPECT_LE(exchange_words<T>(count),
                exchange_words<T>(0) + count * exchange_words_per_leaf<T>);
    }
  }
}

TEST(Tree, TheExchangeHoldsAllGroups) {
  expect_room_for_all_groups<float>();
  expect_room_for_all_groups<std::int64_t>();
  expect_room_for_all_groups<std::uint8_t>();
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
template <class T>
Mean<T> mean_from(T base, std::int64_t count) {
  return mean_of<T>(Int128{base} * count + Int128{count} * (count - 1) / 2, count);
}

template <class T>
void expect_exact_means_from(T base) {
  for (const std::int64_t count : {2, 4, 101, 1000}) {
    const Mean<T> mean = mean_from(base, count);
    const double rest = static_cast<double>(count - 1) / 2;
    EXPECT_EQ(static_cast<double>(Int128{mean.whole} - base) + mean.rest, rest) << base;
    EXPECT_LE(std::abs(mean.rest), 1) << base;
    EXPECT_EQ(deviation(base, mean), -rest) << base;
    EXPECT_EQ(deviation(static_cast<T>(base + static_cast<T>(count - 1)), mean), rest) << base;
    EXPECT_EQ(difference(mean_from(static_cast<T>(base + 1), count - 1), mean), 0.5) << base;
  }
}

TEST(Mean, OfLargeIntegersKeepsItsFraction) {
  for (const std::int64_t base :
       {std::int64_t{1} << 33, std::int64_t{1} << 53, std::int64_t{1'700'000'000'000'000'000},
        std::numeric_limits<std::int64_t>::max() - 1000, -(std::int64_t{1} << 60) + 7,
        std::numeric_limits<std::int64_t>::min()}) {
    expect_exact_means_from(base);
  }
  for (const std::uint64_t base :
       {std::uint64_t{1} << 33, std::uint64_t{1} << 62, std::uint64_t{1} << 63,
        (std::uint64_t{1} << 63) + 12345, std::numeric_limits<std::uint64_t>::max() - 1000}) {
    expect_exact_means_from(base);
  }
}

TEST(Mean, OfSmallIntegersIsADouble) {
  const auto mean = mean_of<std::int64_t>(10, 4);
  EXPECT_EQ(mean.whole, 0);
  EXPECT_EQ(mean.rest, 2.5);
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(difference(mean_of<std::int64_t>(max, 1), mean_of<std::int64_t>(-max, 1)),
            std::ldexp(1.0, 64));
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
