// A second and very simple implementation of the order of summation, and a fixture that compares
// a backend with it, bit for bit.
#pragma once

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

using device::Buffer;
using device::Memory;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

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
inline bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}
inline bool same(std::int64_t a, std::int64_t b) {
  return a == b;
}
inline bool same(std::uint64_t a, std::uint64_t b) {
  return a == b;
}
inline bool same(Int128 a, Int128 b) {
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
inline constexpr ElementType element_type = std::is_same_v<T, float>           ? ElementType::f32
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

}  // namespace shardstream::reduce
