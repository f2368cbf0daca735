// A product that neither overflows nor underflows on the way. Both backends use it.
#pragma once

#include <bit>
#include <cstdint>

namespace shardstream::cells {

/// mantissa * 2^exponent, with a mantissa of magnitude [1, 2), or one that is 0, infinite, or NaN.
/// A multiplication rounds the mantissa once, so the product of n numbers has a relative error of
/// at most about n * 2^-53, in any order.
struct ScaledProduct {
  double mantissa = 1;
  std::int64_t exponent = 0;

  [[gnu::always_inline]] constexpr void multiply(const ScaledProduct& by) {
    const ScaledProduct product = split(mantissa * by.mantissa);
    mantissa = product.mantissa;
    exponent += product.exponent + by.exponent;
  }
  [[gnu::always_inline]] constexpr void multiply(double by) { multiply(split(by)); }

  static constexpr ScaledProduct split(double x) {
    constexpr std::int64_t special = 0x7ff, bias = 1023, scale = 64;
    const bool is_small = biased_exponent(x) == 0;  // subnormal, or 0
    const double scaled = is_small ? x * 0x1p64 : x;
    const std::int64_t biased = biased_exponent(scaled);
    if (biased == 0 || biased == special) return {scaled, 0};
    const auto bits = std::bit_cast<std::uint64_t>(scaled);
    constexpr std::uint64_t exponent_bits = std::uint64_t{special} << 52;
    return {std::bit_cast<double>((bits & ~exponent_bits) | std::uint64_t{bias} << 52),
            biased - bias - (is_small ? scale : 0)};
  }

 private:
  static constexpr std::int64_t biased_exponent(double x) {
    return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
  }
};

}  // namespace shardstream::cells
