// The functions of the experiment `math`, with far more digits than floats: double on a GPU, long
// double on the host.
#pragma once

#include <cstdint>

#include "experiments/instructions/ulp.hpp"
#include "experiments/numbers.hpp"

namespace shardstream::experiments::instructions {

/// A function of x. Some have a second argument y.
enum class Exact : std::uint8_t {
  sine,
  cosine,
  tangent,
  sine_pi,       ///< sin(pi x)
  cosine_pi,     ///< cos(pi x)
  sine_degrees,  ///< sin(pi x / 180)
  exponential,
  exponential_2,   ///< 2^x
  exponential_10,  ///< 10^x
  logarithm,
  logarithm_2,
  logarithm_10,
  complement,  ///< erfc(x)
  power,       ///< x^p for a constant p
  quotient,    ///< y / x
  third,       ///< x / 3
  line         ///< 1.1 x + 0.3
};

/// The second argument of a function.
enum class Second : std::uint8_t {
  fixed,  ///< a constant
  varied  ///< a number in [1, 2) that depends on x
};

/// Arguments of a function: every `step`-th float from the place `first` on.
struct Arguments {
  std::uint32_t first = 0, step = 1;
  std::uint64_t count = 0;
  Second second = Second::fixed;
  float fixed = 0;

  constexpr float x(std::uint64_t i) const {
    return float_at(static_cast<std::uint32_t>(first + i * step));
  }
  constexpr float y(std::uint64_t i) const {
    return second == Second::fixed ? fixed : 1 + unit_number(first + i * step);
  }
};

/// All floats from `from` to `to`, with `step`.
constexpr Arguments arguments_between(float from, float to, std::uint32_t step) {
  const std::uint32_t first = place_of(from);
  return {first, step, (std::uint64_t{place_of(to)} - first) / step + 1};
}
/// `count` of them or fewer, at equal distances.
constexpr Arguments sample_of(const Arguments& all, std::uint64_t count) {
  Arguments some = all;
  const std::uint64_t stride = (all.count + count - 1) / count;
  some.step = static_cast<std::uint32_t>(all.step * stride);
  some.count = (all.count + stride - 1) / stride;
  return some;
}

/// The exact value, with the precision of long double. `p` is the exponent of Exact::power.
long double exact_on_host(Exact function, long double p, float x, float y);

}  // namespace shardstream::experiments::instructions
