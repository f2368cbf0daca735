// The definitions of a quantile, with the names that numpy.quantile uses for its methods.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace shardstream::workloads {

/// The choices of reduce.quantile-method, separated by |.
inline constexpr std::string_view quantile_methods =
    "inverted_cdf|averaged_inverted_cdf|closest_observation|interpolated_inverted_cdf|hazen|"
    "weibull|linear|median_unbiased|normal_unbiased|lower|higher|midpoint|nearest";

/// The value of a quantile between two order statistics, with their 0-based ranks. If both ranks
/// are equal, it is an element.
struct QuantilePosition {
  std::uint64_t lower, upper;
  double weight = 0;  ///< of `upper`

  bool operator==(const QuantilePosition&) const = default;
};

/// The place of quantile q of `count` >= 1 values. The definitions are those of Hyndman and Fan,
/// "Sample quantiles in statistical packages", The American Statistician 50 (1996), and four more;
/// the arithmetic is numpy's.
QuantilePosition place_of(std::string_view method, std::uint64_t count, double q);

/// Interpolates like numpy, except that integers do not overflow and that infinities do not make
/// the result NaN: it is infinite, unless the elements are -infinity and infinity.
template <class T>
double interpolate(T a, T b, double weight) {
  double difference = 0;
  if constexpr (std::integral<T>) {
    // Not negative, so it fits the unsigned type.
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::int64_t>;
    difference = static_cast<double>(static_cast<Wide>(b) - static_cast<Wide>(a));
  } else {
    if (a == b) return static_cast<double>(a);
    if (std::isinf(a) || std::isinf(b)) return static_cast<double>(a) + static_cast<double>(b);
    difference = static_cast<double>(b) - static_cast<double>(a);
  }
  if (weight >= 0.5) return static_cast<double>(b) - difference * (1 - weight);
  return static_cast<double>(a) + difference * weight;
}

}  // namespace shardstream::workloads
