// Compares the kernels of order statistics on every backend with sorted elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <vector>

#include "kernels/data/generate.hpp"
#include "kernels/order/digits.hpp"
#include "kernels/order/partition.hpp"
#include "support/backend.hpp"

namespace shardstream::order {
namespace {

template <class T>
class Order : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t,
                             std::uint64_t>;
TYPED_TEST_SUITE(Order, Types);

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {Limits::max(), Limits::lowest(), T{0}, T{1}};
  if constexpr (std::floating_point<T>) {
    for (const T x :
         {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
          T{-0.0}, Limits::denorm_min(), -Limits::denorm_min(), Limits::min(), T{-1}}) {
      values.push_back(x);
    }
  }
  return values;
}

/// Elements over the type's range (floats in [0, 1)), in which every seventh element is special.
template <class T>
std::vector<T> mixed(std::size_t count) {
  const std::uint64_t stream = stream_of(count);
  const std::vector<T> special = special_values<T>();
  std::vector<T> elements(count);
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = i % 7 == 0 ? special[i / 7 % special.size()] : uniform_element<T>(stream, i);
  }
  return elements;
}

/// Random bits: floats of all magnitudes, some of them NaN.
template <class T>
std::vector<T> of_all_magnitudes(std::size_t count) {
  std::vector<T> elements(count);
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = value_of<T>(static_cast<Key<T>>(mix(i)) & max_key<T>);
  }
  return elements;
}

TYPED_TEST(Order, KeysHaveTheOrderOfTheValues) {
  using T = TypeParam;
  std::vector<T> values = mixed<T>(5000);
  for (const T x : values) EXPECT_EQ(key_of(value_of<T>(key_of(x))), key_of(x));
  std::erase_if(values, [](T x) { return x != x; });
  std::ranges::sort(values, {}, [](T x) { return key_of(x); });
  EXPECT_TRUE(std::ranges::is_sorted(values));
  EXPECT_GE(key_of(values.front()), lowest_key<T>);
  EXPECT_LE(key_of(values.back()), highest_key<T>);
  if constexpr (std::floating_point<T>) {
    EXPECT_EQ(key_of(T{-0.0}) + 1, key_of(T{0}));
    EXPECT_GT(key_of(std::numeric_limits<T>::quiet_NaN()), highest_key<T>);
    EXPECT_LT(key_of(-std::numeric_limits<T>::quiet_NaN()), lowest_key<T>);
  }
}

/// The intervals that end at the keys of these elements and at those below them. Every second one
/// is collected.
template <class T>
std::vector<Interval<T>> intervals_at(const std::vector<T>& ends) {
  std::vector<Key<T>> keys = {max_key<T>};
  for (const T x : ends) {
    keys.push_back(key_of(x));
    if (key_of(x) > 0) keys.push_back(key_of(x) - 1);
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<Interval<T>> intervals;
  for (const Key<T> key : keys) intervals.push_back({key, intervals.size() % 2 == 1});
  return intervals;
}

template <class T>
struct Parted {
  std::vector<std::uint64_t> counts;
  std::vector<Key<T>> keys;     // collected, sorted
  std::uint64_t collected = 0;  // including those beyond the capacity
};

template <class T>
Parted<T> expected(const std::vector<T>& elements, const std::vector<Interval<T>>& intervals) {
  Parted<T> parted{std::vector<std::uint64_t>(intervals.size()), {}, 0};
  for (const T x : elements) {
    std::size_t i = x == x ? 0 : intervals.size() - 1;
    while (intervals[i].last < key_of(x)) ++i;
    ++parted.counts[i];
    if (intervals[i].collects) parted.keys.push_back(key_of(x));
  }
  std::ranges::sort(parted.keys);
  parted.collected = parted.keys.size();
  return parted;
}

/// On top of counters that are 5 and of 3 collected keys.
template <class T>
Parted<T> parted(const std::vector<T>& elements, const std::vector<Interval<T>>& intervals,
                 const Locator<T>& locator, std::uint64_t capacity) {
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  std::vector<PartitionTable<T>> table(1);
  fill_table(intervals, locator, table[0]);
  const auto data = test::on_device(*device, *stream, elements);
  const auto on_device = test::on_device(*device, *stream, table);
  const auto counts =
      test::on_device(*device, *stream, std::vector<std::uint64_t>(intervals.size(), 5));
  const auto collected = test::on_device(*device, *stream, std::vector<std::uint64_t>{3});
  const auto keys =
      test::on_device(*device, *stream, std::vector<Key<T>>(capacity + 4, Key<T>{77}));
  stream->launch(partition_kernel<T>(),
                 PartitionArgs<T>{.elements = data.data(),
                                  .count = elements.size(),
                                  .table = on_device.data(),
                                  .locator = locator,
                                  .intervals = static_cast<unsigned>(intervals.size()),
                                  .counts = counts.data(),
                                  .keys = keys.data(),
                                  .capacity = capacity + 3,
                                  .collected = collected.data()});
  Parted<T> found{test::from_device(*stream, counts), test::from_device(*stream, keys),
                  test::from_device(*stream, collected)[0] - 3};
  for (auto& count : found.counts) count -= 5;
  EXPECT_EQ(found.keys[2], Key<T>{77});
  EXPECT_EQ(found.keys.back(), Key<T>{77});  // behind the capacity
  const auto begin = found.keys.begin() + 3;
  found.keys = {begin, begin + static_cast<std::ptrdiff_t>(std::min(capacity, found.collected))};
  std::ranges::sort(found.keys);
  return found;
}

template <class T>
void expect_right(const std::vector<T>& elements, const std::vector<Interval<T>>& intervals,
                  const std::vector<Locator<T>>& locators) {
  const Parted<T> right = expected(elements, intervals);
  for (const Locator<T>& locator : locators) {
    const Parted<T> found = parted(elements, intervals, locator, right.collected);
    EXPECT_EQ(found.counts, right.counts) << elements.size() << " elements";
    EXPECT_EQ(found.collected, right.collected);
    EXPECT_EQ(found.keys, right.keys);
  }
}

/// The locators of each kind between two keys, neither of which is that of NaN.
template <class T>
std::vector<Locator<T>> locators_between(Key<T> first, Key<T> last) {
  std::vector<Locator<T>> all;
  for (const Key<T> frequent : {first, first + (last - first) / 3}) {
    all.push_back(Locator<T>::of_keys(first, last, frequent));
  }
  all.push_back(Locator<T>::of_keys(first, last, last, host_locator_cells));
  if constexpr (std::floating_point<T>) all.push_back(Locator<T>::of_values(first, last));
  return all;
}
template <class T>
std::vector<Locator<T>> locators_of(T low, T high) {
  return locators_between<T>(key_of(low), key_of(high));
}

TYPED_TEST(Order, ElementsAreCountedAndCollectedWhateverTheirNumber) {
  using T = TypeParam;
  for (const std::size_t count : {1, 3, 31, 1023, 8192, 32769, 300'001}) {
    const std::vector<T> elements = mixed<T>(count);
    expect_right(elements, intervals_at<T>({}), {Locator<T>()});
    std::vector<T> ends = {elements[count / 2], elements[count / 3], elements[count / 5]};
    expect_right(elements, intervals_at(ends), locators_of<T>(0, 1));
    for (const T x : special_values<T>()) ends.push_back(x);
    expect_right(elements, intervals_at(ends), locators_of<T>(0, 1));
  }
}

TYPED_TEST(Order, TheLocatorDoesNotMatter) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  for (const auto& elements : {mixed<T>(10'000), of_all_magnitudes<T>(10'000)}) {
    const auto intervals = intervals_at<T>({elements[1], elements[2], elements[3], T{0}, T{1}});
    expect_right(elements, intervals, {Locator<T>()});
    expect_right(elements, intervals, locators_of(Limits::lowest(), Limits::max()));
    expect_right(elements, intervals, locators_of(T{1}, T{1}));
    expect_right(elements, intervals, locators_of(T{0}, Limits::max()));
    if constexpr (std::floating_point<T>) {
      expect_right(elements, intervals, locators_of(-Limits::infinity(), Limits::infinity()));
      expect_right(elements, intervals, locators_of(T{0}, Limits::denorm_min()));
      expect_right(elements, intervals, locators_of(T{0.25}, T{0.5}));
    }
  }
}

TYPED_TEST(Order, NoLocatorGivesALargerKeyALowerCell) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::vector<T> elements = of_all_magnitudes<T>(10'000);
  for (const T x : special_values<T>()) elements.push_back(x);
  std::erase_if(elements, [](T x) { return x != x; });
  std::ranges::sort(elements, {}, [](T x) { return key_of(x); });
  auto locators = locators_of(Limits::lowest(), Limits::max());
  for (const auto& locator : locators_of<T>(1, 100)) locators.push_back(locator);
  for (const auto& locator : locators) {
    EXPECT_TRUE(std::ranges::is_sorted(elements, {}, locator));
    EXPECT_LT(locator(elements.front()), locator(elements.back()));
    EXPECT_LT(locator(elements.back()), locator_cells);
  }
}

/// Other keys of its step are in other intervals.
TYPED_TEST(Order, AFrequentKeyIsNotSearched) {
  using T = TypeParam;
  constexpr T max = std::numeric_limits<T>::max(), third = max / 3;
  std::vector<PartitionTable<T>> table(1);
  const auto intervals = intervals_at<T>({T{0}, third});
  for (const T frequent : {T{0}, third}) {
    const auto locator = Locator<T>::of_keys(intervals.front().last, key_of(max), key_of(frequent));
    fill_table(intervals, locator, table[0]);
    const unsigned code = table[0].cell[locator(frequent)];
    ASSERT_NE(code, several) << +frequent;
    EXPECT_EQ(table[0].last[code & (collects - 1U)], key_of(frequent));
  }
}

/// Most elements may lie there, so each side has one interval.
TYPED_TEST(Order, ElementsOutsideTheLocatorAreNotSearched) {
  using T = TypeParam;
  std::vector<PartitionTable<T>> table(1);
  const Key<T> low = key_of(T{10}) - 1, high = key_of(T{20}) + 1;
  for (const auto& locator : locators_between<T>(low, high)) {
    fill_table(intervals_at<T>({10, 20}), locator, table[0]);
    for (const T x :
         {std::numeric_limits<T>::lowest(), T{9}, T{40}, std::numeric_limits<T>::max()}) {
      EXPECT_NE(table[0].cell[locator(x)], several) << +x;
    }
  }
}

TYPED_TEST(Order, ThereMayBeManyIntervals) {
  using T = TypeParam;
  const std::vector<T> elements = mixed<T>(50'000);
  for (const std::size_t ends : {10, 100, 500}) {
    const std::vector<T> some(elements.begin(),
                              elements.begin() + static_cast<std::ptrdiff_t>(ends));
    expect_right(elements, intervals_at(some), locators_of<T>(0, 1));
  }
}

TYPED_TEST(Order, EqualElementsAndSortedOnes) {
  using T = TypeParam;
  std::vector<T> elements(100'000, T{1});
  const auto intervals = intervals_at<T>({T{1}, T{2}});
  expect_right(elements, intervals, locators_of<T>(0, 3));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<T>(i % 100);
  expect_right(elements, intervals, locators_of<T>(0, 3));
  std::ranges::sort(elements);
  expect_right(elements, intervals, locators_of<T>(0, 3));
}

TYPED_TEST(Order, KeysBeyondTheCapacityAreOnlyCounted) {
  using T = TypeParam;
  const std::vector<T> elements = mixed<T>(100'000);
  const auto intervals = intervals_at<T>({T{0}, T{1}});
  const Parted<T> right = expected(elements, intervals);
  const Parted<T> found = parted(elements, intervals, locators_of<T>(0, 1).back(), 100);
  EXPECT_EQ(found.counts, right.counts);
  EXPECT_EQ(found.collected, right.collected);
  EXPECT_TRUE(std::ranges::includes(right.keys, found.keys));
}

TYPED_TEST(Order, TheSampleHasOneValidElementOfEachStratum) {
  using T = TypeParam;
  constexpr unsigned stride = 4;
  const std::vector<T> elements = mixed<T>(100'000);
  Missing<T> missing;
  if constexpr (std::integral<T>) missing = {true, T{1}};
  std::vector<Key<T>> right;
  for (std::uint64_t i = 0; i << stride < elements.size(); ++i) {
    const std::uint64_t place = sampled_place(i, stride);
    ASSERT_EQ(place >> stride, i);
    if (place < elements.size() && !missing(elements[place]))
      right.push_back(key_of(elements[place]));
  }
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  const auto data = test::on_device(*device, *stream, elements);
  const auto keys = test::on_device(*device, *stream, std::vector<Key<T>>(right.size() + 1));
  const auto sampled = test::on_device(*device, *stream, std::vector<std::uint64_t>{0});
  // In three batches that divide strata
  const std::uint64_t ends[] = {0, 10'001, 55'555, elements.size()};
  for (int i = 0; i < 3; ++i) {
    stream->launch(sample_kernel<T>(), SampleArgs<T>{.elements = data.data() + ends[i],
                                                     .first = ends[i],
                                                     .count = ends[i + 1] - ends[i],
                                                     .stride = stride,
                                                     .missing = missing,
                                                     .keys = keys.data(),
                                                     .capacity = keys.size(),
                                                     .sampled = sampled.data()});
  }
  auto found = test::from_device(*stream, keys);
  ASSERT_EQ(test::from_device(*stream, sampled)[0], right.size());
  found.pop_back();
  std::ranges::sort(found);
  std::ranges::sort(right);
  EXPECT_EQ(found, right);
}

template <class K>
class Digits : public testing::Test {};
using KeyTypes = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(Digits, KeyTypes);

TYPED_TEST(Digits, KeysAreCountedInTheBinsOfTheirRanges) {
  using K = TypeParam;
  constexpr K max = std::numeric_limits<K>::max();
  std::vector<K> keys(200'003);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = i % 3 == 0 ? 1000 + i % 5000 : static_cast<K>(mix(i));
    if (i % 5 == 0) keys[i] = max;
  }
  const auto check = [&](const std::vector<DigitRange<K>>& ranges, unsigned bits) {
    std::vector<std::uint64_t> right(ranges.size() << bits, 7);
    for (const K key : keys) {
      for (std::size_t r = 0; r < ranges.size(); ++r) {
        if (key < ranges[r].first || key > ranges[r].last) continue;
        ++right[(r << bits) + ((key - ranges[r].first) >> ranges[r].shift)];
      }
    }
    const auto device = test::make_backend();
    const auto stream = device->make_stream();
    const auto data = test::on_device(*device, *stream, keys);
    const auto list = test::on_device(*device, *stream, ranges);
    const auto counts =
        test::on_device(*device, *stream, std::vector<std::uint64_t>(right.size(), 7));
    stream->launch(digit_kernel<K>(),
                   DigitArgs<K>{data.data(), keys.size(), list.data(),
                                static_cast<unsigned>(ranges.size()), bits, counts.data()});
    EXPECT_EQ(test::from_device(*stream, counts), right);
  };
  constexpr unsigned width = 8 * sizeof(K);
  check({{0, max, width - 11}}, 11);
  check({{0, max, width - 1}}, 1);
  check({{0, 999, 0}, {1000, 3047, 0}, {max - 2047, max, 0}}, 11);
  check({{1500, 1500, 0}}, 5);
  std::vector<DigitRange<K>> many;
  for (K i = 0; i < max_digit_ranges; ++i) many.push_back({1000 + 4 * i, 1000 + 4 * i + 3, 1});
  check(many, 5);
}

}  // namespace
}  // namespace shardstream::order
