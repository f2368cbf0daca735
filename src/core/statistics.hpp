// Order statistics of repeated measurements.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace shardstream {

/// The minimum number of samples for a 95 % interval of the median.
inline constexpr std::size_t min_samples_of_interval = 6;

struct Summary {
  std::size_t n = 0;
  double median = 0;
  /// An interval that contains the true median with a probability of at least 95 %, for any
  /// distribution: the order statistics x(l) and x(n-l+1) with the largest l for which
  /// 1 - 2 P[Bin(n, 1/2) <= l-1] >= 0.95. NaN for fewer than min_samples_of_interval samples.
  double ci_lo = 0, ci_hi = 0;
  double min = 0, q1 = 0, q3 = 0, max = 0;  ///< quartiles by linear interpolation
};

/// Throws ContractError without any sample.
Summary summarize(std::vector<double> samples);

/// The median of the finite values; NaN if there are none.
double median(std::vector<double> values);

/// The lag-1 autocorrelation, from -1 to 1, which tells how much each sample resembles the previous
/// one: r = sum (x[i] - m) (x[i+1] - m) / sum (x[i] - m)^2 with the mean m (Box, Jenkins, Reinsel
/// and Ljung, Time Series Analysis, 5th edition, section 2.1.5). For independent samples, r is
/// within +-2 / sqrt(n) with a probability of 95 %. NaN for fewer than three samples or if all are
/// equal.
double autocorrelation(std::span<const double> samples);

}  // namespace shardstream
