// Floats in their order, and errors in units in the last place (ulp). For hosts and GPUs.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shardstream::experiments::instructions {

inline constexpr float min_normal = std::numeric_limits<float>::min();  // 2^-126

/// The place of `x` in the order of all floats: neighbours differ by 1. -0 comes before 0.
constexpr std::uint32_t place_of(float x) {
  constexpr std::uint32_t sign = 0x80000000U;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & sign) != 0 ? ~bits : bits | sign;
}
/// The float at `place`.
constexpr float float_at(std::uint32_t place) {
  constexpr std::uint32_t sign = 0x80000000U;
  return std::bit_cast<float>((place & sign) != 0 ? place & ~sign : ~place);
}

/// Whether `x` is not 0, but too small for a normal float.
constexpr bool is_subnormal(double x) {
  return x != 0 && x < double{min_normal} && x > -double{min_normal};
}

/// The distance of `result` from the exact value, in ulp: the distance of two floats in the binade
/// of `exact`, and 2^-149 below 2^-126. A correctly rounded result has at most 0.5. Infinite if
/// `result` is not finite; 0 if `exact` is NaN or rounds to an infinite float, since then there is
/// no distance.
constexpr double error_in_ulp(float result, double exact) {
  constexpr double end_of_floats = 0x1.ffffffp127;
  if (!(exact < end_of_floats && exact > -end_of_floats)) return 0;
  constexpr float largest = std::numeric_limits<float>::max();
  if (!(result <= largest && result >= -largest)) return std::numeric_limits<double>::infinity();
  constexpr int bias = 1023, digits = 23, min_exponent = -126;
  const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(exact) >> 52 & 0x7ffU) - bias;
  const int of_ulp = (exponent > min_exponent ? exponent : min_exponent) - digits;
  const auto one_over_ulp = std::bit_cast<double>(static_cast<std::uint64_t>(bias - of_ulp) << 52);
  const double distance = double{result} - exact;
  return (distance < 0 ? -distance : distance) * one_over_ulp;
}

/// The right bits of a result with an error of `ulp`: 24 for a correct rounding, 0 if none is
/// right.
inline double right_bits(double ulp) {
  constexpr double all = 24, half = 0.5;
  return std::clamp(all - std::log2(ulp / half), 0.0, all);
}

}  // namespace shardstream::experiments::instructions
