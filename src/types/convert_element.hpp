// The conversion of one stored element, for both backends.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "types/missing.hpp"
#include "types/stored.hpp"

namespace shardstream::conversion {

/// The stored type as a number: float for Half.
template <class S>
using Number = std::conditional_t<std::is_same_v<S, Half>, float, S>;

template <class S>
constexpr Number<S> number(S stored) {
  return stored;
}
/// Exact. The bias of the exponent is 15 in f16 and 127 in f32. A subnormal f16 has the exponent of
/// the smallest normal ones, but no leading 1, so 2^-14 is subtracted. Without branches, which
/// compilers do not vectorise, and without subnormal f32, which are slow.
constexpr float number(Half stored) {
  constexpr std::uint32_t ones = 0x7c00u << 13, unit = 1u << 23, bias = 127 - 15;
  const std::uint32_t sign = (stored.bits & 0x8000u) << 16, rest = (stored.bits & 0x7fffu) << 13;
  const std::uint32_t is_subnormal = (rest & ones) == 0, is_special = (rest & ones) == ones;
  const std::uint32_t exponent = (1 + is_special) * bias + is_subnormal;
  const float magnitude = std::bit_cast<float>(rest + exponent * unit) -
                          std::bit_cast<float>(is_subnormal * (bias + 1) * unit);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// The stored value with these bits.
template <class S>
constexpr Number<S> number_of_bits(std::uint64_t bits) {
  if constexpr (std::is_same_v<S, Half>) {
    return number(Half{static_cast<std::uint16_t>(bits)});
  } else if constexpr (std::is_same_v<S, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::is_same_v<S, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<S>(bits);
  }
}

/// An unsigned word of the size of S.
template <class S>
using Word = std::conditional_t<
    sizeof(S) == 1, std::uint8_t,
    std::conditional_t<sizeof(S) == 2, std::uint16_t,
                       std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t>>>;

/// A word with its bytes reversed.
template <class W>
constexpr W reversed(W word) {
  W result = 0;
  for (unsigned i = 0; i < sizeof(W); ++i) {
    result = static_cast<W>(result << 8 % (8 * sizeof(W)) | ((word >> 8 * i) & 0xff));
  }
  return result;
}

/// Whether the stored number `x` of type S is missing.
template <class S>
constexpr bool is_missing(const MissingValues& missing, Number<S> x) {
  bool result = (missing.has_min && x < number_of_bits<S>(missing.min)) ||
                (missing.has_max && x > number_of_bits<S>(missing.max));
  for (unsigned i = 0; i < missing.count; ++i) {
    result = result || x == number_of_bits<S>(missing.value[i]);
  }
  if constexpr (std::floating_point<Number<S>>) result = result || (missing.nan && x != x);
  return result;
}

/// The element with the bits of Conversion::missing_element; a float is missing_nan().
template <class T>
constexpr T missing_element(const Conversion& conversion) {
  if constexpr (std::floating_point<T>) {
    return missing_nan<T>();
  } else {
    return static_cast<T>(conversion.missing_element);
  }
}

/// stored * scale + offset, with the roundings that Unpacking states.
template <class N>
constexpr double unpacked(N stored, const Unpacking& how) {
  auto value = static_cast<double>(stored);
  if (how.multiplies) {
    value = how.product_is_f32 ? static_cast<float>(stored) * static_cast<float>(how.scale)
                               : value * how.scale;
  }
  if (how.adds) {
    value = how.sum_is_f32 ? static_cast<float>(value) + static_cast<float>(how.offset)
                           : value + how.offset;
  }
  return value;
}

/// Whether every S fits T, if nothing is unpacked. Integers may be rounded to floats.
template <class S, class T>
constexpr bool always_fits() {
  using N = Number<S>;
  if constexpr (std::floating_point<T>) {
    return std::integral<N> || sizeof(N) <= sizeof(T);
  } else if constexpr (std::floating_point<N>) {
    return false;
  } else {
    return (std::is_unsigned_v<N> || std::is_signed_v<T>)&&std::numeric_limits<N>::digits <=
           std::numeric_limits<T>::digits;
  }
}

}  // namespace shardstream::conversion
