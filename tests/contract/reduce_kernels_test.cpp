// Compares every backend, bit for bit, with a second and very simple implementation of the order of
// summation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/shard.hpp"
#include "kernels/data/generate.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reference.hpp"
#include "kernels/reduce/tree.hpp"
#include "support/backend.hpp"

namespace shardstream::reduce {
namespace {

using device::Buffer;
using device::Memory;

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class V>
V tree(std::vector<V> lane) {
  for (std::size_t width = lane.size() / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
  }
  return lane[0];
}

/// One leaf by the definition in reduce.hpp, element by element.
template <class T>
PartialOf<T> plain_leaf(const T* x, std::uint64_t count, std::int64_t first, Want want) {
  PartialOf<T> leaf;
  leaf.m2 = want.variance ? 0 : no_m2;
  std::vector<Sum<T>> sums(lanes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto index = first + static_cast<std::int64_t>(i);
    const bool absent = x[i] != x[i] || (std::is_integral_v<T> && want.skip_missing &&
                                         x[i] == static_cast<T>(want.marker));
    if (absent) {
      leaf.missing += 1;
      if (leaf.first_missing == no_index) leaf.first_missing = index;
      if (want.skip_missing) continue;
    }
    leaf.count += 1;
    sums[i % lanes] += static_cast<Sum<T>>(x[i]);
    if (!want.extremes || absent) continue;
    const auto value =
        from_order_key<Extreme<T>>(extreme_key(static_cast<Extreme<T>>(x[i])));  // -0 is 0
    if (leaf.min_index == no_index || extreme_key(value) < extreme_key(leaf.min)) {
      leaf.min = value, leaf.min_index = index;
    }
    if (leaf.max_index == no_index || extreme_key(leaf.max) < extreme_key(value)) {
      leaf.max = value, leaf.max_index = index;
    }
  }
  leaf.sum = tree(sums);
  if (!want.variance || leaf.count == 0) return leaf;
  const auto mean = mean_of<Extreme<T>>(leaf.sum, leaf.count);
  std::vector<double> squares(lanes), deviations(lanes);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (want.skip_missing && is_missing(x[i], static_cast<T>(want.marker))) continue;
    const double delta = deviation(x[i], mean);
    squares[i % lanes] += delta * delta;
    deviations[i % lanes] += delta;
  }
  leaf.residual = tree(deviations);
  leaf.m2 = Squares{tree(squares), leaf.residual}.about_mean(leaf.count);
  return leaf;
}

/// Whether the bits are equal, or both are NaN.
bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}
bool same(std::int64_t a, std::int64_t b) {
  return a == b;
}
bool same(std::uint64_t a, std::uint64_t b) {
  return a == b;
}
bool same(Int128 a, Int128 b) {
  return a == b;
}

template <class T>
void expect_same(const Partial<T>& got, const Partial<T>& wanted, const std::string& what) {
  EXPECT_TRUE(same(got.sum, wanted.sum)) << what;
  EXPECT_TRUE(same(got.m2, wanted.m2)) << what << ": " << got.m2 << " and " << wanted.m2;
  EXPECT_TRUE(same(got.residual, wanted.residual)) << what;
  EXPECT_EQ(got.count, wanted.count) << what;
  EXPECT_EQ(got.missing, wanted.missing) << what;
  EXPECT_EQ(got.first_missing, wanted.first_missing) << what;
  EXPECT_EQ(got.min_index, wanted.min_index) << what;
  EXPECT_EQ(got.max_index, wanted.max_index) << what;
  if (wanted.min_index == no_index) return;
  EXPECT_TRUE(same(got.min, wanted.min)) << what << ": " << got.min << " and " << wanted.min;
  EXPECT_TRUE(same(got.max, wanted.max)) << what << ": " << got.max << " and " << wanted.max;
}

template <class T>
constexpr ElementType element_type = std::is_same_v<T, float>           ? ElementType::f32
                                     : std::is_same_v<T, double>        ? ElementType::f64
                                     : std::is_same_v<T, std::int32_t>  ? ElementType::i32
                                     : std::is_same_v<T, std::int64_t>  ? ElementType::i64
                                     : std::is_same_v<T, std::int8_t>   ? ElementType::i8
                                     : std::is_same_v<T, std::uint64_t> ? ElementType::u64
                                                                        : ElementType::u8;

template <class T>
std::vector<T> uniform(std::uint64_t count) {
  std::vector<T> values(count);
  generate(Generator::uniform, element_type<T>, 7, 0, count,
           reinterpret_cast<std::byte*>(values.data()));
  return values;
}

/// A node of the tree by its definition; all its leaves must exist.
template <class T>
Partial<T> plain_node(const Partial<T>* leaves, std::uint64_t count) {
  if (count == 1) return leaves[0];
  return combine(plain_node(leaves, count / 2), plain_node(leaves + count / 2, count / 2));
}

template <class T>
class ReduceKernels : public ::testing::Test {
 protected:
  using Node = PartialOf<T>;
  /// The results of one launch.
  struct Written {
    std::vector<Node> leaves, largest, samples;
  };

  static constexpr std::uint64_t max_leaves = 1100;
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  /// For all launches of a test: each leaves it as it must be for the next.
  Buffer<std::uint64_t> exchange_ = test::on_device(
      *device_, *stream_, std::vector<std::uint64_t>(exchange_words<T>(max_leaves)));

  Written reduce(const T* elements, std::uint64_t count, std::uint64_t first, Want want,
                 const std::vector<std::uint32_t>& sampled = {}) {
    BatchArgs<T> args{.elements = elements,
                      .count = count,
                      .first = first,
                      .leaves = nullptr,
                      .largest = nullptr,
                      .samples = nullptr,
                      .exchange = exchange_.data(),
                      .want = want,
                      .sample_count = 0,
                      .sampled = {}};
    const auto buffer = [&](std::size_t nodes) {
      return Buffer<Node>(*device_, Memory::device, nodes);
    };
    const auto leaves = buffer(args.leaf_range().count),
               largest = buffer(subtrees(args.leaf_range()).size()),
               samples = buffer(sampled.size());
    args.leaves = leaves.data(), args.largest = largest.data(), args.samples = samples.data();
    for (const auto place : sampled) args.sampled[args.sample_count++] = place;
    stream_->launch(batch_kernel<T>(), args);
    return {test::from_device(*stream_, leaves), test::from_device(*stream_, largest),
            test::from_device(*stream_, samples)};
  }

  std::vector<Node> leaves(const std::vector<T>& values, std::uint64_t first, Want want) {
    const auto elements = test::on_device(*device_, *stream_, values);
    return reduce(elements.data(), values.size(), first, want).leaves;
  }

  /// The tree over `count` elements, of which the first belongs to leaf `first_leaf`, and the
  /// maximum number of samples of a launch.
  void expect_tree(const T* elements, std::uint64_t count, std::uint64_t first_leaf, Want want) {
    const Leaves stretch{first_leaf, ceil_div(count, leaf_elements)};
    const std::string what =
        std::to_string(stretch.count) + " leaves from " + std::to_string(first_leaf);
    std::vector<std::uint32_t> sampled;
    constexpr std::uint64_t samples = BatchArgs<T>::max_samples;
    for (std::uint64_t i = 0; i < samples; ++i) {
      sampled.push_back(static_cast<std::uint32_t>(i * (stretch.count - 1) / (samples - 1)));
    }
    const Written got = reduce(elements, count, first_leaf * leaf_elements, want, sampled);
    const auto places = subtrees(stretch);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Node* leaves = got.leaves.data() + (places[i].first - first_leaf);
      expect_same(got.largest[i], plain_node(leaves, std::uint64_t{1} << places[i].level),
                  what + ", node " + std::to_string(i));
    }
    for (std::size_t i = 0; i < sampled.size(); ++i) {
      expect_same(got.samples[i], got.leaves[sampled[i]], what + ", sample " + std::to_string(i));
    }
  }

  /// Compares the leaves with plain_leaf() for every Want. `marker` is for integers.
  void expect_leaves(const std::vector<T>& values, const std::string& what, T marker) {
    for (const bool extremes : {false, true}) {
      for (const bool variance : {false, true}) {
        for (const bool skip : {false, true}) {
          const Want want{extremes, variance, skip, static_cast<std::int64_t>(marker)};
          constexpr std::uint64_t first = 5 * leaf_elements;
          const auto got = leaves(values, first, want);
          for (std::size_t i = 0; i < got.size(); ++i) {
            const std::uint64_t offset = i * leaf_elements;
            const std::uint64_t count = std::min(leaf_elements, values.size() - offset);
            const auto index = static_cast<std::int64_t>(first + offset);
            const auto wanted = plain_leaf(values.data() + offset, count, index, want);
            expect_same(got[i], wanted,
                        what + ", leaf " + std::to_string(i) + (extremes ? ", extremes" : "") +
                            (variance ? ", variance" : "") + (skip ? ", skip" : ""));
          }
        }
      }
    }
  }
  /// The value in the middle is the marker of missing integers.
  void expect_leaves(const std::vector<T>& values, const std::string& what) {
    expect_leaves(values, what, std::is_integral_v<T> ? values[values.size() / 2] : T{0});
  }
};

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
