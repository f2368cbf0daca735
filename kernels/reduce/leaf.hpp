// One leaf on a host: row after row of `Lanes` elements is added to the lanes, which compilers
// vectorise. The lanes' accumulators stay in the first-level cache; keeping them in registers over
// tiles of rows was tried and is slower (kernels/README.md).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce {

/// A lane's sum over one leaf: exact for integers (2^16 of 32 bits fit in 64).
template <class T>
using LaneSum = std::conditional_t<std::is_floating_point_v<T>, double,
                                   std::conditional_t<sizeof(T) == 8, Int128, std::int64_t>>;

/// The accumulators of all lanes, each kind in an array of its own.
template <class T, unsigned Lanes>
struct LaneState {
  using Key = OrderKey<T>;
  using Row = std::make_unsigned_t<Key>;  // as wide as the key, so that both vectorise alike
  alignas(64) std::array<LaneSum<T>, Lanes> sum{};
  alignas(64) std::array<Row, Lanes> valid{};  // elements that are not NaN; kept if Masked
  alignas(64) std::array<Key, Lanes> min, max;
  alignas(64) std::array<Row, Lanes> min_row{}, max_row{};

  LaneState() {
    min.fill(std::numeric_limits<Key>::max());
    max.fill(std::numeric_limits<Key>::min());
  }
};

/// Adds row number `row` of the leaf, which starts at `x`, to lanes [0, width).
template <bool Extremes, bool Masked, class T, unsigned Lanes>
[[gnu::always_inline]] inline void add_row(const T* __restrict x, unsigned row, unsigned width,
                                           LaneState<T, Lanes>& state) {
  using State = LaneState<T, Lanes>;
  const auto here = static_cast<typename State::Row>(row);
  for (unsigned lane = 0; lane < width; ++lane) {
    const T value = x[lane];
    const bool is_nan = Masked && value != value;
    // A lane's sum is never -0, so adding +0 for a NaN leaves it as it is.
    state.sum[lane] += static_cast<LaneSum<T>>(is_nan ? T{0} : value);
    if constexpr (Masked) state.valid[lane] += is_nan ? 0 : 1;
    if constexpr (Extremes) {
      const auto key = order_key(value);
      const auto low = is_nan ? std::numeric_limits<typename State::Key>::max() : key;
      const auto high = is_nan ? std::numeric_limits<typename State::Key>::min() : key;
      const auto min = state.min[lane], max = state.max[lane];
      state.min_row[lane] = low < min ? here : state.min_row[lane];
      state.min[lane] = low < min ? low : min;
      state.max_row[lane] = max < high ? here : state.max_row[lane];
      state.max[lane] = max < high ? high : max;
    }
  }
}

/// Adds the squared deviations from `mean` of one row to lanes [0, width).
template <bool Masked, class T, std::size_t Lanes>
[[gnu::always_inline]] inline void add_squares(const T* __restrict x, double mean, unsigned width,
                                               std::array<double, Lanes>& squares) {
  for (unsigned lane = 0; lane < width; ++lane) {
    const T value = x[lane];
    const double delta = Masked && value != value ? 0.0 : static_cast<double>(value) - mean;
    squares[lane] += delta * delta;
  }
}

/// Calls step(row, width) for every row of a leaf of `count` elements; the last may be short.
template <unsigned Lanes, class Step>
[[gnu::always_inline]] inline void for_rows(unsigned count, Step&& step) {
  const unsigned rows = count / Lanes;
  for (unsigned row = 0; row < rows; ++row) step(row, Lanes);
  if (count % Lanes != 0) step(rows, count % Lanes);
}

/// The fixed tree over lanes: lane i takes lane i + width for width = Lanes/2, ..., 1.
template <class V, std::size_t Lanes>
[[gnu::always_inline]] inline V fold_lanes(std::array<V, Lanes> lane) {
  for (std::size_t width = Lanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

/// The least (or, with the order turned, the greatest) key of all lanes that hold one, at its
/// lowest index; no_index if no lane holds one.
template <bool Least, class T, unsigned Lanes>
inline void fold_extremes(const LaneState<T, Lanes>& state, unsigned count, std::int64_t first,
                          Extreme<T>& value, std::int64_t& index) {
  using Key = OrderKey<T>;
  const auto& keys = Least ? state.min : state.max;
  const auto& rows = Least ? state.min_row : state.max_row;
  Key best{};
  index = no_index;
  for (unsigned lane = 0; lane < Lanes && lane < count; ++lane) {
    const Key key = keys[lane];
    // Only a lane of nothing but NaNs still holds the initial key: no float has that one.
    constexpr Key none = Least ? std::numeric_limits<Key>::max() : std::numeric_limits<Key>::min();
    if (std::is_floating_point_v<T> && key == none) continue;
    const auto here = first + static_cast<std::int64_t>(rows[lane]) * Lanes + lane;
    const bool better = Least ? key < best : best < key;
    if (index == no_index || better || (key == best && here < index)) {
      best = key;
      index = here;
    }
  }
  value = static_cast<Extreme<T>>(from_order_key<T>(best));
}

/// Statistics of one leaf of 1..leaf_elements elements, `first` being the index of its first.
template <class T, unsigned Lanes>
[[gnu::always_inline]] inline PartialOf<T> reduce_leaf(const T* x, unsigned count,
                                                       std::int64_t first, Want want) {
  PartialOf<T> leaf;
  leaf.count = count;
  leaf.m2 = want.variance ? 0 : no_m2;
  LaneState<T, Lanes> state;
  for_rows<Lanes>(count, [&](unsigned row, unsigned width) {
    if (want.extremes) {
      add_row<true, false>(x + row * Lanes, row, width, state);
    } else {
      add_row<false, false>(x + row * Lanes, row, width, state);
    }
  });
  leaf.sum = fold_lanes(state.sum);
  bool masked = false;
  if constexpr (std::is_floating_point_v<T>) {
    if (leaf.sum != leaf.sum) {  // a NaN, or infinities of both signs: look closer, without NaNs
      state = LaneState<T, Lanes>{};
      for_rows<Lanes>(count, [&](unsigned row, unsigned width) {
        add_row<true, true>(x + row * Lanes, row, width, state);
      });
      std::int64_t valid = 0;
      for (const auto lane_valid : state.valid) valid += static_cast<std::int64_t>(lane_valid);
      leaf.nans = leaf.count - valid;
      unsigned i = 0;
      while (i < count && x[i] == x[i]) ++i;
      if (i < count) leaf.first_nan = first + i;
      if (want.skip_nans) {
        masked = true;
        leaf.count = valid;
        leaf.sum = fold_lanes(state.sum);
      }
    }
  }
  if (want.extremes) {
    fold_extremes<true>(state, count, first, leaf.min, leaf.min_index);
    fold_extremes<false>(state, count, first, leaf.max, leaf.max_index);
  }
  if (want.variance && leaf.count > 0) {
    const double mean = to_double(leaf.sum) / static_cast<double>(leaf.count);
    alignas(64) std::array<double, Lanes> squares{};
    for_rows<Lanes>(count, [&](unsigned row, unsigned width) {
      if (masked) {
        add_squares<true>(x + row * Lanes, mean, width, squares);
      } else {
        add_squares<false>(x + row * Lanes, mean, width, squares);
      }
    });
    leaf.m2 = fold_lanes(squares);
  }
  return leaf;
}

}  // namespace shardstream::reduce
