// The state of one cell: accumulated value by value, turned into central moments, and joined. Both
// backends use these functions, so they give the same bits.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cells/number.hpp"
#include "kernels/cells/quantities.hpp"
#include "kernels/cells/scaled_product.hpp"
#include "types/missing.hpp"

namespace shardstream::cells {

/// Values that do not count.
enum class Skip : std::uint8_t {
  none,
  missing,  ///< those that a conversion has found missing
  nans      ///< missing values and all NaNs
};

/// Whether a value does not count.
template <class T>
constexpr bool is_skipped(T x, Skip skip, T marker) {
  if constexpr (std::floating_point<T>) {
    return x != x && (skip == Skip::nans || is_missing_element(x, marker));
  } else {
    return x == marker;
  }
}

/// The number of values that x adds to the count if some values do not count: a NaN makes results
/// NaN, but is no value.
template <class T>
constexpr std::int64_t counted(T x) {
  if constexpr (std::floating_point<T>) return x == x;
  return 1;
}

/// The extremes of values as extreme keys. NaNs with the sign bit are below all other values, and
/// all other NaNs above them, so one of the two extremes is NaN if a value is. Without values,
/// `min` is the highest key, and `max` the lowest one.
template <class T>
struct KeyRange {
  using Key = OrderKey<T>;
  Key min = std::numeric_limits<Key>::max(), max = std::numeric_limits<Key>::min();
  /// The lowest index of each, that of a value or of a unit, or no_index.
  std::int64_t min_index = no_index, max_index = no_index;

  template <bool Indices>
  [[gnu::always_inline]] constexpr void add(Key key, std::int64_t index) {
    if constexpr (Indices) {
      if (is_better(key < min, key == min, index, min_index)) min = key, min_index = index;
      if (is_better(max < key, key == max, index, max_index)) max = key, max_index = index;
    } else {
      min = key < min ? key : min;
      max = max < key ? key : max;
    }
  }
  template <bool Indices>
  constexpr void add(const KeyRange& other) {
    if constexpr (Indices) {
      if (is_better(other.min < min, other.min == min, other.min_index, min_index)) {
        min = other.min, min_index = other.min_index;
      }
      if (is_better(max < other.max, max == other.max, other.max_index, max_index)) {
        max = other.max, max_index = other.max_index;
      }
    } else {
      min = other.min < min ? other.min : min;
      max = max < other.max ? other.max : max;
    }
  }

 private:
  static constexpr bool is_better(bool is_beyond, bool is_equal, std::int64_t index,
                                  std::int64_t known) {
    return is_beyond || (is_equal && index != no_index && (known == no_index || index < known));
  }
};

/// Whether x is a value, no NaN, other than 0.
template <class T>
constexpr bool is_nonzero(T x) {
  return x != 0 && x == x;
}

/// |x|, rounded to double.
template <class T>
constexpr double absolute(T x) {
  const auto value = static_cast<double>(x);
  return value < 0 ? -value : value;
}

/// Statistics of some values. `T` is the type of the values. Numbers of quantities that the state
/// does not have keep their first values.
template <class T>
struct Moments : InWords<Moments<T>> {
  std::int64_t count = 0;          ///< of values
  Sum<T> sum = 0;                  ///< of values, exact for integers. Without weights
  double weighted_sum = 0;         ///< of products of values with their weights
  double weight = 0, weight2 = 0;  ///< sums of the weights and of their squares
  double largest_weight = 0;
  /// The mean is shift + offset. Two numbers keep the digits of deviations that are small beside
  /// it.
  Extreme<T> shift = 0;
  double offset = 0;
  double m2 = 0;          ///< of squared deviations from the mean, times the weights
  double m3 = 0, m4 = 0;  ///< of their third and fourth powers
  KeyRange<T> range;      ///< of values
  double magnitude = 0;   ///< sum of absolute values
  std::int64_t nonzeros = 0;
  ScaledProduct product;

  /// The mean of the values minus that of `other`.
  constexpr double mean_difference(const Moments& other) const {
    return shifted(shift, other.shift) + (offset - other.offset);
  }
  template <class Q>
  constexpr double total_weight(Q quantities) const {
    return quantities.has(Quantity::weights) ? weight : static_cast<double>(count);
  }

  template <class Q, class Self, class Use>
  static constexpr void visit(Q quantities, Self& self, Use use) {
    use(self.count);
    if (quantities.has(Quantity::weights)) {
      use(self.weighted_sum), use(self.weight), use(self.weight2), use(self.largest_weight);
    } else {
      use(self.sum);
    }
    if (quantities.has(Quantity::squares)) use(self.shift), use(self.offset), use(self.m2);
    if (quantities.has(Quantity::powers)) use(self.m3), use(self.m4);
    if (quantities.has(Quantity::extremes)) use(self.range.min), use(self.range.max);
    if (quantities.has(Quantity::positions)) use(self.range.min_index), use(self.range.max_index);
    if (quantities.has(Quantity::magnitudes)) use(self.magnitude);
    if (quantities.has(Quantity::nonzeros)) use(self.nonzeros);
    if (quantities.has(Quantity::product)) use(self.product.mantissa), use(self.product.exponent);
    // Last, so that the moments of lanes are a part of those of units.
    if (quantities.has(Quantity::units) && !quantities.has(Quantity::positions)) {
      use(self.range.min_index), use(self.range.max_index);
    }
  }
};

/// The 64-bit words of the moments of a cell, or of its accumulator.
template <class T, class Q>
constexpr unsigned moment_words(Q quantities) {
  unsigned words = 0;
  Moments<T> m;
  Moments<T>::visit(quantities, m, [&](auto& number) {
    words += word_count<std::remove_reference_t<decltype(number)>>;
  });
  return words;
}
/// The most words that quantities of type Q can have.
template <class T, class Q>
inline constexpr unsigned max_words = moment_words<T>(Q::all());

/// The squares and powers of deviations from the mean of the values of both. They follow Chan,
/// Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
/// (1979), and Pébay, "Formulas for robust, one-pass parallel computation of covariances and
/// arbitrary-order statistical moments" (2008), equations 2.1 and those after it. The shift is that
/// of the first value; with weights, of the first one of the largest weight, as in Accumulator.
template <class T, class Q>
constexpr void join_squares(Q quantities, Moments<T>& both, const Moments<T>& left,
                            const Moments<T>& right) {
  const double l = left.total_weight(quantities), r = right.total_weight(quantities), n = l + r;
  if (r == 0) return;
  both.shift = right.shift;
  both.offset = right.offset;
  both.m2 = right.m2;
  both.m3 = right.m3;
  both.m4 = right.m4;
  if (l == 0) return;
  const double delta = right.mean_difference(left), square = delta * delta, lr = l * (r / n);
  if (quantities.has(Quantity::weights) && left.largest_weight < right.largest_weight) {
    both.offset = right.offset - delta * (l / n);
  } else {
    both.shift = left.shift;
    both.offset = left.offset + delta * (r / n);
  }
  both.m2 = (left.m2 + right.m2) + square * lr;
  if (quantities.has(Quantity::powers)) {
    both.m3 = (left.m3 + right.m3) + square * delta * (lr * ((l - r) / n)) +
              3 * delta * ((l * right.m2 - r * left.m2) / n);
    both.m4 = (left.m4 + right.m4) + square * square * (lr * ((l * l - l * r + r * r) / (n * n))) +
              6 * square * ((l / n) * (l / n) * right.m2 + (r / n) * (r / n) * left.m2) +
              4 * delta * ((l * right.m3 - r * left.m3) / n);
  }
}

/// The statistics of the values of both.
template <class T, class Q>
constexpr Moments<T> join(Q quantities, const Moments<T>& left, const Moments<T>& right) {
  Moments<T> both = left;
  both.count += right.count;
  if (quantities.has(Quantity::weights)) {
    both.weighted_sum += right.weighted_sum;
    both.weight += right.weight;
    both.weight2 += right.weight2;
    if (left.largest_weight < right.largest_weight) both.largest_weight = right.largest_weight;
  } else {
    both.sum += right.sum;
  }
  if (quantities.has(Quantity::squares)) join_squares(quantities, both, left, right);
  if (quantities.has(Quantity::positions) || quantities.has(Quantity::units)) {
    both.range.template add<true>(right.range);
  } else if (quantities.has(Quantity::extremes)) {
    both.range.template add<false>(right.range);
  }
  if (quantities.has(Quantity::magnitudes)) both.magnitude += right.magnitude;
  if (quantities.has(Quantity::nonzeros)) both.nonzeros += right.nonzeros;
  if (quantities.has(Quantity::product)) both.product.multiply(right.product);
  return both;
}

/// How an accumulator adds the value x, which has been counted, to one of its quantities.
/// at.number() is the number of the value in its cell, and at.weight() its weight. numbers(a, f)
/// calls f with each number of the accumulator that add() uses.
struct AddToSum {
  static constexpr void numbers(auto& a, auto&& f) { f(a.sum); }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto&) { a.sum += x; }
};
template <bool Sum, bool Powers>
struct AddToSquares {
  static constexpr void numbers(auto& a, auto&& f) {
    if constexpr (Sum) f(a.sum);
    f(a.shift), f(a.s1), f(a.s2);
    if constexpr (Powers) f(a.s3), f(a.s4);
  }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto&) {
    if constexpr (Sum) a.sum += x;
    const double d = shifted(x, a.shift);
    a.s1 += d;
    a.s2 += d * d;
    if constexpr (Powers) {
      a.s3 += d * d * d;
      a.s4 += d * d * (d * d);
    }
  }
};
template <bool Squares>
struct AddWeighted {
  static constexpr bool weighs = true;
  static constexpr void numbers(auto& a, auto&& f) {
    f(a.weighted_sum), f(a.weight), f(a.weight2), f(a.largest_weight);
    if constexpr (Squares) f(a.shift), f(a.s1), f(a.s2);
  }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto& at) {
    const double w = at.weight();
    const bool is_largest = w > a.largest_weight;
    a.largest_weight = is_largest ? w : a.largest_weight;
    if constexpr (Squares) {
      a.move_shift(x, is_largest);
      const double d = shifted(x, a.shift), wd = w * d;
      a.s1 += wd;
      a.s2 += wd * d;
    }
    a.weighted_sum += w * static_cast<double>(x);
    a.weight += w;
    a.weight2 += w * w;
  }
};
template <bool Positions>
struct AddToExtremes {
  static constexpr void numbers(auto& a, auto&& f) {
    f(a.range.min), f(a.range.max);
    if constexpr (Positions) f(a.range.min_index), f(a.range.max_index);
  }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto& at) {
    a.range.template add<Positions>(extreme_key(x), Positions ? at.number() : 0);
  }
};
struct AddToMagnitude {
  static constexpr void numbers(auto& a, auto&& f) { f(a.magnitude); }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto&) {
    a.magnitude += absolute(x);
  }
};
struct AddToNonzeros {
  static constexpr void numbers(auto& a, auto&& f) { f(a.nonzeros); }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto&) {
    a.nonzeros += is_nonzero(x);
  }
};
struct AddToProduct {
  static constexpr void numbers(auto& a, auto&& f) { f(a.product.mantissa), f(a.product.exponent); }
  [[gnu::always_inline]] static constexpr void add(auto& a, auto x, const auto&) {
    a.product.multiply(static_cast<double>(x));
  }
};

/// Calls use(quantity) with one of the types above for each quantity. Every number is in one of
/// them. The host's vector instructions add sums and squares of floats together, but not of
/// integers, whose sums have 128 bits.
template <class T, class Q, class Use>
constexpr void for_each_quantity(Q quantities, Use&& use) {
  constexpr bool together = std::floating_point<T>;
  const bool has_squares = quantities.has(Quantity::squares);
  if (quantities.has(Quantity::weights)) {
    if (has_squares) {
      use(AddWeighted<true>{});
    } else {
      use(AddWeighted<false>{});
    }
  } else {
    if (!together || !has_squares) use(AddToSum{});
    if (quantities.has(Quantity::powers)) {
      use(AddToSquares<together, true>{});
    } else if (has_squares) {
      use(AddToSquares<together, false>{});
    }
  }
  if (quantities.has(Quantity::positions)) {
    use(AddToExtremes<true>{});
  } else if (quantities.has(Quantity::extremes)) {
    use(AddToExtremes<false>{});
  }
  if (quantities.has(Quantity::magnitudes)) use(AddToMagnitude{});
  if (quantities.has(Quantity::nonzeros)) use(AddToNonzeros{});
  if (quantities.has(Quantity::product)) use(AddToProduct{});
}

/// Adds values one after another. Powers are those of the deviations from a value, the shift, so
/// that they do not lose the digits of a variance that is small beside the mean. It is the first
/// value; with weights, the first one of the largest weight, since a value that hardly counts can
/// be as far away from the mean as it likes.
template <class T>
struct Accumulator : InWords<Accumulator<T>> {
  std::int64_t count = 0;
  Sum<T> sum = 0;
  double weighted_sum = 0, weight = 0, weight2 = 0, largest_weight = 0;
  Extreme<T> shift = 0;
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0;  ///< powers of deviations, times the weights
  KeyRange<T> range;
  double magnitude = 0;
  std::int64_t nonzeros = 0;
  ScaledProduct product;

  /// Counts `values` values, the first of which is `x`. They are to be added to each quantity, too.
  template <class Q>
  constexpr void begin(Q quantities, T x, std::int64_t values) {
    if (quantities.has(Quantity::squares) && !quantities.has(Quantity::weights) && count == 0)
      shift = x;
    count += values;
  }
  /// Adds values that have been counted. each(f) calls f(x, at) for each of them, in order.
  template <class Q, class Each>
  constexpr void add_each(Q quantities, const Each& each) {
    for_each_quantity<T>(quantities, [&](auto quantity) {
      each([&](T x, const auto& at) { quantity.add(*this, x, at); });
    });
  }
  /// Makes `x` the shift of weighted powers, if it is to move. Without a branch.
  [[gnu::always_inline]] constexpr void move_shift(T x, bool moves) {
    const double d = shifted(x, shift);
    const double new_s2 = s2 + d * (weight * d - 2 * s1), new_s1 = s1 - weight * d;
    s2 = moves ? new_s2 : s2;
    s1 = moves ? new_s1 : s1;
    shift = moves ? x : shift;
  }

  /// The powers about the mean, from those about the shift.
  template <class Q>
  constexpr Moments<T> moments(Q quantities) const {
    Moments<T> m;
    m.count = count;
    m.sum = sum;
    m.weighted_sum = weighted_sum;
    m.weight = weight;
    m.weight2 = weight2;
    m.largest_weight = largest_weight;
    m.range = range;
    m.magnitude = magnitude;
    m.nonzeros = nonzeros;
    m.product = product;
    const double n = m.total_weight(quantities);
    if (!quantities.has(Quantity::squares) || n == 0) return m;
    const double mean = s1 / n;  // minus the shift
    m.shift = shift;
    m.offset = mean;
    const double m2 = s2 - s1 * mean;
    m.m2 = m2 < 0 ? 0 : m2;  // rounding alone can make it negative; NaN stays
    if (quantities.has(Quantity::powers)) {
      m.m3 = s3 - 3 * mean * s2 + 2 * mean * mean * s1;
      m.m4 = s4 - 4 * mean * s3 + 6 * mean * mean * s2 - 3 * mean * mean * mean * s1;
    }
    return m;
  }

  template <class Q, class Self, class Use>
  static constexpr void visit(Q quantities, Self& self, Use use) {
    use(self.count);
    for_each_quantity<T>(quantities, [&](auto quantity) { quantity.numbers(self, use); });
  }
};

}  // namespace shardstream::cells
