// How a host adds rows with runs: the elements of neighbouring lanes are moved, so that those that
// are added at the same time are neighbours, and then added with vector instructions.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cells/add_elements.hpp"
#include "kernels/cells/cells.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::cells {
namespace {

/// Bytes are added as integers of 32 bits.
template <class T>
using Widened = std::conditional_t<sizeof(T) == 1, std::int32_t, T>;

/// Moves element r of each of `lanes` runs at `from` to row r, the elements of which are
/// neighbours. Rows are `pitch` elements apart.
template <class T>
[[gnu::always_inline]] inline void transpose_runs(const T* from, std::size_t lanes, T* to,
                                                  std::size_t pitch) {
  for (std::size_t i = 0; i < lanes; ++i) {
    for (std::size_t r = 0; r < row_run; ++r) to[r * pitch + i] = from[row_run * i + r];
  }
}

/// Runs that are transposed together. Compilers need three times as many instructions without the
/// shuffles below.
inline constexpr std::size_t transposed_runs = 8;

/// Four runs in each half of the vectors.
template <class T>
requires(sizeof(T) == 4)
    [[gnu::always_inline]] inline void transpose_some(const T* from, T* to, std::size_t pitch) {
  using Half [[gnu::vector_size(16)]] = T;
  using Vector [[gnu::vector_size(32)]] = T;
  Vector rows[4];  // two runs each
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    Half low, high;
    std::memcpy(&low, from + row_run * i, sizeof low);
    std::memcpy(&high, from + row_run * (i + 4), sizeof high);
    rows[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }
  const Vector &a = rows[0], &b = rows[1], &c = rows[2], &d = rows[3];
  const Vector ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  const Vector cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
  const Vector ab_high = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  const Vector cd_high = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
  const Vector columns[] = {__builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13),
                            __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15),
                            __builtin_shufflevector(ab_high, cd_high, 0, 1, 8, 9, 4, 5, 12, 13),
                            __builtin_shufflevector(ab_high, cd_high, 2, 3, 10, 11, 6, 7, 14, 15)};
#pragma GCC unroll 4
  for (std::size_t r = 0; r < 4; ++r) std::memcpy(to + r * pitch, &columns[r], sizeof columns[r]);
}
/// Four runs at a time.
template <class T>
requires(sizeof(T) == 8)
    [[gnu::always_inline]] inline void transpose_some(const T* from, T* to, std::size_t pitch) {
  using Vector [[gnu::vector_size(32)]] = T;
#pragma GCC unroll 2
  for (std::size_t i = 0; i < transposed_runs; i += 4) {
    Vector a, b, c, d;
    std::memcpy(&a, from + row_run * i, sizeof a);
    std::memcpy(&b, from + row_run * (i + 1), sizeof b);
    std::memcpy(&c, from + row_run * (i + 2), sizeof c);
    std::memcpy(&d, from + row_run * (i + 3), sizeof d);
    const Vector ab_even = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    const Vector ab_odd = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    const Vector cd_even = __builtin_shufflevector(c, d, 0, 4, 2, 6);
    const Vector cd_odd = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    const Vector columns[] = {__builtin_shufflevector(ab_even, cd_even, 0, 1, 4, 5),
                              __builtin_shufflevector(ab_odd, cd_odd, 0, 1, 4, 5),
                              __builtin_shufflevector(ab_even, cd_even, 2, 3, 6, 7),
                              __builtin_shufflevector(ab_odd, cd_odd, 2, 3, 6, 7)};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < 4; ++r) {
      std::memcpy(to + r * pitch + i, &columns[r], sizeof columns[r]);
    }
  }
}
template <class T>
requires(sizeof(T) == 1)
    [[gnu::always_inline]] inline void transpose_some(const T* from, T* to, std::size_t pitch) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < transposed_runs; ++i) {
    transpose_runs(from + row_run * i, 1, to + i, pitch);
  }
}

/// Copies the elements of `each` runs, so that element r of each run is in row r. Hardware does not
/// prefetch for a walk over parts of rows, so the function prefetches those at `ahead`, which may
/// be past the data: prefetches never fault.
template <class T>
SHARDSTREAM_VECTOR_CLONES void copy_runs(const T* from, std::size_t each, T* to, const T* ahead) {
  constexpr std::size_t elements = row_run * transposed_runs, line = 64 / sizeof(T);
  std::size_t begin = 0;
  for (; begin + transposed_runs <= each; begin += transposed_runs) {
    for (std::size_t i = 0; i < elements; i += line) {
      __builtin_prefetch(ahead + row_run * begin + i);
    }
    transpose_some(from + row_run * begin, to + begin, each);
  }
  transpose_runs(from + row_run * begin, each - begin, to + begin, each);
}

/// Rows with runs: `count` of them, which begin `step` elements apart. Each has a run of elements
/// for each of items [begin, end), the first of which is `first`.
template <class T>
struct RunRows {
  std::size_t begin, end;
  Neighbours<T> first;
  std::size_t count;
  std::int64_t step;

  /// How far to read ahead.
  std::int64_t ahead() const {
    constexpr std::size_t bytes = 12288;
    return static_cast<std::int64_t>(1 + bytes / ((end - begin) * row_run * sizeof(T))) * step;
  }
  RunRows of_items(std::size_t from, std::size_t to) const {
    return {from, to, first.plus(static_cast<std::int64_t>((from - begin) * row_run)), count, step};
  }
  RunRows rows(std::size_t from, std::size_t number) const {
    return {begin, end, first.plus(static_cast<std::int64_t>(from) * step), number, step};
  }
  /// Calls add(from, to, rows, number) for copies of some rows, in which the elements of
  /// neighbouring items are neighbours. They are few, so that the processor adds them while it
  /// waits for the next ones.
  template <class Add>
  void for_copies(const Add& add) const {
    constexpr std::size_t most_items = 64, rows_at_once = 2;
    T copies[rows_at_once * row_run * most_items];
    Neighbours<T> copied[rows_at_once * row_run];
    for (std::size_t done = 0; done < count; done += rows_at_once) {
      const std::size_t own = std::min(rows_at_once, count - done);
      for (std::size_t from = begin; from < end; from += most_items) {
        const std::size_t to = std::min(from + most_items, end);
        of_items(from, to).rows(done, own).copy(ahead(), copies, copied);
        add(from, to, copied, own * row_run);
      }
    }
  }

 private:
  /// Element k of each run of row r is copied to to[r * row_run + k].
  void copy(std::int64_t elements_ahead, T* copies, Neighbours<T>* to) const {
    constexpr auto run = static_cast<std::int64_t>(row_run);
    const std::size_t each = end - begin;
    for (std::size_t r = 0; r < count; ++r) {
      const Neighbours<T> row = first.plus(static_cast<std::int64_t>(r) * step);
      copy_runs(row.elements, each, copies, row.elements + elements_ahead);
      for (std::int64_t k = 0; k < run; ++k, copies += each, ++to) {
        *to = row.plus(k);
        to->elements = copies;
        to->number_step *= run;
        to->weight_step *= run;
      }
    }
  }
};

/// Runs of neighbouring lanes: element r of lane i is element[r][i].
template <class T>
struct RunBlock {
  static constexpr std::size_t lanes = 32;
  alignas(64) Widened<T> element[row_run][lanes];

  [[gnu::always_inline]] void load(const T* from) {
    if constexpr (sizeof(T) > 1) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < lanes; i += transposed_runs) {
        transpose_some(from + row_run * i, element[0] + i, lanes);
      }
    } else {
      using Signed = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
#pragma GCC ivdep
      for (std::size_t i = 0; i < lanes; ++i) {
        std::uint32_t run;
        std::memcpy(&run, from + row_run * i, sizeof run);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < row_run; ++r) {
          element[r][i] = static_cast<std::int32_t>(static_cast<Signed>(run << (24 - 8 * r)) >> 24);
        }
      }
    }
  }
};

/// Extremes, sums of integers and squares of bytes do not depend on the order of values. These need
/// fewer instructions than those of accumulators, to which they are added at the end.
template <class T>
class UnorderedSums {
 public:
  /// Rows that may be added before the numbers overflow.
  static constexpr std::size_t max_rows = sizeof(T) == 1 ? 8192 : std::size_t{1} << 28;

  [[gnu::always_inline]] void add(const RunBlock<T>& block, std::size_t i, bool extremes,
                                  bool squares) {
    if constexpr (std::integral<T>) add_sums(block, i);
    if constexpr (sizeof(T) == 1) {
      if (squares) add_squares(block, i);
    }
    if (extremes) add_extremes(block, i);
  }

  /// Adds them to items from `begin` on, each of which has `values` of them. False if some of the
  /// values may be NaN: then the extremes are not those of the values.
  bool add_to(ItemAccumulators<T>& items, std::size_t begin, std::size_t end, std::int64_t values) {
    const Quantities quantities = items.quantities();
    if constexpr (std::integral<T>) {
      items.change(AddToSum{}, begin, end, [&](Accumulator<T>& item, std::size_t i) {
        item.sum += whole_sum(i - begin, values);
      });
    }
    if constexpr (sizeof(T) == 1) {
      if (quantities.has(Quantity::squares)) add_squares_to(items, begin, end, values);
    }
    if (!quantities.has(Quantity::extremes)) return true;
    if constexpr (std::floating_point<T>) {
      // A sum of values, one of which is NaN, is NaN.
      bool has_nan = false;
      items.change(AddToSum{}, begin, end,
                   [&](Accumulator<T>& item, std::size_t) { has_nan |= item.sum != item.sum; });
      if (has_nan) return false;
    }
    items.change(AddToExtremes<false>{}, begin, end, [&](Accumulator<T>& item, std::size_t i) {
      item.range.template add<false>(extreme_key(static_cast<T>(min_[i - begin])), 0);
      item.range.template add<false>(extreme_key(static_cast<T>(max_[i - begin])), 0);
    });
    return true;
  }
  void clear(std::size_t lanes) {
    using Limits = std::numeric_limits<T>;
    std::fill_n(sum_.begin(), std::integral<T> ? lanes : 0, 0);
    std::fill_n(upper_.begin(), is_halved ? lanes : 0, 0);
    std::fill_n(squares_.begin(), sizeof(T) == 1 ? lanes : 0, 0);
    std::fill_n(min_.begin(), lanes, std::floating_point<T> ? Limits::infinity() : Limits::max());
    std::fill_n(max_.begin(), lanes,
                std::floating_point<T> ? -Limits::infinity() : Limits::lowest());
  }

 private:
  static constexpr std::size_t most = ItemAccumulators<T>::most;
  static constexpr bool is_halved = std::integral<T> && sizeof(T) == 8;
  /// The sign bit is changed, so that the upper halves of signed integers are added as those of
  /// unsigned ones.
  static constexpr std::uint64_t changed = std::uint64_t{std::is_signed_v<T>} << 63;
  using PartialSum = std::conditional_t<sizeof(T) == 1, std::int32_t, std::int64_t>;

  [[gnu::always_inline]] void add_sums(const RunBlock<T>& block, std::size_t begin) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < RunBlock<T>::lanes; ++i) {
      PartialSum sum = sum_[begin + i];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < row_run; ++r) {
        if constexpr (is_halved) {
          sum += static_cast<PartialSum>(block.element[r][i] & 0xffffffff);
        } else {
          sum += block.element[r][i];
        }
      }
      sum_[begin + i] = sum;
    }
    if constexpr (!is_halved) return;
#pragma GCC ivdep
    for (std::size_t i = 0; i < RunBlock<T>::lanes; ++i) {
      PartialSum sum = upper_[begin + i];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < row_run; ++r) {
        sum += static_cast<PartialSum>(
            (static_cast<std::uint64_t>(block.element[r][i]) ^ changed) >> 32);
      }
      upper_[begin + i] = sum;
    }
  }
  [[gnu::always_inline]] void add_squares(const RunBlock<T>& block, std::size_t begin) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < RunBlock<T>::lanes; ++i) {
      PartialSum sum = squares_[begin + i];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < row_run; ++r) sum += block.element[r][i] * block.element[r][i];
      squares_[begin + i] = sum;
    }
  }
  [[gnu::always_inline]] void add_extremes(const RunBlock<T>& block, std::size_t begin) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < RunBlock<T>::lanes; ++i) {
      Widened<T> low = min_[begin + i], high = max_[begin + i];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < row_run; ++r) {
        low = block.element[r][i] < low ? block.element[r][i] : low;
        high = high < block.element[r][i] ? block.element[r][i] : high;
      }
      min_[begin + i] = low;
      max_[begin + i] = high;
    }
  }
  Sum<T> whole_sum(std::size_t i, std::int64_t values) const {
    if constexpr (!is_halved) return sum_[i];
    const Int128 upper = Int128{upper_[i]} - Int128{values} * static_cast<Int128>(changed >> 32);
    return sum_[i] + (upper << 32);
  }
  /// Adds powers of deviations from the shift, all of which are integers that double holds exactly.
  void add_squares_to(ItemAccumulators<T>& items, std::size_t begin, std::size_t end,
                      std::int64_t values) const {
    items.change(
        AddToSquares<false, false>{}, begin, end, [&](Accumulator<T>& item, std::size_t i) {
          const std::int64_t shift = item.shift, sum = sum_[i - begin];
          item.s1 += static_cast<double>(sum - values * shift);
          item.s2 += static_cast<double>(squares_[i - begin] + shift * (values * shift - 2 * sum));
        });
  }

  alignas(64) std::array<PartialSum, std::integral<T> ? most : 1> sum_;  // lower halves, if halved
  alignas(64) std::array<PartialSum, is_halved ? most : 1> upper_;
  alignas(64) std::array<PartialSum, sizeof(T) == 1 ? most : 1> squares_;
  alignas(64) std::array<Widened<T>, most> min_, max_;
};

/// Adds rows to items that have been counted, the number of which is a multiple of
/// RunBlock<T>::lanes. For quantities of adds_by_blocks.
template <class T>
[[gnu::flatten]] SHARDSTREAM_VECTOR_CLONES void add_blocks(ItemAccumulators<T>& items,
                                                           UnorderedSums<T>& unordered,
                                                           const RunRows<T>& rows) {
  constexpr std::size_t lanes = RunBlock<T>::lanes, line = 64 / sizeof(T);
  const bool extremes = items.quantities().has(Quantity::extremes);
  const bool squares = items.quantities().has(Quantity::squares);
  constexpr std::size_t rows_at_once = 8;  // so many streams are read faster than one
  const std::int64_t ahead = rows.ahead();
  const T* row = rows.first.elements;
  RunBlock<T> block;
  const auto add = [&](auto quantity, std::size_t begin) {
    items.change(quantity, begin, begin + lanes, [&](Accumulator<T>& item, std::size_t i) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < row_run; ++r) {
        quantity.add(item, static_cast<T>(block.element[r][i - begin]), 0);
      }
    });
  };
  for (std::size_t r = 0; r < rows.count; r += rows_at_once, row += rows_at_once * rows.step) {
    const std::size_t own = std::min(rows_at_once, rows.count - r);
    for (std::size_t begin = rows.begin; begin < rows.end; begin += lanes) {
      const T* from = row + (begin - rows.begin) * row_run;
      for (std::size_t k = 0; k < own; ++k, from += rows.step) {
        for (std::size_t i = 0; i < lanes * row_run; i += line) {
          __builtin_prefetch(from + ahead + i);
        }
        block.load(from);
        unordered.add(block, begin - rows.begin, extremes, squares);
        if constexpr (std::floating_point<T>) {
          if (squares) {
            add(AddToSquares<true, false>{}, begin);
          } else {
            add(AddToSum{}, begin);
          }
        } else if constexpr (sizeof(T) > 1) {
          if (squares) add(AddToSquares<false, false>{}, begin);
        }
      }
    }
  }
}

/// Whether add_blocks has code for the quantities.
inline bool adds_by_blocks(Quantities quantities) {
  return (quantities | WithSquares::all()) == WithSquares::all();
}

/// Adds rows, none of whose values is skipped, to one quantity of items that have been counted.
template <class T, class Quantity>
void add_copies(Quantity quantity, ItemAccumulators<T>& items, const RunRows<T>& rows) {
  rows.for_copies(
      [&](std::size_t from, std::size_t to, const Neighbours<T>* copies, std::size_t number) {
        add_rows(quantity, items, from, to, copies, number, Skipped<T, false>{});
      });
}

/// The same for all quantities.
template <class T>
void add_whole_runs(ItemAccumulators<T>& items, const RunRows<T>& rows) {
  const std::size_t count = rows.end - rows.begin;
  const std::size_t in_blocks =
      adds_by_blocks(items.quantities()) ? count - count % RunBlock<T>::lanes : 0;
  const RunRows<T> whole = rows.of_items(rows.begin, rows.begin + in_blocks);
  UnorderedSums<T> sums;
  for (std::size_t r = 0, own; in_blocks > 0 && r < rows.count; r += own) {
    own = std::min(rows.count - r, sums.max_rows);
    const RunRows<T> some = whole.rows(r, own);
    sums.clear(in_blocks);
    add_blocks(items, sums, some);
    const auto values = static_cast<std::int64_t>(own * row_run);
    if (!sums.add_to(items, some.begin, some.end, values)) {
      add_copies(AddToExtremes<false>{}, items, some);
    }
  }
  if (in_blocks == count) return;
  const RunRows<T> rest = rows.of_items(whole.end, rows.end);
  for_each_quantity<T>(items.quantities(),
                       [&](auto quantity) { add_copies(quantity, items, rest); });
}

/// Adds rows to their items.
template <class T, bool Skips>
void add_runs(ItemAccumulators<T>& items, const RunRows<T>& rows, Skipped<T, Skips> skipped) {
  if constexpr (Skips) {
    rows.for_copies(
        [&](std::size_t from, std::size_t to, const Neighbours<T>* copies, std::size_t number) {
          add_elements(items, from, to, copies, number, skipped);
        });
  } else {
    count_values(
        items, rows.begin, rows.end, false, static_cast<std::int64_t>(rows.count * row_run),
        [&](std::size_t i) { return rows.first.elements[row_run * (i - rows.begin)]; },
        [](auto) {});
    add_whole_runs(items, rows);
  }
}

}  // namespace
}  // namespace shardstream::cells
