// Division by a number that is known before many divisions, by a multiplication and a shift.
#pragma once

#include <bit>
#include <cstdint>

namespace shardstream::experiments::instructions {

/// A divisor of 2 to 2^31, for dividends below 2^31. The quotient is exact: with s the smallest
/// exponent so that 2^s is at least the divisor d, it is floor(x m / 2^(31 + s)) for
/// m = ceil(2^(31 + s) / d), which has 32 bits (Granlund and Montgomery, "Division by invariant
/// integers using multiplication", 1994).
class Divisor {
 public:
  constexpr explicit Divisor(std::uint32_t d)
      : d_(d),
        shift_(static_cast<std::uint32_t>(std::bit_width(d - 1)) - 1),
        multiplier_(static_cast<std::uint32_t>(((std::uint64_t{1} << (32 + shift_)) + d - 1) / d)) {
  }

  constexpr std::uint32_t quotient(std::uint32_t x) const {
    return static_cast<std::uint32_t>((std::uint64_t{x} * multiplier_) >> 32) >> shift_;
  }
  constexpr std::uint32_t remainder(std::uint32_t x) const { return x - quotient(x) * d_; }

 private:
  std::uint32_t d_, shift_, multiplier_;  ///< shift_ is s - 1
};

}  // namespace shardstream::experiments::instructions
