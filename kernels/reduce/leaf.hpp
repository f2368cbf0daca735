// One leaf on a host. A leaf consists of rows of `Lanes` elements. A few rows at a time are added
// to the lanes, so that a lane's accumulator, which stays in the first-level cache, is loaded and
// stored once for several elements (kernels/MEASUREMENTS.md has the effect).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce {

/// The type of a lane's sum over one leaf. It is exact for integers: 2^16 integers of 8 bits fit
/// into 32 bits, and of 32 bits into 64.
template <class T>
using LaneSum = std::conditional_t<
    std::is_floating_point_v<T>, double,
    std::conditional_t<sizeof(T) == 8, Int128,
                       std::conditional_t<sizeof(T) == 4, std::int64_t, std::int32_t>>>;

/// The extremes of all lanes.
template <class T, unsigned Lanes>
struct LaneExtremes {
  using Key = OrderKey<T>;
  using Row = std::make_unsigned_t<Key>;  // as wide as the key, so that both vectorise alike
  alignas(64) std::array<Key, Lanes> min, max;
  alignas(64) std::array<Row, Lanes> min_row{}, max_row{};

  LaneExtremes() {
    min.fill(std::numeric_limits<Key>::max());
    max.fill(std::numeric_limits<Key>::min());
  }
};

/// The sums of neighbouring lanes in one vector register.
template <class V>
using Pack [[gnu::vector_size(32)]] = V;

/// Adds elements to the lanes [0, width) of each array of `sums`, row after row: calls
/// add(element, sum), which may change the element; `sum` is an array of N. Both have the type V or
/// Pack<V>. The packs are
/// explicit: compilers would vectorise the plain loop by the narrower elements, whose conversion
/// then takes shuffles. That halves the rate for floats.
template <unsigned Rows, unsigned Lanes, class T, class V, std::size_t N, class Add>
[[gnu::always_inline]] inline void add_rows(const T* __restrict x, unsigned width,
                                            const std::array<V*, N> sums, Add&& add) {
  unsigned lane = 0;
  if constexpr (sizeof(V) <= 8) {
    constexpr unsigned pack = sizeof(Pack<V>) / sizeof(V);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      for (; lane + pack <= width; lane += pack) {
        Pack<V> sum[N];
        for (std::size_t n = 0; n < N; ++n) std::memcpy(&sum[n], sums[n] + lane, sizeof sum[n]);
        for (unsigned row = 0; row < Rows; ++row) {
          const T* from = x + row * Lanes + lane;
          Pack<V> value = {static_cast<V>(+from[I])...};  // + converts a byte to int
          add(value, sum);
        }
        for (std::size_t n = 0; n < N; ++n) std::memcpy(sums[n] + lane, &sum[n], sizeof sum[n]);
      }
    }
    (std::make_index_sequence<pack>{});
  }
  for (; lane < width; ++lane) {
    V sum[N];
    for (std::size_t n = 0; n < N; ++n) sum[n] = sums[n][lane];
    for (unsigned row = 0; row < Rows; ++row) {
      auto value = static_cast<V>(x[row * Lanes + lane]);
      add(value, sum);
    }
    for (std::size_t n = 0; n < N; ++n) sums[n][lane] = sum[n];
  }
}

/// Replaces a missing value by `other`. `Value` is V or a Pack of it, and V holds every T exactly.
template <class T, class V, class Value>
[[gnu::always_inline]] inline void replace_missing(Value& value, [[maybe_unused]] V marker,
                                                   V other) {
  const auto others = decltype(value + value){} + other;
  if constexpr (std::integral<T>) {
    value = value == marker ? others : value;
  } else {
    value = value == value ? value : others;
  }
}

/// Updates the extremes of lanes [lane, lane + width) with `Rows` rows of the leaf. They begin at
/// `x` and have numbers from `first` on.
template <unsigned Rows, bool Masked, class T, unsigned Lanes>
[[gnu::always_inline]] inline void take_rows(const T* __restrict x, unsigned first, unsigned lane,
                                             unsigned width, T marker,
                                             LaneExtremes<T, Lanes>& extremes) {
  using Key = OrderKey<T>;
  using Row = typename LaneExtremes<T, Lanes>::Row;
  for (unsigned i = 0; i < width; ++i) {
    auto min = extremes.min[lane + i], max = extremes.max[lane + i];
    auto min_row = extremes.min_row[lane + i], max_row = extremes.max_row[lane + i];
    for (unsigned row = 0; row < Rows; ++row) {
      const T value = x[row * Lanes + i];
      const bool skipped = Masked && is_missing(value, marker);
      const auto here = static_cast<Row>(first + row);
      const auto key = extreme_key(value);
      const auto low = skipped ? std::numeric_limits<Key>::max() : key;
      const auto high = skipped ? std::numeric_limits<Key>::min() : key;
      min_row = low < min ? here : min_row;
      min = low < min ? low : min;
      max_row = max < high ? here : max_row;
      max = max < high ? high : max;
    }
    extremes.min[lane + i] = min, extremes.max[lane + i] = max;
    extremes.min_row[lane + i] = min_row, extremes.max_row[lane + i] = max_row;
  }
}

/// Covers a leaf of `count` elements with calls step(rows, row, lane, width). Each call is for
/// `rows` rows from `row` on and lanes [lane, lane + width); every lane gets its rows in order.
/// Hardware does not prefetch for a walk over several rows at once, so this function prefetches, in
/// the order of memory.
template <unsigned Lanes, class T, class Step>
[[gnu::always_inline]] inline void for_rows(const T* x, unsigned count, Step&& step) {
  constexpr std::integral_constant<unsigned, 4> several;
  constexpr std::integral_constant<unsigned, 1> one;
  constexpr unsigned line = 64 / sizeof(T), ahead = 12288 / sizeof(T);
  const unsigned rows = count / Lanes;
  unsigned row = 0;
  for (; row + several <= rows; row += several) {
    for (unsigned lane = 0; lane < Lanes; lane += line) {
      for (unsigned i = 0; i < several; ++i) {  // also past the end of x: prefetches never fault
        __builtin_prefetch(x + row * Lanes + (lane * several + i * line) + ahead);
      }
      step(several, row, lane, line);
    }
  }
  for (; row < rows; ++row) step(one, row, 0, Lanes);
  if (count % Lanes != 0) step(one, rows, 0, count % Lanes);
}

/// The fixed tree over lanes: lane i adds lane i + width, for width = Lanes/2, ..., 1.
template <class V, std::size_t Lanes>
[[gnu::always_inline]] inline V fold_lanes(std::array<V, Lanes> lane) {
  for (std::size_t width = Lanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

/// The minimum of all lanes (the maximum if not `Least`), and the lowest index at which it occurs.
/// Lanes whose values are all missing, or all equal to the initial key, are ignored. If there are
/// only such lanes, `index` is no_index.
template <bool Least, class T, unsigned Lanes>
inline void fold_extremes(const LaneExtremes<T, Lanes>& extremes, unsigned count,
                          std::int64_t first, Extreme<T>& value, std::int64_t& index) {
  using Key = OrderKey<T>;
  const auto& keys = Least ? extremes.min : extremes.max;
  const auto& rows = Least ? extremes.min_row : extremes.max_row;
  Key best{};
  index = no_index;
  for (unsigned lane = 0; lane < Lanes && lane < count; ++lane) {
    const Key key = keys[lane];
    constexpr Key none = Least ? std::numeric_limits<Key>::max() : std::numeric_limits<Key>::min();
    if (key == none) continue;
    const auto here = first + static_cast<std::int64_t>(rows[lane]) * Lanes + lane;
    const bool better = Least ? key < best : best < key;
    if (index == no_index || better || (key == best && here < index)) {
      best = key;
      index = here;
    }
  }
  value = static_cast<Extreme<T>>(from_order_key<T>(best));
}

/// The sum of a leaf and, if requested, its lanes' extremes; without missing values if Masked.
template <bool Masked, class T, unsigned Lanes>
[[gnu::always_inline]] inline LaneSum<T> pass(const T* x, unsigned count, T marker,
                                              bool want_extremes,
                                              LaneExtremes<T, Lanes>& extremes) {
  // No vector instruction adds 128 bits, so 64-bit integers are summed as two halves of 32 bits.
  constexpr bool halved = std::is_same_v<LaneSum<T>, Int128>;
  using V = std::conditional_t<halved, T, LaneSum<T>>;
  alignas(64) std::array<V, Lanes> sums{}, high{};
  const auto step = [&](auto rows, unsigned row, unsigned lane, unsigned width)
      __attribute__((always_inline)) {
    const T* from = x + row * Lanes + lane;
    // A lane's sum is never -0, so adding +0 instead of a missing value does not change it.
    add_rows<rows, Lanes>(from, width, std::array{sums.data() + lane}, [&](auto& value, auto& sum) {
      if constexpr (Masked) replace_missing<T, V>(value, marker, 0);
      if constexpr (halved) value &= 0xffffffff;
      sum[0] += value;
    });
    if constexpr (halved) {
      add_rows<rows, Lanes>(from, width, std::array{high.data() + lane},
                            [&](auto& value, auto& sum) {
                              if constexpr (Masked) replace_missing<T, V>(value, marker, 0);
                              sum[0] += value >> 32;
                            });
    }
    if (want_extremes) take_rows<rows, Masked>(from, row, lane, width, marker, extremes);
  };
  for_rows<Lanes>(x, count, step);
  if constexpr (halved) return (LaneSum<T>{fold_lanes(high)} << 32) + fold_lanes(sums);
  return fold_lanes(sums);
}

/// Adds the deviations, and their squares, of integers that must be compared with the marker, or
/// subtracted, before they become doubles. The rows are `pitch` elements apart.
template <bool Masked, class T>
[[gnu::always_inline]] inline void add_squares(const T* __restrict x, unsigned rows, unsigned width,
                                               unsigned pitch, T marker, Mean<Extreme<T>> mean,
                                               double* __restrict squares,
                                               double* __restrict deviations) {
  for (unsigned row = 0; row < rows; ++row) {
    for (unsigned lane = 0; lane < width; ++lane) {
      const T value = x[row * pitch + lane];
      const double delta = Masked && is_missing(value, marker) ? 0 : deviation(value, mean);
      squares[lane] += delta * delta;
      deviations[lane] += delta;
    }
  }
}

/// The sums of the deviations from the mean and of their squares; without missing values if Masked.
template <bool Masked, unsigned Lanes, class T>
[[gnu::always_inline]] inline Squares squares_about(const T* x, unsigned count, T marker,
                                                    Mean<Extreme<T>> mean) {
  alignas(64) std::array<double, Lanes> squares{}, deviations{};
  const auto step = [&](auto rows, unsigned row, unsigned lane, unsigned width)
      __attribute__((always_inline)) {
    const T* from = x + row * Lanes + lane;
    if constexpr (exceeds_double<T>) {
      if (Masked || mean.whole != 0) {
        return add_squares<Masked>(from, rows, width, Lanes, marker, mean, squares.data() + lane,
                                   deviations.data() + lane);
      }
    }
    add_rows<rows, Lanes>(from, width, std::array{squares.data() + lane, deviations.data() + lane},
                          [&](auto& value, auto& sum) {
                            if constexpr (Masked) {
                              replace_missing<T, double>(value, static_cast<double>(marker),
                                                         mean.rest);
                            }
                            value -= mean.rest;
                            sum[0] += value * value;
                            sum[1] += value;
                          });
  };
  for_rows<Lanes>(x, count, step);
  return {fold_lanes(squares), fold_lanes(deviations)};
}

/// Counts the missing values of a leaf, and finds the first one. Returns whether there are any.
template <class T>
[[gnu::always_inline]] inline bool find_missing(const T* x, unsigned count, std::int64_t first,
                                                T marker, PartialOf<T>& leaf) {
  unsigned missing = 0, i = 0;
  for (unsigned j = 0; j < count; ++j) missing += is_missing(x[j], marker);
  leaf.missing = missing;
  if (missing == 0) return false;
  while (!is_missing(x[i], marker)) ++i;
  leaf.first_missing = first + i;
  return true;
}

/// Sets the extremes of a leaf that counts at least one value.
template <class T, unsigned Lanes>
[[gnu::always_inline]] inline void set_extremes(const LaneExtremes<T, Lanes>& extremes, const T* x,
                                                unsigned count, std::int64_t first, T marker,
                                                PartialOf<T>& leaf) {
  fold_extremes<true>(extremes, count, first, leaf.min, leaf.min_index);
  fold_extremes<false>(extremes, count, first, leaf.max, leaf.max_index);
  if constexpr (std::integral<T>) {
    if (leaf.min_index != no_index && leaf.max_index != no_index) return;
    // All valid values are the lowest or the highest of the type.
    unsigned i = 0;
    while (leaf.missing > 0 && is_missing(x[i], marker)) ++i;
    if (leaf.min_index == no_index) leaf.min = x[i], leaf.min_index = first + i;
    if (leaf.max_index == no_index) leaf.max = x[i], leaf.max_index = first + i;
  }
}

/// The statistics of one leaf of 1 to leaf_elements elements. `first` is the global index of x[0].
template <class T, unsigned Lanes>
[[gnu::always_inline]] inline PartialOf<T> reduce_leaf(const T* x, unsigned count,
                                                       std::int64_t first, Want want) {
  PartialOf<T> leaf;
  leaf.count = count;
  leaf.m2 = want.variance ? 0 : no_m2;
  const auto marker = static_cast<T>(want.marker);
  LaneExtremes<T, Lanes> extremes;
  bool masked = false;
  if constexpr (std::integral<T>) {
    masked = want.skip_missing && find_missing(x, count, first, marker, leaf);
    leaf.sum = masked ? pass<true>(x, count, marker, want.extremes, extremes)
                      : pass<false>(x, count, marker, want.extremes, extremes);
  } else {
    leaf.sum = pass<false>(x, count, marker, want.extremes, extremes);
    if (leaf.sum != leaf.sum) {  // a NaN, or infinities of both signs: sum again without NaNs
      extremes = {};
      const double sum = pass<true>(x, count, marker, want.extremes, extremes);
      find_missing(x, count, first, marker, leaf);
      masked = want.skip_missing;
      if (masked) leaf.sum = sum;
    }
  }
  if (masked) leaf.count -= leaf.missing;
  if (leaf.count == 0) return leaf;
  if (want.extremes) set_extremes(extremes, x, count, first, marker, leaf);
  if (want.variance) {
    const auto mean = mean_of<Extreme<T>>(leaf.sum, leaf.count);
    const Squares about = masked ? squares_about<true, Lanes>(x, count, marker, mean)
                                 : squares_about<false, Lanes>(x, count, marker, mean);
    leaf.m2 = about.about_mean(leaf.count);
    leaf.residual = about.deviations;
  }
  return leaf;
}

}  // namespace shardstream::reduce
