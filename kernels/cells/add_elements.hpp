// The innermost loop of the host: adds elements to the accumulators of neighbouring items with
// vector instructions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cells/cells.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::cells {
namespace {

/// Accumulators of neighbouring items, with an array for each number, so that the compiler turns a
/// loop over items into vector instructions.
template <class T, Set S>
class ItemAccumulators {
 public:
  /// So many that they stay in the first-level cache.
  static constexpr std::size_t max =
      std::max<std::size_t>(128, std::bit_floor(std::size_t{1024} / words_of<T, S>));

  [[gnu::always_inline]] Accumulator<T, S> get(std::size_t i) const {
    Accumulator<T, S> item;
    const std::byte* array = arrays_;
    Accumulator<T, S>::visit(item, [&](auto& number) {
      using Number = std::remove_reference_t<decltype(number)>;
      number = reinterpret_cast<const Number*>(array)[i];
      array += max * sizeof(Number);
    });
    return item;
  }
  [[gnu::always_inline]] void set(std::size_t i, const Accumulator<T, S>& item) {
    std::byte* array = arrays_;
    Accumulator<T, S>::visit(item, [&](const auto& number) {
      using Number = std::remove_cvref_t<decltype(number)>;
      reinterpret_cast<Number*>(array)[i] = number;
      array += max * sizeof(Number);
    });
  }

 private:
  alignas(64) std::byte arrays_[max * sizeof(Accumulator<T, S>)];
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
};

/// The values that do not count.
template <class T, bool Skips>
struct Skipped {
  Skip skip;
  T marker;
  bool has(T x) const { return Skips && is_skipped(x, skip, marker); }
};

/// The elements of items: one of each row. Element r of item i is number at(i, r) of row(r).
template <class T, std::size_t Rows>
struct ColumnElements {
  static constexpr std::size_t each = Rows, count = 1;
  std::array<Neighbours<T>, Rows> rows;

  void next() {}
  const Neighbours<T>& row(std::size_t r) const { return rows[r]; }
  std::size_t at(std::size_t i, std::size_t) const { return i; }
};
/// The same: runs of `count` rows, which begin `step` elements apart. These are those of the first
/// row; next() goes to the next one.
template <class T>
struct RunElements {
  static constexpr std::size_t each = row_run;
  Neighbours<T> all;
  std::size_t count;
  std::int64_t step;

  void next() {
    all.elements += step;
    all.number += step * all.number_step;
    all.weights += step * all.weight_step;
  }
  const Neighbours<T>& row(std::size_t) const { return all; }
  std::size_t at(std::size_t i, std::size_t r) const { return i * each + r; }
};

/// Adds elements to items [begin, end). Everything is inlined, since a call would prevent vector
/// instructions.
template <class T, Set S, bool Skips, class Elements>
[[gnu::flatten]] SHARDSTREAM_VECTOR_CLONES void add_elements(ItemAccumulators<T, S>& items,
                                                             std::size_t begin, std::size_t end,
                                                             Elements elements,
                                                             Skipped<T, Skips> skipped) {
  constexpr std::size_t each = Elements::each;
  constexpr std::size_t max = is_weighted(S) ? ItemAccumulators<T, S>::max : 1;
  std::array<std::array<double, max>, each> weights;
  for (std::size_t n = 0; n < elements.count; ++n, elements.next()) {
    if constexpr (is_weighted(S)) {
      for (std::size_t r = 0; r < each; ++r) {
        for (std::size_t i = 0; i < end - begin; ++i) {
          weights[r][i] = elements.row(r).weight_of(elements.at(i, r));
        }
      }
    }
#pragma GCC ivdep
    for (std::size_t i = begin; i < end; ++i) {
      Accumulator<T, S> item = items.get(i);
      for (std::size_t r = 0; r < each; ++r) {
        const std::size_t j = elements.at(i - begin, r);
        const T x = elements.row(r).elements[j];
        Accumulator<T, S> next = item;
        next.add(x, elements.row(r).number_of(j), is_weighted(S) ? weights[r][i - begin] : 0,
                 Skips ? counted(x) : 1);
        if (!skipped.has(x)) item = next;
      }
      items.set(i, item);
    }
  }
}

}  // namespace
}  // namespace shardstream::cells
