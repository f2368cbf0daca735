// The statistics of a range of elements: a node of the summation tree. All backends combine nodes
// with the same functions, so the bits are the same.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardstream::reduce {

__extension__ using Int128 = __int128;

/// The type of a sum: integers are added exactly in 128 bits, floats in double.
template <class T>
using Sum = std::conditional_t<std::integral<T>, Int128, double>;

/// The type of minimum and maximum, which holds every value of T exactly: double, std::int64_t or
/// std::uint64_t. Element types with the same Extreme<T> have the same Partial.
template <class T>
using Extreme = std::conditional_t<std::same_as<T, std::uint64_t>, std::uint64_t,
                                   std::conditional_t<std::integral<T>, std::int64_t, double>>;

/// Converts 128 bits to double through the halves of the magnitude, with two roundings, so that
/// every backend does the same. Not for -2^127, which a sum of 2^63 elements cannot reach.
constexpr double to_double(Int128 value) {
  const Int128 magnitude = value < 0 ? -value : value;
  const auto high = static_cast<std::int64_t>(magnitude >> 64);
  const auto low = static_cast<std::uint64_t>(magnitude);
  const double sum = static_cast<double>(high) * 18446744073709551616.0 + static_cast<double>(low);
  return value < 0 ? -sum : sum;
}
constexpr double to_double(double value) {
  return value;
}

/// A mean as whole + rest. `whole` is 0 unless the mean of integers reaches `whole_from`. Then it
/// is an integer, and |rest| < 1: a double alone would lose the fraction, or even skip integers.
/// `T` is a class of Partial.
template <class T>
struct Mean {
  std::conditional_t<std::integral<T>, T, std::int64_t> whole;
  double rest;
};
inline constexpr double whole_from = 0x1p32;

/// sum / count. `count` is at least 1.
template <class T>
constexpr Mean<T> mean_of(Sum<T> sum, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const double mean = to_double(sum) / n;
  if constexpr (std::integral<T>) {
    if (!(-whole_from < mean && mean < whole_from)) {
      Int128 whole = Int128{static_cast<T>(mean / 2)} * 2;  // the mean may round to T's maximum + 1
      whole += static_cast<std::int64_t>(to_double(sum - whole * count) / n);
      return {static_cast<T>(whole), to_double(sum - whole * count) / n};
    }
  }
  return {0, mean};
}

/// Whether double cannot hold every value of T.
template <class T>
inline constexpr bool exceeds_double = std::integral<T> && sizeof(T) == 8;

/// x - mean. Integers of 64 bits are subtracted before they are rounded, as two halves of 32 bits,
/// since the difference may need 65.
template <class T>
constexpr double deviation(T x, Mean<Extreme<T>> mean) {
  if constexpr (exceeds_double<T>) {
    const double high = static_cast<double>(x >> 32) - static_cast<double>(mean.whole >> 32);
    const double low = static_cast<double>(static_cast<std::uint32_t>(x)) -
                       static_cast<double>(static_cast<std::uint32_t>(mean.whole));
    return (high * 0x1p32 + low) - mean.rest;
  } else {
    return static_cast<double>(x) - mean.rest;
  }
}

/// to - from.
template <class T>
constexpr double difference(Mean<T> to, Mean<T> from) {
  return to_double(Int128{to.whole} - from.whole) + (to.rest - from.rest);
}

/// An integer that has the order of the values, with -0 < +0. Not for NaN.
constexpr std::int32_t order_key(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  return bits ^ ((bits >> 31) & std::numeric_limits<std::int32_t>::max());
}
constexpr std::int64_t order_key(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  return bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
}
template <std::integral T>
constexpr T order_key(T x) {
  return x;
}
/// As order_key, but -0 is equal to 0, so that the first zero of several is an extreme.
template <class T>
constexpr auto extreme_key(T x) {
  const auto key = order_key(x);
  if constexpr (std::floating_point<T>) return key == -1 ? 0 : key;
  return key;
}
/// The value whose order_key is `key`.
template <class T, class Key>
constexpr T from_order_key(Key key) {
  if constexpr (std::integral<T>) {
    return key;
  } else {
    return std::bit_cast<T>(key ^
                            ((key >> (8 * sizeof(Key) - 1)) & std::numeric_limits<Key>::max()));
  }
}
template <class T>
using OrderKey = decltype(order_key(T{}));

inline constexpr std::int64_t no_index = -1;
inline constexpr double no_m2 = -1;

/// Statistics of a range of elements. `T` is their class, Extreme of the element type. Indices are
/// global element indices, or no_index.
template <class T>
struct Partial {
  Sum<T> sum = 0;  ///< of the counted values
  double m2 = 0;   ///< sum of squared deviations from their mean; no_m2 if not requested
  /// Sum of deviations from mean_of(sum, count), which is rounded. Only set with m2.
  double residual = 0;
  std::int64_t count = 0;  ///< counted values: all, or with Want::skip_missing all valid ones
  /// Number of NaNs, counted or not; or, with Want::skip_missing, of integers that are missing.
  std::int64_t missing = 0;
  std::int64_t first_missing = no_index;
  T min = 0, max = 0;  ///< of the values that are not missing; undefined without an index
  std::int64_t min_index = no_index, max_index = no_index;
};

template <class T>
using PartialOf = Partial<Extreme<T>>;

/// The sums of deviations of values from about their mean, and of their squares.
struct Squares {
  double squares = 0, deviations = 0;

  constexpr void add(double deviation) {
    squares += deviation * deviation;
    deviations += deviation;
  }
  constexpr Squares operator+(const Squares& other) const {
    return {squares + other.squares, deviations + other.deviations};
  }
  /// The sum of squared deviations from the mean of `count` values.
  constexpr double about_mean(std::int64_t count) const {
    const double m2 = squares - deviations * (deviations / static_cast<double>(count));
    return m2 < 0 ? 0 : m2;  // by rounding; NaN stays
  }
};

/// Sets m2 and the residual of two ranges, the counts and sums of which are set. m2 follows Chan,
/// Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
/// (1979). The residuals correct the rounded means: without them, m2 would be wrong if deviations
/// are as small as these roundings.
template <class T>
constexpr void combine_squares(const Partial<T>& left, const Partial<T>& right, Partial<T>& both) {
  const auto n_left = static_cast<double>(left.count);
  const auto n_right = static_cast<double>(right.count);
  const Mean<T> left_mean = mean_of<T>(left.sum, left.count);
  const Mean<T> right_mean = mean_of<T>(right.sum, right.count);
  const Mean<T> mean = mean_of<T>(both.sum, both.count);
  const double delta = difference(right_mean, left_mean);
  const double correction = right.residual / n_right - left.residual / n_left;
  const double weight = n_left * (n_right / (n_left + n_right));
  both.m2 = ((left.m2 + right.m2) + (delta * delta) * weight) +
            (2 * delta + correction) * correction * weight;
  if (both.m2 < 0) both.m2 = 0;  // by rounding
  both.residual = (n_left * difference(left_mean, mean) + left.residual) +
                  (n_right * difference(right_mean, mean) + right.residual);
}

/// The statistics of two neighbouring ranges, `left` before `right`. Equal extremes keep the lowest
/// index.
template <class T>
constexpr Partial<T> combine(const Partial<T>& left, const Partial<T>& right) {
  Partial<T> both;
  both.count = left.count + right.count;
  both.missing = left.missing + right.missing;
  both.first_missing = left.first_missing != no_index ? left.first_missing : right.first_missing;
  both.sum = left.sum + right.sum;
  if (left.count == 0) {
    both.m2 = right.m2;
    both.residual = right.residual;
  } else if (right.count == 0) {
    both.m2 = left.m2;
    both.residual = left.residual;
  } else if (left.m2 == no_m2 || right.m2 == no_m2) {
    both.m2 = no_m2;  // avoids the divisions
  } else {
    combine_squares(left, right, both);
  }
  const bool right_min = right.min_index != no_index &&
                         (left.min_index == no_index || order_key(right.min) < order_key(left.min));
  both.min = right_min ? right.min : left.min;
  both.min_index = right_min ? right.min_index : left.min_index;
  const bool right_max = right.max_index != no_index &&
                         (left.max_index == no_index || order_key(left.max) < order_key(right.max));
  both.max = right_max ? right.max : left.max;
  both.max_index = right_max ? right.max_index : left.max_index;
  return both;
}

}  // namespace shardstream::reduce
