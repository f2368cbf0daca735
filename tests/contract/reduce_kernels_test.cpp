// Compares every backend, bit for bit, with a second and very simple implementation of the order of
// summation.
#include "contract/reduce_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace shardstream::reduce {
namespace {

using Types = ::testing::Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t,
                               std::uint64_t>;
TYPED_TEST_SUITE(ReduceKernels, Types);

TYPED_TEST(ReduceKernels, EveryLengthOfTheLastLeaf) {
  for (const std::uint64_t count :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{255}, std::uint64_t{lanes - 1},
        std::uint64_t{lanes}, std::uint64_t{lanes + 1}, std::uint64_t{8 * lanes + 3},
        leaf_elements - 1, leaf_elements, leaf_elements + 1, 3 * leaf_elements + 12345}) {
    this->expect_leaves(uniform<TypeParam>(count), "count " + std::to_string(count));
  }
}

TYPED_TEST(ReduceKernels, TiesGoToTheLowestIndex) {
  this->expect_leaves(std::vector<TypeParam>(leaf_elements + 70, TypeParam{3}), "equal");
  std::vector<TypeParam> few(2 * leaf_elements);
  for (std::size_t i = 0; i < few.size(); ++i) few[i] = static_cast<TypeParam>((i * 7919) % 11);
  this->expect_leaves(few, "few values");
}

TYPED_TEST(ReduceKernels, LimitsOfTheType) {
  using Limits = std::numeric_limits<TypeParam>;
  std::vector<TypeParam> values(leaf_elements + 3, Limits::max());
  this->expect_leaves(values, "all max");
  values.assign(values.size(), Limits::lowest());
  this->expect_leaves(values, "all lowest");
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = Limits::max();
  this->expect_leaves(values, "both");
}

/// The first zero is an extreme, whatever its sign.
using ReduceDoubles = ReduceKernels<double>;
TEST_F(ReduceDoubles, ZerosOfBothSignsAreEqual) {
  std::vector<double> zeros(leaf_elements + 100, -0.0);
  for (std::size_t i = 0; i < zeros.size(); i += 3) zeros[i] = 0;
  zeros[0] = -1;
  expect_leaves(zeros, "zeros");
  const auto leaf = leaves(zeros, 0, {.extremes = true}).front();
  EXPECT_EQ(leaf.max_index, 1);
  EXPECT_FALSE(std::signbit(leaf.max));
}

/// Means are rounded by as much as these deviations, in leaves and in the nodes above them.
TEST_F(ReduceDoubles, DeviationsAsSmallAsTheRoundingOfTheMean) {
  constexpr std::uint64_t count = 3 * leaf_elements + 7;
  std::vector<double> values(count);
  long double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t units = mix(i) % 4;
    values[i] = 1 + static_cast<double>(units) * 0x1p-52;
    sum += units;
    squares += units * units;
  }
  const auto parts = leaves(values, 0, {.variance = true});
  const auto node = combine(combine(parts[0], parts[1]), combine(parts[2], parts[3]));
  const long double exact = squares - sum * sum / count;
  EXPECT_NEAR(node.m2 * 0x1p104, static_cast<double>(exact), static_cast<double>(exact) * 1e-12);
}

/// Doubles would round these integers by more than their deviations.
using ReduceLongs = ReduceKernels<std::int64_t>;
TEST_F(ReduceLongs, LargeIntegersAreSubtractedBeforeTheyAreRounded) {
  for (const std::int64_t base :
       {std::int64_t{1} << 53, -std::int64_t{1'700'000'000'000'000'000}}) {
    std::vector<std::int64_t> values(leaf_elements + 101);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = base + static_cast<std::int64_t>(i % 101);
    }
    expect_leaves(values, "large integers");
    const Want want{.variance = true};
    auto last = leaves(values, 0, want)[1];
    const std::int64_t* const elements = values.data() + leaf_elements;
    EXPECT_TRUE(check_leaf(elements, 101, leaf_elements, want, last).variance.passes());
    EXPECT_DOUBLE_EQ(last.m2, 850 * 101);
    last.m2 *= 1 + 1e-12;
    EXPECT_FALSE(check_leaf(elements, 101, leaf_elements, want, last).variance.passes());
  }
}

/// The neighbour of the marker rounds to the same double, if it has 64 bits.
TYPED_TEST(ReduceKernels, OnlyIntegersThatEqualTheMarkerAreMissing) {
  if constexpr (std::is_integral_v<TypeParam>) {
    using Limits = std::numeric_limits<TypeParam>;
    constexpr TypeParam min = Limits::min(), max = Limits::max();
    for (const auto& [marker, valid] :
         std::vector<std::pair<TypeParam, TypeParam>>{{min, min + 1},
                                                      {max, max - 1},
                                                      {max, min},
                                                      {min, max},
                                                      {TypeParam{7}, TypeParam{0}}}) {
      const std::string what = "marker " + std::to_string(+marker);
      std::vector<TypeParam> values(4 * leaf_elements + 1000, marker);
      for (std::size_t i = 0; i < leaf_elements; ++i) values[i] = valid;
      for (std::size_t i = leaf_elements + 2 * lanes + 3; i < values.size(); i += 7) {
        if (i / leaf_elements != 2) values[i] = valid;
      }
      this->expect_leaves(values, what + ", two values", marker);
      values[3 * leaf_elements + 70] = TypeParam{5};
      values.back() = TypeParam{3};
      this->expect_leaves(values, what + ", four values", marker);
    }
  }
}

TYPED_TEST(ReduceKernels, TheReferenceLeavesOutWhatIsMissing) {
  auto values = uniform<TypeParam>(leaf_elements);
  constexpr auto absent = std::numeric_limits<TypeParam>::has_quiet_NaN
                              ? std::numeric_limits<TypeParam>::quiet_NaN()
                              : std::numeric_limits<TypeParam>::min();
  for (std::size_t i = 100; i < values.size(); i += 3) values[i] = absent;
  Want want{.extremes = true, .variance = true, .skip_missing = true};
  if constexpr (std::is_integral_v<TypeParam>) want.marker = static_cast<std::int64_t>(absent);
  auto partial = this->leaves(values, 0, want)[0];
  const auto check = check_leaf(values.data(), values.size(), 0, want, partial);
  for (const Deviation& d : {check.exact, check.sum, check.mean, check.variance, check.stddev}) {
    EXPECT_TRUE(d.passes()) << d.error << " of " << d.bound;
  }
  partial.missing += 1, partial.count -= 1;
  EXPECT_FALSE(check_leaf(values.data(), values.size(), 0, want, partial).exact.passes());
  values.assign(values.size(), absent);
  const auto none = this->leaves(values, 0, want)[0];
  EXPECT_TRUE(check_leaf(values.data(), values.size(), 0, want, none).exact.passes());
  EXPECT_EQ(combine(none, partial).m2, partial.m2);
}

TYPED_TEST(ReduceKernels, NansInfinitiesAndSignedZeros) {
  if constexpr (std::is_floating_point_v<TypeParam>) {
    using Limits = std::numeric_limits<TypeParam>;
    const TypeParam nan = Limits::quiet_NaN(), inf = Limits::infinity();
    const auto with = [](std::initializer_list<std::pair<std::size_t, TypeParam>> changes) {
      auto values = uniform<TypeParam>(2 * leaf_elements + 17);
      for (const auto& [index, value] : changes) values[index] = value;
      return values;
    };
    this->expect_leaves(with({{700, nan}}), "one NaN");
    this->expect_leaves(with({{700, -nan}, {3, nan}, {2 * leaf_elements + 16, nan}}), "three NaNs");
    this->expect_leaves(with({{5, inf}}), "inf");
    this->expect_leaves(with({{5, -inf}, {9, inf}}), "both infinities");
    this->expect_leaves(with({{5, -inf}, {9, inf}, {4, nan}}), "both infinities and NaN");
    this->expect_leaves(std::vector<TypeParam>(leaf_elements + 1, nan), "nothing but NaN");
    std::vector<TypeParam> zeros(leaf_elements + 9, TypeParam{0});
    zeros[900] = -TypeParam{0};
    this->expect_leaves(zeros, "a -0 among +0");
    this->expect_leaves(std::vector<TypeParam>(lanes + 5, -TypeParam{0}), "-0 alone");
    this->expect_leaves({Limits::denorm_min(), -Limits::denorm_min()}, "denormal");
  }
}

/// Ranges of leaves that begin and end anywhere in the groups that a GPU joins.
TYPED_TEST(ReduceKernels, JoinsTheTreeOverAnyRangeOfLeaves) {
  const auto values = uniform<TypeParam>(257 * leaf_elements);
  const auto elements = test::on_device(*this->device_, *this->stream_, values);
  struct Case {
    std::uint64_t count, first_leaf;
  };
  constexpr std::uint64_t leaf = leaf_elements;
  for (const auto& [count, first_leaf] : std::vector<Case>{{1, 0},
                                                           {leaf, 1000001},
                                                           {2 * leaf - 5, 254},
                                                           {2 * leaf, 255},
                                                           {3 * leaf, 126},
                                                           {3 * leaf, 65535},
                                                           {256 * leaf, 256},
                                                           {256 * leaf, 128},
                                                           {257 * leaf, 0},
                                                           {257 * leaf, 255}}) {
    this->expect_tree(elements.data(), count, first_leaf, {});
  }
  this->expect_tree(elements.data(), values.size() - 1, 3, {.extremes = true, .variance = true});
}

/// Enough leaves for a second level of groups.
using ReduceBytes = ReduceKernels<std::uint8_t>;
TEST_F(ReduceBytes, JoinsGroupsOfGroups) {
  const auto values = uniform<std::uint8_t>(max_leaves * leaf_elements);
  const auto elements = test::on_device(*device_, *stream_, values);
  expect_tree(elements.data(), 512 * leaf_elements, 512, {});
  expect_tree(elements.data(), 770 * leaf_elements, 255, {});
  expect_tree(elements.data(), values.size(), 65000, {});
}

/// Compares any division of the leaves with the recursive definition.
TYPED_TEST(ReduceKernels, FoldsTheSameTreeForAnyDivisionOfTheLeaves) {
  using Class = Extreme<TypeParam>;
  constexpr std::uint64_t count = 257;
  constexpr Want want{.extremes = true, .variance = true};
  const auto values = uniform<TypeParam>(count * leaf_elements);
  const auto elements = test::on_device(*this->device_, *this->stream_, values);
  const auto all = this->reduce(elements.data(), values.size(), 0, want).leaves;
  const auto wanted = combine(plain_node(all.data(), 256), all[256]);
  for (const auto& cuts : std::vector<std::vector<std::uint64_t>>{
           {0, 1, count}, {0, 7, 64, 65, 100, 128, 250, count}}) {
    TreeFold<Class> fold;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      const Leaves part{cuts[c], cuts[c + 1] - cuts[c]};
      const std::uint64_t first = part.first * leaf_elements;
      const auto roots =
          this->reduce(elements.data() + first, part.count * leaf_elements, first, want).largest;
      const auto places = subtrees(part);
      for (std::size_t i = 0; i < places.size(); ++i) fold.push(places[i], roots[i]);
    }
    expect_same(fold.root(), wanted, std::to_string(cuts.size() - 1) + " parts");
  }
}

TYPED_TEST(ReduceKernels, TheReferenceAgreesAndDetectsAChangedElement) {
  auto values = uniform<TypeParam>(leaf_elements);
  const Want want{.extremes = true, .variance = true};
  const auto partial = this->leaves(values, 0, want)[0];
  const auto good = check_leaf(values.data(), values.size(), 0, want, partial);
  for (const Deviation& d : {good.exact, good.sum, good.mean, good.variance, good.stddev}) {
    EXPECT_TRUE(d.passes()) << d.error << " of " << d.bound;
  }
  values[4711] = static_cast<TypeParam>(values[4711] / 2 + 1);
  const auto bad = check_leaf(values.data(), values.size(), 0, want, partial);
  EXPECT_FALSE(bad.sum.passes());
  EXPECT_FALSE(bad.mean.passes());
  EXPECT_FALSE(bad.variance.passes());
  EXPECT_FALSE(bad.stddev.passes());
}

/// Every wrong sum or count is detected, whatever else is requested.
TYPED_TEST(ReduceKernels, TheReferenceDetectsAWrongPartial) {
  const auto values = uniform<TypeParam>(1000);
  const auto right = this->leaves(values, 0, {})[0];
  auto wrong = right;
  wrong.sum += 1;
  EXPECT_FALSE(check_leaf(values.data(), values.size(), 0, {}, wrong).sum.passes());
  wrong = right;
  wrong.count -= 1;
  EXPECT_FALSE(check_leaf(values.data(), values.size(), 0, {}, wrong).exact.passes());
  if constexpr (std::is_floating_point_v<TypeParam>) {
    auto with_infinity = values;
    with_infinity[5] = std::numeric_limits<TypeParam>::infinity();
    auto partial = this->leaves(with_infinity, 0, {})[0];
    EXPECT_TRUE(check_leaf(with_infinity.data(), 1000, 0, {}, partial).sum.passes());
    partial.sum = -infinity;
    EXPECT_FALSE(check_leaf(with_infinity.data(), 1000, 0, {}, partial).sum.passes());
  }
}

TEST(Combine, WithNothingGivesTheOther) {
  Partial<double> some;
  some.count = 3, some.sum = 6, some.m2 = 2, some.min = -1, some.min_index = 4;
  some.max = 5, some.max_index = 2;
  expect_same(combine(some, Partial<double>{}), some, "right is empty");
  expect_same(combine(Partial<double>{}, some), some, "left is empty");
}

}  // namespace
}  // namespace shardstream::reduce
