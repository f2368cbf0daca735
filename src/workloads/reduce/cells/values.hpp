// The operations on the cells of a result: the value of each from the moments of a cell.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cells/moments.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::workloads {

/// The rules for values, besides the moments.
struct CellRules {
  std::uint64_t ddof = 0;
  bool is_weighted = false;
  /// Whether missing values make every result but the count undefined.
  bool propagates = false;
};

/// The smallest set of statistics that has all of these operations.
inline cells::Set set_of(const std::vector<std::string>& ops, bool is_weighted) {
  cells::Set set = cells::Set::sum;
  const auto at_least = [&](cells::Set other) { set = set < other ? other : set; };
  for (const std::string_view op : ops) {
    if (op == "min" || op == "max" || op == "range") at_least(cells::Set::extremes);
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

/// The integer that stands for an undefined value of elements of type T.
template <class T>
constexpr std::uint64_t undefined_integer() {
  constexpr bool is_u64 = std::same_as<T, std::uint64_t>;
  return static_cast<std::uint64_t>(is_u64 ? std::numeric_limits<std::int64_t>::max()
                                           : std::numeric_limits<std::int64_t>::min());
}

/// A value of 64 bits: a double, or an integer.
struct CellValue {
  std::uint64_t bits;
  double real;       ///< the value, rounded; NaN if it is undefined
  bool fits = true;  ///< whether the bits hold it
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
    if constexpr (cells::has_extremes(S) && std::floating_point<T>) {
      const T min = extreme(m.range.min), max = extreme(m.range.max);
      has_nan_ = m.count > 0 && (min != min || max != max);
    }
  }

  CellValue operator[](std::string_view op) const {
    if (op == "count") return integer(m_.count);
    if (op == "sum") return sum();
    if (op == "min" || op == "max" || op == "argmin" || op == "argmax") return at_extreme(op);
    return real(is_defined_ ? real_value(op) : nan);
  }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  static CellValue real(double x) {
    if (x != x) x = nan;  // sign and payload of a NaN are meaningless
    return {std::bit_cast<std::uint64_t>(x), x};
  }
  template <class Integer>
  static CellValue integer(Integer x) {
    return {static_cast<std::uint64_t>(x), static_cast<double>(x)};
  }
  /// The integer that stands for an undefined value.
  static CellValue no_integer(std::uint64_t bits) { return {bits, nan}; }

  static T extreme(reduce::OrderKey<T> key) { return reduce::from_order_key<T>(key); }

  double mean() const {
    return cells::is_weighted(S) ? reduce::to_double(m_.sum) / m_.weight
                                 : reduce::to_double(m_.sum) / static_cast<double>(m_.count);
  }

  CellValue sum() const {
    if constexpr (std::integral<T> && !cells::is_weighted(S)) {
      using Wide = std::conditional_t<std::same_as<T, std::uint64_t>, std::uint64_t, std::int64_t>;
      if (!is_sum_defined_) return no_integer(undefined_integer<T>());
      const bool fits =
          m_.sum >= std::numeric_limits<Wide>::min() && m_.sum <= std::numeric_limits<Wide>::max();
      return {static_cast<std::uint64_t>(m_.sum), reduce::to_double(m_.sum), fits};
    } else {
      return real(is_sum_defined_ ? m_.sum : nan);
    }
  }

  CellValue at_extreme(std::string_view op) const {
    if constexpr (cells::has_extremes(S)) {
      const bool is_min = op == "min" || op == "argmin", is_index = op.starts_with("arg");
      const bool is_defined = is_defined_ && !has_nan_;
      if (is_index) {
        const std::int64_t index = is_min ? m_.range.min_index : m_.range.max_index;
        return is_defined ? integer(index) : no_integer(static_cast<std::uint64_t>(-1));
      }
      const T value = extreme(is_min ? m_.range.min : m_.range.max);
      if constexpr (std::integral<T>) {
        return is_defined ? integer(value) : no_integer(undefined_integer<T>());
      } else {
        return real(is_defined ? value : nan);
      }
    }
    return real(nan);
  }

  double real_value(std::string_view op) const {
    if (op == "mean") return mean();
    if (op == "effective-count") {
      return cells::is_weighted(S) ? m_.weight * m_.weight / m_.weight2
                                   : static_cast<double>(m_.count);
    }
    if constexpr (cells::has_extremes(S)) {
      if (op == "range") {
        if constexpr (std::integral<T>) {
          return reduce::to_double(reduce::Int128{m_.range.max} - m_.range.min);
        } else {
          return static_cast<double>(extreme(m_.range.max)) -
                 static_cast<double>(extreme(m_.range.min));
        }
      }
    }
    if constexpr (cells::has_squares(S)) {
      if (op == "variance") return variance();
      if (op == "stddev") return std::sqrt(variance());
      if (op == "l2") return l2();
    }
    if constexpr (cells::has_powers(S)) {
      const auto n = static_cast<double>(m_.count);
      if (op == "l1") return m_.magnitude;
      if (op == "skewness") return m_.m3 / n / std::pow(m_.m2 / n, 1.5);
      if (op == "kurtosis") return n * m_.m4 / (m_.m2 * m_.m2) - 3;
    }
    return nan;
  }

  double l2() const {
    if constexpr (std::floating_point<T>) {
      const bool is_infinite =
          std::isinf(extreme(m_.range.min)) || std::isinf(extreme(m_.range.max));
      if (is_infinite && !has_nan_) return std::numeric_limits<double>::infinity();
    }
    return std::sqrt(m_.m2 + m_.total_weight() * (mean() * mean()));
  }

  /// With weights, the divisor is the sum of the weights, W, or for ddof 1 W - (sum of w^2) / W,
  /// the unbiased one for weights that state reliability.
  double variance() const {
    const auto ddof = static_cast<double>(rules_.ddof);
    const double divisor =
        cells::is_weighted(S) ? m_.weight - (rules_.ddof == 0 ? 0 : ddof * (m_.weight2 / m_.weight))
                              : static_cast<double>(m_.count) - ddof;
    return divisor > 0 ? m_.m2 / divisor : nan;
  }

  const cells::Moments<T, S> m_;
  const CellRules rules_;
  bool is_sum_defined_ = false, is_defined_ = false, has_nan_ = false;
};

}  // namespace shardstream::workloads
