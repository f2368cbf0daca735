// The causes that limit a run: efficiencies whose product is exactly the total efficiency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "study/statistics/estimate.hpp"

namespace shardstream::study {

/// The parallel efficiency of ranks with U_i seconds of useful time in the wall time T, as in the
/// POP methodology (https://pop-coe.eu): mean U / T = (mean U / max U) (max U / T).
struct Causes {
  double balance = 0;  ///< mean U / max U: 1 if all ranks have the same useful time
  double busy = 0;  ///< max U / T: the share of the wall time in which the busiest rank is useful
  double total() const { return balance * busy; }
};

/// No value without ranks, without useful time, or if the wall time is not positive.
Result<Causes> find_causes(std::span<const double> useful, double wall);

/// The same for devices, with K_i seconds in kernels and A_i seconds in any activity (kernels,
/// copies or collectives): mean K / T = (mean K / max K) (max K / max A) (max A / T).
struct DeviceCauses {
  double balance = 0;  ///< mean K / max K
  double overlap = 0;  ///< max K / max A: low if copies do not overlap with kernels
  double active = 0;   ///< max A / T: low if the device waits for the host
  double total() const { return balance * overlap * active; }
};

/// `kernels` and `active` have one entry per device. No value in the same cases as find_causes().
Result<DeviceCauses> find_device_causes(std::span<const double> kernels,
                                        std::span<const double> active, double wall);

/// The overlap of the stages of a pipeline: (sum B - T) / (sum B - max B) for stages that are busy
/// for B_j seconds of the wall time T. 1: the run takes as long as its longest stage; 0: the stages
/// work one after another. No value with fewer than two stages that have work.
Result<double> find_overlap(std::span<const double> busy, double wall);

/// Nanoseconds from `begin` to `end`.
struct TimeSpan {
  std::int64_t begin = 0, end = 0;
};

/// The time in which at least one of the spans is open, in seconds.
double union_of(std::vector<TimeSpan> spans);

}  // namespace shardstream::study
