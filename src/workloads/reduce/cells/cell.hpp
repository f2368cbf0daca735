// One cell of the result, for any type of elements: what its statistics are computed from.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include "kernels/cells/moments.hpp"
#include "kernels/cells/number.hpp"
#include "types/element.hpp"

namespace shardstream::workloads {

/// The rules for the values of cells. All cells have the same rules.
struct CellRules {
  ElementType type;              ///< of the elements
  cells::Quantities quantities;  ///< of the moments
  std::uint64_t ddof = 0;
  std::uint64_t min_count = 0;  ///< with fewer values, every result but the count is undefined
  /// Whether missing values make every result but the count undefined.
  bool propagates = false;
  int weight_exponent = 0;  ///< weights are multiples of two to this power
  bool has_arrays = true;   ///< for values, so that integers have at most 64 bits

  bool is_weighted() const { return quantities.has(cells::Quantity::weights); }
  bool has_integers() const { return type != ElementType::f32 && type != ElementType::f64; }
  /// Whether sums, or products of elements or weights, can be too large or too small for double.
  bool can_leave_range() const { return type == ElementType::f64 || is_weighted(); }
};

/// Whether a value is right.
enum class Flaw : std::uint8_t {
  none,
  overflow,   ///< it, or a step towards it, exceeds the range of double, or for integers 64 bits
  underflow,  ///< a step towards it has lost digits
};

/// A value of 64 bits: a double, or an integer.
struct CellValue {
  std::uint64_t bits;
  double real;  ///< the value, rounded; NaN if it is undefined
  Flaw flaw = Flaw::none;
};

/// A double as a value. All NaNs have the same bits, since their sign and payload mean nothing.
inline CellValue value_of(double x) {
  if (x != x) x = std::numeric_limits<double>::quiet_NaN();
  return {std::bit_cast<std::uint64_t>(x), x};
}
/// An integer as a value.
template <std::integral T>
constexpr CellValue value_of(T x) {
  return {static_cast<std::uint64_t>(x), static_cast<double>(x)};
}

/// The element with this key as a value.
template <class T>
CellValue element_with(cells::OrderKey<T> key) {
  const T element = cells::from_order_key<T>(key);
  if constexpr (std::integral<T>) return value_of(element);
  return value_of(static_cast<double>(element));
}

/// The statistics of a cell as kernels leave them (cells::Moments), for any type of elements.
/// Quantities that they lack are 0, indices no_index.
struct CellMoments {
  std::int64_t count = 0;         ///< of values
  cells::Int128 exact_sum = 0;    ///< of integers without weights
  double sum = 0;                 ///< rounded, for them; with weights, of products with the weights
  double weight = 0;              ///< the sum of the weights; without them, the count
  double weight2 = 0;             ///< of the squares of weights
  double m2 = 0, m3 = 0, m4 = 0;  ///< of powers of deviations from the mean
  double magnitude = 0;           ///< the sum of absolute values
  std::int64_t nonzeros = 0;      ///< values that are not 0
  cells::ScaledProduct product;   ///< of all values
  CellValue min{}, max{};         ///< with a count of at least 1
  double range = 0;               ///< max - min, rounded once
  std::int64_t min_index = cells::no_index, max_index = cells::no_index;
};

/// A function that reads the moments of a cell, whose words begin at `first` and are `pitch` words
/// apart.
using LoadMoments = CellMoments (*)(cells::Quantities, std::uint64_t* first, std::uint64_t pitch);
LoadMoments moments_loader(ElementType type);

/// Moments of one type, for any.
template <class T>
CellMoments any_moments(cells::Quantities quantities, const cells::Moments<T>& m) {
  using cells::Quantity;
  const bool is_weighted = quantities.has(Quantity::weights);
  CellMoments any{.count = m.count,
                  .sum = is_weighted ? m.weighted_sum : cells::to_double(m.sum),
                  .weight = m.total_weight(quantities),
                  .weight2 = m.weight2,
                  .m2 = m.m2,
                  .m3 = m.m3,
                  .m4 = m.m4,
                  .magnitude = m.magnitude,
                  .nonzeros = m.nonzeros,
                  .product = m.product,
                  .min_index = m.range.min_index,
                  .max_index = m.range.max_index};
  if constexpr (std::integral<T>) any.exact_sum = m.sum;
  if (!quantities.has(Quantity::extremes) || m.count == 0) return any;
  any.min = element_with<T>(m.range.min);
  any.max = element_with<T>(m.range.max);
  if constexpr (std::integral<T>) {
    any.range = cells::to_double(cells::Int128{m.range.max} - m.range.min);
  } else {
    any.range = any.max.real - any.min.real;
  }
  return any;
}

/// A cell with `expected` elements, as the formulas of statistics see it. `moments` and `rules`
/// must outlive it.
struct CellView {
  CellView(const CellMoments& moments, const CellRules& rules, std::uint64_t expected);

  const CellMoments& m;
  const CellRules& rules;
  bool is_sum_defined;   ///< also without values: neither too few nor, with propagates, any missing
  bool is_defined;       ///< what needs at least one value
  bool has_nan = false;  ///< an element is NaN. Only with extremes
  bool sum_is_nan;       ///< of floats
  /// Whether all elements are, or without extremes their sum; or a sum is NaN although the
  /// infinities among them do not make it so.
  bool is_finite;

  double mean() const { return m.sum / m.weight; }
};

}  // namespace shardstream::workloads
