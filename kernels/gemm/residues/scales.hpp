// Scales of rows of A and columns of B (lines), and the numbers that result from integers. All
// functions give the same bits on hosts and GPUs: norms are sums of integers, whose order does not
// matter, and the other steps are single operations that are rounded correctly.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/gemm/residues/basis.hpp"

namespace shardstream::gemm {

/// Exponents of lines without integers.
inline constexpr std::int32_t has_nan = INT32_MAX, has_infinity = INT32_MAX - 1;

namespace detail {

/// 2^exponent for a normal number.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// 2^exponent as the product of two factors, since it may be beyond the range of doubles.
struct Power {
  double first, second;
  constexpr explicit Power(int exponent)
      : first(power_of_two(exponent > 1000    ? 1000
                           : exponent < -1000 ? -1000
                                              : exponent)),
        second(power_of_two(exponent > 1000    ? exponent - 1000
                            : exponent < -1000 ? exponent + 1000
                                               : 0)) {}
};

constexpr double scaled(double x, const Power& power) {
  return x * power.first * power.second;
}

/// The bits of |x|. They have the order of the magnitudes; NaNs are larger than infinity.
constexpr std::uint64_t magnitude_bits(double x) {
  return std::bit_cast<std::uint64_t>(x) & 0x7fff'ffff'ffff'ffff;
}
inline constexpr std::uint64_t infinite_bits = std::uint64_t{0x7ff} << 52;

/// The number of bits of x without leading zeros. nvcc replaces
/// std::bit_width() by a constant (reduce/tree.hpp).
constexpr int bits_of(std::uint64_t x) {
#ifdef __CUDA_ARCH__
  return 64 - __clzll(static_cast<long long>(x));
#else
  return static_cast<int>(std::bit_width(x));
#endif
}

/// The smallest e with |x| < 2^e, for the bits of a positive finite |x|.
constexpr int exponent_above(std::uint64_t magnitude) {
  constexpr int smallest = -1074;
  if (magnitude >> 52 == 0) return smallest + bits_of(magnitude);
  return static_cast<int>(magnitude >> 52) - 1022;
}

inline constexpr int norm_bits = 24;

/// The square of an element for the norm of a line whose elements are below 2^norm_bits / `power`.
/// The element is rounded up to an integer, or to the next one.
constexpr std::uint64_t norm_square(double x, const Power& power) {
  const double magnitude = scaled(x < 0 ? -x : x, power);
  const std::uint64_t integer = static_cast<std::uint64_t>(magnitude) + 1;
  return integer * integer;
}

/// The power of two that multiplies a line.
struct LineScale {
  std::int32_t exponent;
  /// |line - rounded line| / |line| is at most this, times the maximum difference of an element to
  /// its integer.
  double error;
};

/// The largest scale for which the line's scaled norm is at most `max_norm` (max_scaled_norm()).
/// `largest`: the bits of its largest magnitude, finite and not 0. `norm`: the root of the sum of
/// norm_square(), with the power norm_bits - exponent_above(largest). `root`: that of the number of
/// elements.
constexpr LineScale line_scale(std::uint64_t largest, double norm, double root, double max_norm) {
  const int shift = exponent_above(std::bit_cast<std::uint64_t>(max_norm / norm)) - 1;
  return {shift + norm_bits - exponent_above(largest), root / (norm - root) / power_of_two(shift)};
}

/// The residue of v, |v| < 2^28, from 0 to 2 p.
constexpr std::uint32_t nonnegative_residue(std::int32_t v, const Modulus& m) {
  const auto quotient =
      static_cast<std::int32_t>((static_cast<std::int64_t>(v) * m.reciprocal) >> 32);
  const std::int32_t residue = v - m.p * quotient;  // from -p to 2 p
  return static_cast<std::uint32_t>(residue < 0 ? residue + m.p : residue);
}

/// The integer X, |X| < P / 2 (1 - 2^-10), whose residues were added one by one. `Word` is unsigned
/// and has more bits than P: UInt128, or std::uint64_t for a narrow basis.
template <class Word>
struct IntegerSum {
  Word sum = 0;
  std::uint64_t multiples = 0;  ///< 2^32 / P times the sum

  constexpr void add(std::int32_t v, const Modulus& m) {
    const std::uint32_t residue = nonnegative_residue(v, m);
    sum += static_cast<Word>(m.multiple) * residue;
    multiples += std::uint64_t{m.fraction} * residue;
  }
  /// X in two's complement.
  constexpr Word integer(const Basis& basis) const {
    const std::uint64_t quotient = (multiples + (std::uint64_t{1} << 31)) >> 32;
    return sum - static_cast<Word>(basis.product) * quotient;
  }
};

/// The number closest to top 2^exponent, ties to even. `top` is not 0.
template <class T>
constexpr T nearest(std::uint64_t top, int exponent) {
  constexpr bool is_double = std::is_same_v<T, double>;
  constexpr int min_normal = is_double ? -1022 : -126, smallest = is_double ? -1074 : -149;
  const int msb = exponent + bits_of(top) - 1;
  if (msb >= min_normal) {
    // The conversion rounds; the rest is exact or overflows.
    const Power power(exponent < 1100 ? exponent : 1100);  // infinite from 1024 on
    return static_cast<T>(scaled(static_cast<double>(static_cast<T>(top)), power));
  }
  // The result is a multiple of the smallest positive number.
  const int drop = smallest - exponent;
  if (drop <= 0) return static_cast<T>(scaled(static_cast<double>(top), Power(exponent)));
  if (drop > 64) return 0;
  const std::uint64_t kept = drop == 64 ? 0 : top >> drop;
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t rest = top & (half | (half - 1));
  const bool up = rest > half || (rest == half && kept % 2 == 1);
  return static_cast<T>(scaled(static_cast<double>(kept + (up ? 1 : 0)), Power(smallest)));
}

/// The number of type T closest to X 2^exponent, X in two's complement.
template <class T, class Word>
constexpr T rounded_integer(Word x, int exponent) {
  const bool negative = (x >> (8 * sizeof(Word) - 1)) != 0;
  Word magnitude = negative ? Word{0} - x : x;
  if (magnitude == 0) return 0;
  std::uint64_t top = static_cast<std::uint64_t>(magnitude);
  if constexpr (sizeof(Word) > sizeof(top)) {
    const auto high = static_cast<std::uint64_t>(magnitude >> 64);
    if (high != 0) {
      const int shift = bits_of(high);  // bits that do not fit into `top`
      const bool lost = (magnitude & ((Word{1} << shift) - 1)) != 0;
      top = static_cast<std::uint64_t>(magnitude >> shift) | (lost ? 1 : 0);  // a sticky bit
      exponent += shift;
    }
  }
  const T result = nearest<T>(top, exponent);
  return negative ? -result : result;
}

}  // namespace detail

}  // namespace shardstream::gemm
