#include "experiments/instructions/math_reference.hpp"

#include <cmath>
#include <numbers>

namespace shardstream::experiments::instructions {
namespace {

constexpr auto pi = std::numbers::pi_v<long double>;

/// sin(pi x) with a small relative error: the reductions are exact.
long double sine_pi(long double x) {
  long double r = std::remainder(x, 2.0L);  // in [-1, 1]
  if (r > 0.5L) r = 1 - r;
  if (r < -0.5L) r = -1 - r;
  return std::abs(r) <= 0.25L ? std::sin(pi * r)
                              : std::copysign(std::cos(pi * (0.5L - std::abs(r))), r);
}
long double cosine_pi(long double x) {
  const long double r = std::abs(std::remainder(x, 2.0L));  // in [0, 1]
  return r <= 0.25L ? std::cos(pi * r) : sine_pi(0.5L - r);
}

}  // namespace

long double exact_on_host(Exact function, long double p, float of_x, float of_y) {
  const long double x = of_x, y = of_y;
  switch (function) {
    case Exact::sine:
      return std::sin(x);
    case Exact::cosine:
      return std::cos(x);
    case Exact::tangent:
      return std::tan(x);
    case Exact::sine_pi:
      return sine_pi(x);
    case Exact::cosine_pi:
      return cosine_pi(x);
    case Exact::sine_degrees:
      return sine_pi(x / 180);
    case Exact::exponential:
      return std::exp(x);
    case Exact::exponential_2:
      return std::exp2(x);
    case Exact::exponential_10:
      return std::pow(10.0L, x);
    case Exact::logarithm:
      return std::log(x);
    case Exact::logarithm_2:
      return std::log2(x);
    case Exact::logarithm_10:
      return std::log10(x);
    case Exact::complement:
      return std::erfc(x);
    case Exact::power:
      return std::pow(x, p);
    case Exact::quotient:
      return y / x;
    case Exact::third:
      return x / 3;
    case Exact::line:
      return 1.1L * x + 0.3L;
  }
  return std::nanl("");
}

}  // namespace shardstream::experiments::instructions
