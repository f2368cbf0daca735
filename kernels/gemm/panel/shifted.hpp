// The values of centred, scaled and weighted variables before they are rounded. The host and the
// GPU use the same arithmetic.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace shardstream::gemm {

/// x - whole modulo 2^64.
constexpr std::int64_t wrapped_difference(std::int64_t x, std::int64_t whole) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) -
                                   static_cast<std::uint64_t>(whole));
}

/// Negative if `wrapped`, the wrapped difference, is not x - whole. Then x and `whole` have
/// different signs, and so have x and `wrapped`.
constexpr std::int64_t wraps(std::int64_t x, std::int64_t whole, std::int64_t wrapped) {
  return (x ^ whole) & (x ^ wrapped);
}

/// x - whole as a double. Doubles hold all integers up to 2^53, so a smaller difference is exact,
/// however large x is. A difference beyond 63 bits is rounded twice.
constexpr double difference(std::int64_t x, std::int64_t whole) {
  const std::int64_t wrapped = wrapped_difference(x, whole);
  const double turn = x < 0 ? -0x1p64 : 0x1p64;
  return static_cast<double>(wrapped) + (wraps(x, whole, wrapped) < 0 ? turn : 0.0);
}

/// x, or NaN if x is infinite. So the sum of the squares of a variable is NaN if one of its values
/// is not finite, and it is infinite if its shift and scale are not suitable.
constexpr double finite_or_nan(double x) {
  constexpr std::uint64_t exponent = 0x7ff0000000000000u;
  const bool is_finite = (std::bit_cast<std::uint64_t>(x) & exponent) != exponent;
  return is_finite ? x : std::numeric_limits<double>::quiet_NaN();
}

/// x * by, but exactly 0 if `by` is 0, even if x is NaN.
constexpr double multiplied(double x, double by) {
  const double product = x * by;
  return by == 0 ? 0 : product;
}

/// Whether 0 < |x| < limit.
constexpr bool vanishes(double x, double limit) {
  const std::uint64_t size = std::bit_cast<std::uint64_t>(x) & ~(std::uint64_t{1} << 63);
  return size - 1 < std::bit_cast<std::uint64_t>(limit) - 1;  // 0 - 1 is the largest number
}

}  // namespace shardstream::gemm
