// Speed-ups by the laws for a given serial share, without any measurement.
#pragma once

#include <span>
#include <vector>

namespace shardstream::study {

struct PredictedSize {
  int ranks = 0;
  double amdahl = 0;     ///< speed-up 1 / (s + (1-s)/p); at most 1/s
  double gustafson = 0;  ///< scaled speed-up p - s (p-1)
};

/// `serial` is s for Amdahl, a share of the run on one rank, and s' for Gustafson, a share of the
/// parallel run. Throws UsageError if it is not in 0..1 or if a number of ranks is below 1.
std::vector<PredictedSize> predict(double serial, std::span<const int> ranks);

}  // namespace shardstream::study
