// Rounds stored elements to the format of a panel. The host and the GPU use the same integer
// arithmetic, so the bits are the same. NaN becomes the canonical quiet NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {

/// Calls f(std::integral_constant<Format, ...>{}) and returns its value.
template <class F>
decltype(auto) with_format(Format format, F&& f) {
  switch (format) {
    case Format::f64:
      return f(std::integral_constant<Format, Format::f64>{});
    case Format::f32:
      return f(std::integral_constant<Format, Format::f32>{});
    case Format::tf32:
      return f(std::integral_constant<Format, Format::tf32>{});
    case Format::bf16:
      return f(std::integral_constant<Format, Format::bf16>{});
    case Format::fp16:
      return f(std::integral_constant<Format, Format::fp16>{});
    case Format::i8:
      return f(std::integral_constant<Format, Format::i8>{});
  }
  throw std::logic_error("format out of range");
}

namespace detail {

/// Rounds x to odd. If x is representable as a float, the result is x. Otherwise it is the
/// neighbouring float whose last bit is 1. Rounding the result to fewer bits gives the same as
/// rounding x directly, since the last bit neither creates nor hides a tie.
constexpr float odd_float(double x) {
  const auto nearest = static_cast<float>(x);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  // As integers, magnitudes have the order of the values, infinity included.
  const auto magnitude = [](double y) { return std::bit_cast<std::int64_t>(y) & INT64_MAX; };
  const std::int64_t beyond = magnitude(static_cast<double>(nearest)) - magnitude(x);
  const bool is_nan = x != x;
  const auto even =
      static_cast<std::uint32_t>(beyond != 0) & ~bits & 1u & static_cast<std::uint32_t>(!is_nan);
  return std::bit_cast<float>(bits + (beyond < 0 ? even : 0u - even));
}
constexpr float odd_float(float x) {
  return x;
}
constexpr float odd_float(std::uint8_t x) {
  return static_cast<float>(x);
}
constexpr float odd_float(std::int8_t x) {
  return static_cast<float>(x);
}
constexpr float odd_float(std::int32_t x) {
  return odd_float(static_cast<double>(x));
}
/// An integer of more than 53 bits is first shortened, so that its conversion to double is exact:
/// the lowest eleven bits are cleared, and if one of them was set, bit 11 is set.
constexpr double exact_double(std::uint64_t x) {
  const bool marked = (x >> 53) != 0 && (x & 0x7ffu) != 0;
  const std::uint64_t kept = (x >> 53) != 0 ? x & ~std::uint64_t{0x7ff} : x;
  return static_cast<double>(marked ? kept | 0x800u : kept);
}
constexpr float odd_float(std::uint64_t x) {
  return odd_float(exact_double(x));
}
constexpr float odd_float(std::int64_t x) {
  const auto size =
      exact_double(x < 0 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x));
  return odd_float(x < 0 ? -size : size);
}

/// `yes` or `no`, with masks, since compilers do not vectorise conditional floating-point code.
constexpr std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

/// The float with these bits, or the canonical NaN if x is NaN.
constexpr float canonical(float x, std::uint32_t rounded_bits) {
  const bool is_nan = (std::bit_cast<std::uint32_t>(x) & 0x7fffffffu) > 0x7f800000u;
  return std::bit_cast<float>(select(is_nan, 0x7fc00000u, rounded_bits));
}

/// Rounds to 10 fraction bits, ties away from zero, like cvt.rna.tf32.
constexpr float to_tf32(float x) {
  return canonical(x, (std::bit_cast<std::uint32_t>(x) + 0x1000u) & ~0x1fffu);
}

/// Rounds to 7 fraction bits, ties to even.
constexpr float to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return canonical(x, (bits + 0x7fffu + ((bits >> 16) & 1u)) & ~0xffffu);
}

/// Rounds to 10 fraction bits, and to multiples of 2^-24, ties to even. Magnitudes of 65520 and
/// more become infinity.
constexpr float to_fp16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits & 0x80000000u, size = bits & 0x7fffffffu;
  const std::uint32_t normal = (size + 0xfffu + ((size >> 13) & 1u)) & ~0x1fffu;
  // The last bit of a float from 0.5 to 1 is 2^-24, so the addition rounds to it.
  const float shifted = std::bit_cast<float>(size) + 0.5f;
  const auto subnormal = std::bit_cast<std::uint32_t>(shifted - 0.5f);
  const std::uint32_t finite = select(size < 0x38800000u, subnormal, normal);       // 2^-14
  const std::uint32_t rounded = select(finite > 0x477fe000u, 0x7f800000u, finite);  // 65504
  return canonical(x, sign | rounded);
}

/// The tf32 nearest to x, or the largest finite one if x is finite. The remainder is exact.
constexpr float high_part(float x) {
  const auto nearest = std::bit_cast<std::uint32_t>(to_tf32(x));
  const bool is_infinite = (nearest & 0x7fffffffu) == 0x7f800000u;
  return std::bit_cast<float>(
      select(is_infinite, std::bit_cast<std::uint32_t>(x) & ~0x1fffu, nearest));
}
/// The remainder x - high, rounded to tf32.
constexpr float low_part(float x, float high) {
  return to_tf32(x - high);
}

}  // namespace detail

/// Whether rounded<F>(T) is defined: integers are not rounded.
template <Format F, class T>
inline constexpr bool can_round = F != Format::i8 || std::is_same_v<T, std::int8_t>;

/// x rounded once to the format, to nearest. For bf16, fp16 and i8, the result is a float with that
/// value.
template <Format F, class T>
requires(can_round<F, T>) constexpr auto rounded(T x) {
  if constexpr (F == Format::f64) {
    return static_cast<double>(x);
  } else if constexpr (F == Format::f32 || F == Format::i8) {
    return static_cast<float>(x);
  } else if constexpr (F == Format::tf32) {
    return detail::to_tf32(detail::odd_float(x));
  } else if constexpr (F == Format::bf16) {
    return detail::to_bf16(detail::odd_float(x));
  } else {
    return detail::to_fp16(detail::odd_float(x));
  }
}

/// Calls f(std::type_identity<T>{}) with the C++ type of C's elements. Throws std::logic_error for
/// integers, whose sums are not rounded.
template <class F>
void with_rounded_type(Precision precision, F&& f) {
  switch (accumulator_type(precision)) {
    case ElementType::f64:
      return f(std::type_identity<double>{});
    case ElementType::f32:
      return f(std::type_identity<float>{});
    default:
      throw std::logic_error("C of integers is the sums themselves");
  }
}

/// The correlation x without the effect of rounding, as CovarianceArgs describes.
template <class T>
constexpr T correlation(T x, bool on_diagonal) {
  if (x - x != 0) return x;  // not finite
  if (x > 1 || (on_diagonal && x > 0)) return 1;
  return x < -1 ? -1 : x;
}

}  // namespace shardstream::gemm
