#include "kernels/cells/add_runs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardstream::cells {
namespace {

template <class T>
class AddRuns : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t,
                             std::uint64_t>;
TYPED_TEST_SUITE(AddRuns, Types);

/// The number of an element is not needed here.
struct NoPlace {
  std::int64_t number() const { return 0; }
  double weight() const { return 1; }
};

template <class T>
std::vector<std::uint64_t> stored_words(const Accumulator<T>& item, Quantities quantities) {
  std::vector<std::uint64_t> words(max_words<T, Quantities>);
  item.store(quantities, words.data(), 1);
  return words;
}

/// Adds `count` rows of runs of `lanes` items, twice, and expects the numbers of an accumulator
/// that adds one value after another.
template <class T>
void expect_same_numbers(const std::vector<T>& elements, std::size_t lanes, std::size_t count,
                         Quantities quantities) {
  SCOPED_TRACE(testing::Message() << lanes << " lanes, " << count << " rows");
  const std::size_t row = lanes * row_run;
  ItemAccumulators<T> items(quantities);
  items.clear(0, lanes);
  const RunRows<T> rows{
      0, lanes, {elements.data(), 0, nullptr, 1, 0}, count, static_cast<std::int64_t>(row)};
  for (int times = 0; times < 2; ++times) add_runs(items, rows, Skipped<T, false>{});
  for (std::size_t i = 0; i < lanes; ++i) {
    Accumulator<T> expected;
    for (int times = 0; times < 2; ++times) {
      for (std::size_t r = 0; r < count; ++r) {
        for (std::size_t e = r * row + i * row_run; e < r * row + (i + 1) * row_run; ++e) {
          expected.begin(quantities, elements[e], 1);
          expected.add_each(quantities, [&](const auto& add) { add(elements[e], NoPlace{}); });
        }
      }
    }
    ASSERT_EQ(stored_words(items.get(i), quantities), stored_words(expected, quantities))
        << "lane " << i;
  }
}

template <class T>
void expect_for_every_quantity(const std::vector<T>& elements, std::size_t lanes,
                               std::size_t count) {
  const Quantities extremes = Quantity::extremes, squares = Quantity::squares;
  for (const Quantities quantities : {Quantities(), extremes, squares, extremes | squares,
                                      extremes | squares | Quantity::powers}) {
    expect_same_numbers(elements, lanes, count, quantities);
  }
}

/// Any bits of integers; floats of many magnitudes, with both zeros.
template <class T>
std::vector<T> any_elements(std::size_t count) {
  std::vector<T> elements(count);
  std::uint64_t state = 1;
  for (T& x : elements) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if constexpr (std::floating_point<T>) {
      const auto fraction = static_cast<T>(static_cast<std::int64_t>(state) >> 40);
      x = std::ldexp(fraction, static_cast<int>(state >> 20 & 31));
      if ((state >> 30 & 15) == 0) x = (state >> 35 & 1) != 0 ? T{0} : -T{0};
    } else {
      x = static_cast<T>(state >> (64 - 8 * sizeof(T)));
    }
  }
  return elements;
}

/// Some lanes in blocks, and others that fill no block.
TYPED_TEST(AddRuns, GivesTheNumbersOfOneValueAfterAnother) {
  const auto elements = any_elements<TypeParam>(row_run * 128 * 19);
  expect_for_every_quantity(elements, 32, 1);
  expect_for_every_quantity(elements, 7, 5);
  expect_for_every_quantity(elements, 100, 19);
  expect_for_every_quantity(elements, 128, 17);
}

/// More rows of the largest values than the numbers of 32 bits hold.
TYPED_TEST(AddRuns, DoesNotOverflow) {
  constexpr std::size_t lanes = 32, count = 8500;
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam largest = std::floating_point<TypeParam> ? TypeParam{1} : Limits::max();
  const TypeParam least = std::floating_point<TypeParam> ? TypeParam{0} : Limits::min();
  for (const TypeParam value : {largest, least}) {
    std::vector<TypeParam> elements(row_run * lanes * count, value);
    elements[0] = 1;
    expect_for_every_quantity(elements, lanes, count);
  }
}

/// NaNs of both signs are extremes; infinities may make the sum NaN although no value is.
TEST(AddRunsWithNaN, GivesTheNumbersOfOneValueAfterAnother) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const double value : {nan, -nan, infinity, -infinity}) {
    std::vector<double> elements = any_elements<double>(row_run * 64 * 9);
    elements[1000] = value;
    expect_for_every_quantity(elements, 64, 9);
    elements[1001] = -infinity;
    expect_for_every_quantity(elements, 64, 9);
    elements.assign(elements.size(), value);
    expect_for_every_quantity(elements, 64, 9);
    const std::vector<float> narrow(elements.begin(), elements.end());
    expect_for_every_quantity(narrow, 64, 9);
  }
}

}  // namespace
}  // namespace shardstream::cells
