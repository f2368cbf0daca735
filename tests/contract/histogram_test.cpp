// Compares the counts of every backend with the reference, for values on edges and next to them,
// and for every kind of counter that a GPU uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/data/generate.hpp"
#include "support/backend.hpp"
#include "workloads/histogram/count.hpp"
#include "workloads/histogram/reference.hpp"

namespace shardstream::workloads::histogram {
namespace {

template <class T>
class Histogram : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t,
                             std::uint64_t>;
TYPED_TEST_SUITE(Histogram, Types);

/// The nearest value of the type; the extreme ones stand for what is beyond.
template <class T>
T clamped(double x) {
  using Limits = std::numeric_limits<T>;
  if (x >= static_cast<double>(Limits::max())) return Limits::max();
  if (x <= static_cast<double>(Limits::lowest())) return Limits::lowest();
  return static_cast<T>(x);
}

/// Values on edges, next to edges, beyond the range, and special ones.
template <class T>
std::vector<T> values_for(const Bins& bins) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {Limits::max(), Limits::lowest(), T{0}, T{1}};
  if constexpr (std::floating_point<T>) {
    for (const T x : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), T{-0.0},
                      Limits::denorm_min(), -Limits::denorm_min(), Limits::min()}) {
      values.push_back(x);
    }
  }
  const std::uint32_t step = std::max(bins.count / 500, 1U);
  for (std::uint32_t i = 0; i < bins.count + step; i += step) {
    const T edge = clamped<T>(bins.edge(std::min(i, bins.count)));
    values.push_back(edge);
    if constexpr (std::floating_point<T>) {
      values.push_back(std::nextafter(edge, Limits::infinity()));
      values.push_back(std::nextafter(edge, -Limits::infinity()));
    } else {
      if (edge < Limits::max()) values.push_back(static_cast<T>(edge + 1));
      if (edge > Limits::lowest()) values.push_back(static_cast<T>(edge - 1));
    }
    values.push_back(clamped<T>(bins.low + (i + 0.5) * bins.step()));
  }
  return values;
}

template <class T>
std::vector<std::uint64_t> reference(const Bins& bins, const std::vector<T>& elements) {
  std::vector<std::uint64_t> counts(bins.count + outside_counters);
  add_reference_counts(bins, elements.data(), elements.size(), counts);
  return counts;
}

/// Counts ranges of the elements on the device, on top of counters that are 5.
template <class T>
std::vector<std::uint64_t> counted(const Bins& bins, const std::vector<T>& elements,
                                   const std::vector<Range>& ranges) {
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  const auto data = test::on_device(*device, *stream, elements);
  CountArgs<T> args{.elements = data.data(),
                    .counts = nullptr,
                    .cells = Cells<T>(bins),
                    .ranges = static_cast<unsigned>(ranges.size()),
                    .range = {}};
  std::ranges::copy(ranges, args.range);
  const auto counts = test::on_device(
      *device, *stream, std::vector<std::uint64_t>(args.cells.count() + outside_counters, 5));
  args.counts = counts.data();
  stream->launch(count_kernel<T>(), args);
  auto found = test::from_device(*stream, counts);
  for (auto& count : found) count -= 5;
  return bin_counts<T>(bins, found.data());
}

template <class T>
void expect_right(const Bins& bins, const std::vector<T>& elements) {
  EXPECT_EQ(counted(bins, elements, {{0, elements.size()}}), reference(bins, elements))
      << bins.count << " bins from " << bins.low << " to " << bins.high;
}

TYPED_TEST(Histogram, ElementsOnEdgesAndBesideThemAreInTheRightBin) {
  constexpr double max = std::numeric_limits<double>::max();
  for (const Bins& bins : std::initializer_list<Bins>{{0, 1, 1},
                                                      {0, 1, 10},
                                                      {-1, 1, 3},
                                                      {0.1, 0.7, 7},
                                                      {-100, 100, 1000},
                                                      {0, 255, 255},
                                                      {-128.5, 127.5, 256},
                                                      {3, 1e6, 70000},
                                                      {-1e9, 1e9, 65536},
                                                      {0, 1, 200000},
                                                      {1e15, 1e15 + 1000, 500},
                                                      {0x1p62, 0x1p63, 1000},
                                                      {-0x1p63, 0x1p63, 4096},
                                                      {0x1p63 - 4096, 0x1p63, 4},
                                                      {0x1p53, 0x1p53 + 64, 32},
                                                      {1, 1 + 0x1p-44, 256},
                                                      {1e-300, 2e-300, 10},
                                                      {0, 1e-310, 10},
                                                      {0, 100 * 0x1p-1074, 100},
                                                      {0, max, 10},
                                                      {-max / 2, max / 2, 7},
                                                      {300, 400, 10},
                                                      {-1e300, -1e299, 5},
                                                      {1e10, 1e11, 3},
                                                      {0.2, 0.4, 2}}) {
    expect_right(bins, values_for<TypeParam>(bins));
  }
}

/// Spread over the type's range; floats are in [0, 1).
template <class T>
std::vector<T> spread(std::size_t count) {
  std::vector<T> elements(count);
  const std::uint64_t stream = stream_of(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = uniform_element<T>(stream, i);
  return elements;
}

template <class T>
Bins bins_of_type(std::uint32_t count) {
  if constexpr (std::floating_point<T>) return {0, 1, count};
  return {static_cast<double>(std::numeric_limits<T>::min()),
          static_cast<double>(std::numeric_limits<T>::max()), count};
}

/// Numbers of bins for counters of 32 and 16 bits in shared memory, and for none.
constexpr std::uint32_t numbers_of_bins[] = {1, 100, 3000, 65536, 200000};

TYPED_TEST(Histogram, EveryElementCountsWhateverTheirNumber) {
  for (const std::size_t count : {1, 15, 17, 1023, 16384, 65537, 200001}) {
    for (const std::uint32_t bins : numbers_of_bins) {
      expect_right(bins_of_type<TypeParam>(bins), spread<TypeParam>(count));
    }
  }
}

/// More elements in a bin than 16 bits hold, on a GPU for each block: long runs of them, and every
/// second element.
TYPED_TEST(Histogram, ManyElementsInOneBinDoNotOverflow) {
  const bool on_gpu = backend_named(test::make_backend()->info().backend) == Backend::cuda;
  const std::size_t times = on_gpu ? 256 : 4;
  auto part = spread<TypeParam>(65536);
  for (std::size_t i = 0; i < part.size() / 2; ++i) part[i] = part.back();
  for (std::size_t i = 0; i < part.size(); i += 2) part[i] = part.back();
  std::vector<TypeParam> elements;
  for (std::size_t i = 0; i < times; ++i) {
    elements.insert(elements.end(), part.begin(), part.end());
  }
  const Bins bins = bins_of_type<TypeParam>(65536);
  auto expected = reference(bins, part);
  for (auto& count : expected) count *= times;
  EXPECT_EQ(counted(bins, elements, {{0, elements.size()}}), expected);
}

TYPED_TEST(Histogram, OnlyTheRangesCount) {
  const auto elements = spread<TypeParam>(300'000);
  std::vector<Range> ranges;
  std::vector<TypeParam> inside;
  for (std::uint64_t i = 0; i < CountArgs<TypeParam>::max_ranges; ++i) {
    ranges.push_back({i * 16'000 + i % 3 * 16, i == 5 ? 0 : i * 1000 - i % 2});
    const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(ranges.back().first);
    inside.insert(inside.end(), begin, begin + static_cast<std::ptrdiff_t>(ranges.back().count));
  }
  for (const std::uint32_t number : numbers_of_bins) {
    const Bins bins = bins_of_type<TypeParam>(number);
    EXPECT_EQ(counted(bins, elements, ranges), reference(bins, inside));
  }
}

}  // namespace
}  // namespace shardstream::workloads::histogram
