// The numbers of statistics: sums, extremes, and integers with the order of values. All backends
// use these functions, so the bits are the same.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardstream::cells {

__extension__ using Int128 = __int128;

/// The type of a sum: integers are added exactly in 128 bits, floats in double.
template <class T>
using Sum = std::conditional_t<std::integral<T>, Int128, double>;

/// The type of minimum and maximum, which holds every value of T exactly: double, std::int64_t or
/// std::uint64_t.
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

/// Whether double cannot hold every value of T.
template <class T>
inline constexpr bool exceeds_double = std::integral<T> && sizeof(T) == 8;

/// The differences of the upper and of the lower 32 bits of integers of 64 bits. Processors convert
/// signed integers of 32 bits fast. Others become them by a change of a bit, which does not change
/// their differences.
template <class T>
constexpr double upper_difference(T x, T y) {
  constexpr std::uint32_t changed = std::uint32_t{!std::is_signed_v<T>} << 31;
  const auto upper = [](T z) {
    return static_cast<double>(
        static_cast<std::int32_t>(static_cast<std::uint32_t>(z >> 32) ^ changed));
  };
  return upper(x) - upper(y);
}
template <class T>
constexpr double lower_difference(T x, T y) {
  const auto lower = [](T z) {
    return static_cast<double>(
        static_cast<std::int32_t>(static_cast<std::uint32_t>(z) ^ (std::uint32_t{1} << 31)));
  };
  return lower(x) - lower(y);
}

/// x - shift, rounded once. `shift` is a value of T. Integers of 64 bits are subtracted as two
/// halves of 32 bits, since the difference may need 65.
template <class T>
constexpr double shifted(T x, Extreme<T> shift) {
  if constexpr (exceeds_double<T>) {
    return upper_difference(x, shift) * 0x1p32 + lower_difference(x, shift);
  } else if constexpr (std::integral<T>) {
    // Hosts convert integers of 32 bits with vector instructions, but not those of 64.
    return static_cast<double>(x) - static_cast<double>(static_cast<std::int32_t>(shift));
  } else {
    return static_cast<double>(x) - static_cast<double>(shift);
  }
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

}  // namespace shardstream::cells
