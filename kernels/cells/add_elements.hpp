// The innermost loop of the host: adds elements to the accumulators of neighbouring items with
// vector instructions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cells/cells.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::cells {
namespace {

/// Accumulators of neighbouring items, with an array for each number, so that the compiler turns a
/// loop over items into vector instructions.
template <class T>
class ItemAccumulators {
 public:
  static constexpr std::size_t most = 512;

  explicit ItemAccumulators(Quantities quantities)
      : quantities_(quantities), max_(max_for(quantities)) {}

  /// So many that they stay in the first-level cache.
  static std::size_t max_for(Quantities quantities) {
    return std::clamp<std::size_t>(std::bit_floor(1024 / moment_words<T>(quantities)), 128, most);
  }
  Quantities quantities() const { return quantities_; }
  Accumulator<T> get(std::size_t i) const { return get(quantities_, i); }
  void set(std::size_t i, const Accumulator<T>& item) {
    Accumulator<T>::visit(quantities_, item,
                          [&](const auto& number) { at(item, number)[i] = number; });
  }
  /// Makes items [begin, end) empty.
  void clear(std::size_t begin, std::size_t end) {
    const Accumulator<T> empty;
    Accumulator<T>::visit(quantities_, empty, [&](const auto& number) {
      std::fill(at(empty, number) + begin, at(empty, number) + end, number);
    });
  }
  /// Reads items [begin, end) from neighbouring accumulators, the first of which is at `words`.
  void load(std::size_t begin, std::size_t end, const States& from, std::uint64_t first) {
    std::uint64_t* words = from.words + first;
    const Accumulator<T> item;
    Accumulator<T>::visit(quantities_, item, [&](const auto& number) {
      auto* const array = at(item, number);
      for (std::size_t i = begin; i < end; ++i) {
        Words(words + (i - begin), from.values).load(array[i]);
      }
      words += word_count<std::remove_reference_t<decltype(number)>> * from.values;
    });
  }
  void store(std::size_t begin, std::size_t end, const States& to, std::uint64_t first) const {
    std::uint64_t* words = to.words + first;
    const Accumulator<T> item;
    Accumulator<T>::visit(quantities_, item, [&](const auto& number) {
      const auto* const array = at(item, number);
      for (std::size_t i = begin; i < end; ++i) {
        Words(words + (i - begin), to.values).store(array[i]);
      }
      words += word_count<std::remove_reference_t<decltype(number)>> * to.values;
    });
  }
  /// Writes the moments of items [begin, end).
  void store_moments(std::size_t begin, std::size_t end, const States& to,
                     std::uint64_t first) const {
    with_common_quantities(quantities_, [&](auto quantities) {
      for (std::size_t i = begin; i < end; ++i) {
        get(quantities, i)
            .moments(quantities)
            .store(quantities, to.words + first + (i - begin), to.values);
      }
    });
  }
  /// Writes the moments of each `joined` items, a power of two, joined as a binary tree. Those of
  /// the first ones have number `first`, and the others follow with steps of `step`.
  void store_joined(std::size_t count, std::size_t joined, const States& to, std::uint64_t first,
                    std::uint64_t step) const {
    with_common_quantities(quantities_, [&](auto quantities) {
      using M = Moments<T>;
      std::uint64_t nodes[max_words<T, decltype(quantities)> * max_host_joined_lanes];
      const auto node = [&](std::size_t i) {
        return M::load(quantities, nodes + i, max_host_joined_lanes);
      };
      for (std::size_t begin = 0; begin < count; begin += joined, first += step) {
        for (std::size_t i = 0; i < joined; ++i) {
          get(quantities, begin + i)
              .moments(quantities)
              .store(quantities, nodes + i, max_host_joined_lanes);
        }
        for (std::size_t width = joined / 2; width > 0; width /= 2) {
          for (std::size_t i = 0; i < width; ++i) {
            join(quantities, node(2 * i), node(2 * i + 1))
                .store(quantities, nodes + i, max_host_joined_lanes);
          }
        }
        node(0).store(quantities, to.words + first, to.values);
      }
    });
  }
  /// Calls change(item, i) for items [begin, end). Only the numbers of the quantity are set in
  /// `item`.
  template <class Quantity, class Change>
  [[gnu::always_inline]] void change(Quantity quantity, std::size_t begin, std::size_t end,
                                     const Change& change) {
    const std::ptrdiff_t max = max_;  // the compiler cannot know that arrays do not change it
#pragma GCC ivdep
    for (std::size_t i = begin; i < end; ++i) {
      Accumulator<T> item;
      quantity.numbers(item, [&](auto& number) { number = at(item, number, max)[i]; });
      change(item, i);
      quantity.numbers(item, [&](auto& number) { at(item, number, max)[i] = number; });
    }
  }

 private:
  template <class Q>
  [[gnu::always_inline]] Accumulator<T> get(Q quantities, std::size_t i) const {
    Accumulator<T> item;
    Accumulator<T>::visit(quantities, item, [&](auto& number) { number = at(item, number)[i]; });
    return item;
  }
  /// The array of a number, which is a member of `item`. Arrays lie in memory as the members do.
  template <class Number>
  [[gnu::always_inline]] auto* at(const Accumulator<T>& item, const Number& number,
                                  std::ptrdiff_t max) {
    const auto offset =
        reinterpret_cast<const std::byte*>(&number) - reinterpret_cast<const std::byte*>(&item);
    return reinterpret_cast<std::remove_const_t<Number>*>(arrays_ + offset * max);
  }
  template <class Number>
  [[gnu::always_inline]] auto* at(const Accumulator<T>& item, const Number& number) {
    return at(item, number, max_);
  }
  template <class Number>
  [[gnu::always_inline]] const auto* at(const Accumulator<T>& item, const Number& number) const {
    return const_cast<ItemAccumulators*>(this)->at(item, number, max_);
  }

  const Quantities quantities_;
  const std::ptrdiff_t max_;
  alignas(64) std::byte arrays_[most * sizeof(Accumulator<T>)];
};

/// Neighbouring elements of a row. Element j is value number `number` + j * `number_step` of its
/// cell, and has weight `weights`[j * `weight_step`].
template <class T>
struct Neighbours {
  const T* elements;
  std::int64_t number;
  const double* weights;
  std::int64_t number_step, weight_step;

  std::int64_t number_of(std::size_t j) const {
    return number + static_cast<std::int64_t>(j) * number_step;
  }
  double weight_of(std::size_t j) const {
    return weights[static_cast<std::int64_t>(j) * weight_step];
  }
  /// Those from element j on.
  Neighbours plus(std::int64_t j) const {
    return {elements + j, number + j * number_step, weights + j * weight_step, number_step,
            weight_step};
  }
};

/// The values that do not count.
template <class T, bool Skips>
struct Skipped {
  Skip skip;
  T marker;
  bool has(T x) const { return Skips && is_skipped(x, skip, marker); }
};

/// Counts the value x, or `values` values, the first of which is x (Accumulator::begin).
template <bool Shift>
struct Count {
  static constexpr bool counts = true;
  static void numbers(auto& a, auto&& f) {
    f(a.count);
    if constexpr (Shift) f(a.shift);
  }
  static void add(auto& a, auto x, std::int64_t values) {
    if constexpr (Shift) a.shift = a.count == 0 ? x : a.shift;
    a.count += values;
  }
};

/// The number of an element in its cell, and its weight.
struct ElementAt {
  std::int64_t element_number;
  double element_weight;
  std::int64_t number() const { return element_number; }
  double weight() const { return element_weight; }
};

/// Rows of neighbouring elements that are added at once.
inline constexpr std::size_t most_rows = 64;

/// Rows that are added together, so that accumulators are loaded and stored less often. It pays for
/// quantities with little arithmetic.
template <class Quantity>
inline constexpr std::size_t rows_together = 1;
template <bool Shift>
inline constexpr std::size_t rows_together<Count<Shift>> = 4;
template <>
inline constexpr std::size_t rows_together<AddToSum> = 4;
template <bool Sum>
inline constexpr std::size_t rows_together<AddToSquares<Sum, false>> = 4;
template <bool Positions>
inline constexpr std::size_t rows_together<AddToExtremes<Positions>> = 4;

/// Adds up to most_rows rows of integers to the sums of items [begin, end). Sums of 128 bits need
/// several instructions each, so the elements of an item are added in 64 bits first: those of 64
/// bits as two halves.
template <class T, bool Skips>
[[gnu::flatten]] SHARDSTREAM_VECTOR_CLONES void add_integers(ItemAccumulators<T>& items,
                                                             std::size_t begin, std::size_t end,
                                                             const Neighbours<T>* rows,
                                                             std::size_t count,
                                                             Skipped<T, Skips> skipped) {
  constexpr bool halved = sizeof(T) == 8;
  constexpr std::size_t most = ItemAccumulators<T>::most;
  const std::size_t own = end - begin;
  std::array<std::int64_t, most> low, high;
  std::fill_n(low.begin(), own, 0);
  std::fill_n(high.begin(), halved ? own : 0, 0);
  for (std::size_t r = 0; r < count; ++r) {
    const T* const elements = rows[r].elements;
#pragma GCC ivdep
    for (std::size_t j = 0; j < own; ++j) {
      const T x = skipped.has(elements[j]) ? T{} : elements[j];
      if constexpr (halved) {
        low[j] += static_cast<std::int64_t>(x & 0xffffffff);
        high[j] += static_cast<std::int64_t>(x >> 32);
      } else {
        low[j] += x;
      }
    }
  }
  items.change(AddToSum{}, begin, end, [&](Accumulator<T>& item, std::size_t i) {
    const std::size_t j = i - begin;
    item.sum += low[j];
    if constexpr (halved) item.sum += Int128{high[j]} << 32;
  });
}

/// Adds rows to a quantity of items [begin, end): element i of each row to item begin + i.
template <std::size_t Rows, class T, bool Skips, class Quantity>
[[gnu::always_inline]] inline void add_together(Quantity quantity, ItemAccumulators<T>& items,
                                                std::size_t begin, std::size_t end,
                                                const Neighbours<T>* rows,
                                                Skipped<T, Skips> skipped) {
  constexpr bool weighs = requires {
    Quantity::weighs;
  };
  std::array<Neighbours<T>, Rows> own;
  std::copy_n(rows, Rows, own.begin());
  std::array<double, weighs ? ItemAccumulators<T>::most : 1> weights;
  if constexpr (weighs) {
    static_assert(Rows == 1);
    for (std::size_t i = 0; i < end - begin; ++i) weights[i] = own[0].weight_of(i);
  }
  items.change(quantity, begin, end, [&](Accumulator<T>& item, std::size_t i) {
    for (const Neighbours<T>& row : own) {
      const std::size_t j = i - begin;
      const T x = row.elements[j];
      Accumulator<T> next = item;
      if constexpr (requires { Quantity::counts; }) {
        quantity.add(next, x, counted(x));
      } else {
        quantity.add(next, x, ElementAt{row.number_of(j), weighs ? weights[j] : 0});
      }
      if (!skipped.has(x)) item = next;
    }
  });
}

/// The same for any number of rows. Everything is inlined, since a call would prevent vector
/// instructions.
template <class T, bool Skips, class Quantity>
[[gnu::flatten]] SHARDSTREAM_VECTOR_CLONES void add_rows(
    Quantity quantity, ItemAccumulators<T>& items, std::size_t begin, std::size_t end,
    const Neighbours<T>* rows, std::size_t count, Skipped<T, Skips> skipped) {
  if constexpr (std::integral<T> && std::is_same_v<Quantity, AddToSum>) {
    return add_integers(items, begin, end, rows, count, skipped);
  }
  constexpr std::size_t together = rows_together<Quantity>;
  std::size_t r = 0;
  for (; r + together <= count; r += together) {
    add_together<together>(quantity, items, begin, end, rows + r, skipped);
  }
  if constexpr (together > 1) {
    for (; r < count; ++r) add_together<1>(quantity, items, begin, end, rows + r, skipped);
  }
}

/// Counts the values of items [begin, end): `each` for every item, or those of rows(count) that are
/// not skipped. The first one of item i is first(i).
template <class T, class First, class AddRows>
void count_values(ItemAccumulators<T>& items, std::size_t begin, std::size_t end, bool skips,
                  std::int64_t each, const First& first, const AddRows& add_rows) {
  const auto count = [&](auto quantity) {
    if (skips) return add_rows(quantity);
    items.change(quantity, begin, end,
                 [&](Accumulator<T>& item, std::size_t i) { quantity.add(item, first(i), each); });
  };
  const Quantities quantities = items.quantities();
  if (quantities.has(Quantity::squares) && !quantities.has(Quantity::weights)) {
    count(Count<true>{});
  } else {
    count(Count<false>{});
  }
}

/// Adds up to most_rows rows to items [begin, end).
template <class T, bool Skips>
void add_elements(ItemAccumulators<T>& items, std::size_t begin, std::size_t end,
                  const Neighbours<T>* rows, std::size_t count, Skipped<T, Skips> skipped) {
  if (count == 0) return;
  const auto add = [&](auto quantity) {
    add_rows(quantity, items, begin, end, rows, count, skipped);
  };
  count_values(
      items, begin, end, Skips, static_cast<std::int64_t>(count),
      [&](std::size_t i) { return rows[0].elements[i - begin]; }, add);
  for_each_quantity<T>(items.quantities(), add);
}

}  // namespace
}  // namespace shardstream::cells
