// The operations on the cells of a result: the value of each from the moments of a cell.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cells/moments.hpp"
#include "kernels/data/element.hpp"
#include "workloads/reduce/double_range.hpp"

namespace shardstream::workloads {

/// The rules for values, besides the moments.
struct CellRules {
  std::uint64_t ddof = 0;
  bool is_weighted = false;
  /// Whether missing values make every result but the count undefined.
  bool propagates = false;
  int weight_exponent = 0;  ///< weights are multiples of two to this power
};

/// The smallest set of statistics that has all of these operations for elements of type T. Extremes
/// tell whether sums of f64 have exceeded its range, or an element is not finite.
template <class T>
cells::Set set_of(const std::vector<std::string>& ops, bool is_weighted) {
  cells::Set set = std::same_as<T, double> ? cells::Set::extremes : cells::Set::sum;
  const auto at_least = [&](cells::Set other) { set = set < other ? other : set; };
  for (const std::string_view op : ops) {
    if (op == "min" || op == "max" || op == "range" || op == "effective-count") {
      at_least(cells::Set::extremes);
    }
    if (op == "variance" || op == "stddev" || op == "l2") at_least(cells::Set::squares);
    if (op == "argmin" || op == "argmax" || op == "skewness" || op == "kurtosis" || op == "l1") {
      at_least(cells::Set::all);
    }
  }
  return is_weighted ? cells::Set::weighted : set;
}

/// The type of an operation's values for elements of type T. Sums of integers are exact in 64 bits,
/// as are their extremes.
template <class T>
ElementType type_of(std::string_view op, bool is_weighted) {
  if (op == "count" || op == "argmin" || op == "argmax") return ElementType::i64;
  if constexpr (std::integral<T>) {
    constexpr bool is_u64 = std::same_as<T, std::uint64_t>;
    const bool is_integer = op == "min" || op == "max" || (op == "sum" && !is_weighted);
    if (is_integer) return is_u64 ? ElementType::u64 : ElementType::i64;
  }
  return ElementType::f64;
}

/// Whether an operation's value for a cell is right.
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

/// The values of a cell whose moments are `m`. `expected` is the number of its elements.
template <class T, cells::Set S>
class CellValues {
 public:
  CellValues(const cells::Moments<T, S>& m, const CellRules& rules, std::uint64_t expected)
      : m_(m), rules_(rules) {
    const bool is_complete = m.count == static_cast<std::int64_t>(expected);
    is_sum_defined_ = is_complete || !rules.propagates;
    is_defined_ = m.count > 0 && is_sum_defined_;
    if constexpr (std::floating_point<T>) {
      is_nan_ = m.sum != m.sum;
      is_finite_ = std::isfinite(m.sum);
      if constexpr (cells::has_extremes(S)) {
        if (m.count == 0) return;
        const double low = min(), high = max();
        has_nan_ = low != low || high != high;
        is_finite_ = std::isfinite(low) && std::isfinite(high);
      }
    }
  }

  CellValue operator[](std::string_view op) const {
    if (op == "count") return integer(m_.count);
    if (op == "sum") return sum();
    if (op == "min" || op == "max" || op == "argmin" || op == "argmax") return at_extreme(op);
    if (!is_defined_) return undefined();
    CellValue value = real(real_value(op));
    if (can_leave_range && is_finite_) value.flaw = flaw_of(op, value.real);
    return value;
  }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  /// Products of other elements are far from the ends of double's range.
  static constexpr bool can_leave_range = std::same_as<T, double> || cells::is_weighted(S);

  static CellValue real(double x) {
    if (x != x) x = nan;  // sign and payload of a NaN are meaningless
    return {std::bit_cast<std::uint64_t>(x), x};
  }
  template <class Integer>
  static CellValue integer(Integer x) {
    return {static_cast<std::uint64_t>(x), static_cast<double>(x)};
  }
  static CellValue undefined() { return real(nan); }

  double min() const { return static_cast<double>(reduce::from_order_key<T>(m_.range.min)); }
  double max() const { return static_cast<double>(reduce::from_order_key<T>(m_.range.max)); }

  double mean() const { return reduce::to_double(m_.sum) / m_.total_weight(); }

  CellValue sum() const {
    if (!is_sum_defined_) return undefined();
    if constexpr (std::integral<T> && !cells::is_weighted(S)) {
      using Wide = std::conditional_t<std::same_as<T, std::uint64_t>, std::uint64_t, std::int64_t>;
      const bool fits =
          m_.sum >= std::numeric_limits<Wide>::min() && m_.sum <= std::numeric_limits<Wide>::max();
      if (fits) return {static_cast<std::uint64_t>(m_.sum), reduce::to_double(m_.sum)};
      CellValue value = undefined();
      value.flaw = Flaw::overflow;
      return value;
    } else {
      CellValue value =
          real(cells::is_weighted(S) ? std::ldexp(m_.sum, rules_.weight_exponent) : m_.sum);
      if (can_leave_range && is_finite_ && m_.count > 0) {
        value.flaw = std::isfinite(value.real) ? flaw_of_products() : Flaw::overflow;
      }
      return value;
    }
  }

  CellValue at_extreme(std::string_view op) const {
    if constexpr (cells::has_extremes(S)) {
      const bool is_min = op == "min" || op == "argmin";
      if (!is_defined_ || has_nan_) return undefined();
      if (op.starts_with("arg")) return integer(is_min ? m_.range.min_index : m_.range.max_index);
      const T value = reduce::from_order_key<T>(is_min ? m_.range.min : m_.range.max);
      if constexpr (std::integral<T>) {
        return integer(value);
      } else {
        return real(value);
      }
    }
    return undefined();
  }

  double real_value(std::string_view op) const {
    if (op == "mean") return mean();
    if (op == "effective-count") {
      if (has_nan_) return nan;
      return cells::is_weighted(S) ? m_.weight * m_.weight / m_.weight2
                                   : static_cast<double>(m_.count);
    }
    if constexpr (cells::has_extremes(S)) {
      if (op == "range") {
        if constexpr (std::integral<T>) {
          return reduce::to_double(reduce::Int128{m_.range.max} - m_.range.min);
        } else {
          return max() - min();
        }
      }
    }
    if constexpr (cells::has_powers(S)) {
      if (op == "l1") return m_.magnitude;
    }
    if constexpr (cells::has_squares(S)) {
      if (op == "l2") return l2();
      if (is_nan_) return nan;
      if (op == "variance") return variance();
      if (op == "stddev") return std::sqrt(variance());
    }
    if constexpr (cells::has_powers(S)) {
      const auto n = static_cast<double>(m_.count);
      if (op == "skewness") return m_.m3 / n / std::pow(m_.m2 / n, 1.5);
      if (op == "kurtosis") return n * m_.m4 / (m_.m2 * m_.m2) - 3;
    }
    return nan;
  }

  double l2() const {
    if constexpr (std::floating_point<T>) {
      const bool is_infinite = std::isinf(min()) || std::isinf(max());
      if (is_infinite && !has_nan_) return std::numeric_limits<double>::infinity();
    }
    const double square = m_.m2 + m_.total_weight() * (mean() * mean());
    if (std::isfinite(square) && square >= smallest()) return std::sqrt(square);
    return std::hypot(std::sqrt(m_.m2), std::sqrt(m_.total_weight()) * mean());
  }

  // Values out of range.

  double smallest() const { return smallest_sum(static_cast<double>(m_.count)); }

  /// Whether products of weights and elements have lost digits.
  Flaw flaw_of_products() const {
    if constexpr (cells::is_weighted(S)) {
      const double largest = std::max(std::fabs(min()), std::fabs(max()));
      const bool is_small = m_.weight > 0 && largest > 0 && m_.weight * largest < smallest();
      return is_small ? Flaw::underflow : Flaw::none;
    }
    return Flaw::none;
  }
  /// Whether sums of squares, or of the power of a deviation, have.
  bool has_small_power(int power) const {
    if constexpr (cells::has_squares(S)) {
      const double extent = max() - min();
      if (extent == 0) return false;
      if (m_.m2 < smallest() && (m_.m2 > 0 || m_.total_weight() * extent * extent < smallest())) {
        return true;
      }
      return power > 2 && std::pow(extent, power) < smallest();
    }
    return false;
  }
  bool has_small_weights() const { return m_.weight > 0 && m_.weight2 < smallest(); }

  /// `value` is that of the operation; all elements are finite.
  Flaw flaw_of(std::string_view op, double value) const {
    const auto flaw = [](bool is_finite, bool is_small) {
      return !is_finite ? Flaw::overflow : is_small ? Flaw::underflow : Flaw::none;
    };
    if (m_.total_weight() == 0) return Flaw::none;
    if (op == "mean") return std::isfinite(value) ? flaw_of_products() : Flaw::overflow;
    if (op == "effective-count") {
      return flaw(std::isfinite(m_.weight * m_.weight + m_.weight2), has_small_weights());
    }
    if constexpr (cells::has_squares(S)) {
      const bool is_small = has_small_power(2);
      if (op == "variance" || op == "stddev") {
        const bool uses_squares = rules_.ddof > 0;  // of weights
        return flaw(std::isfinite(m_.m2) && (!uses_squares || std::isfinite(m_.weight2)),
                    is_small || (uses_squares && has_small_weights()));
      }
      if (op == "l2") return flaw(std::isfinite(value), is_small && value * value < smallest());
      if (op == "skewness") {
        const double variance = m_.m2 / static_cast<double>(m_.count);
        return flaw(std::isfinite(m_.m3) && std::isfinite(std::pow(variance, 1.5)),
                    has_small_power(3));
      }
      if (op == "kurtosis") {
        const auto n = static_cast<double>(m_.count);
        return flaw(std::isfinite(n * m_.m4) && std::isfinite(m_.m2 * m_.m2), has_small_power(4));
      }
    }
    return flaw(std::isfinite(value), false);  // range, l1
  }

  /// With weights, the divisor is the sum of the weights, W, or for ddof 1 W - (sum of w^2) / W,
  /// the unbiased one for weights that state reliability. If a single value has all the weight, but
  /// for rounding, that is 0.
  double variance() const {
    const auto ddof = static_cast<double>(rules_.ddof);
    if constexpr (cells::is_weighted(S)) {
      const double divisor = m_.weight - (rules_.ddof == 0 ? 0 : ddof * (m_.weight2 / m_.weight));
      const double rounding = (static_cast<double>(m_.count) + 64) * 0x1p-53 * m_.weight;
      return divisor > (rules_.ddof == 0 ? 0 : rounding) ? m_.m2 / divisor : nan;
    }
    const double divisor = static_cast<double>(m_.count) - ddof;
    return divisor > 0 ? m_.m2 / divisor : nan;
  }

  const cells::Moments<T, S> m_;
  const CellRules rules_;
  bool is_sum_defined_ = false, is_defined_ = false, has_nan_ = false;
  bool is_nan_ = false;  // the sum is
  bool is_finite_ = true;
};

}  // namespace shardstream::workloads
