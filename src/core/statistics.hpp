// Order statistics of repeated measurements.
#pragma once

#include <cstddef>
#include <vector>

namespace shardstream {

struct Summary {
  std::size_t n = 0;
  double median = 0;
  /// An interval that holds the true median with at least 95 %, whatever the distribution: the
  /// order statistics x(l) and x(n-l+1) with the largest l for which 1 - 2 P[Bin(n, 1/2) <= l-1]
  /// >= 0.95. NaN for fewer than six samples.
  double ci_lo = 0, ci_hi = 0;
  double min = 0, q1 = 0, q3 = 0, max = 0;  ///< quartiles by linear interpolation
};

/// Of one sample or more.
Summary summarize(std::vector<double> samples);

}  // namespace shardstream
