// Why a run is not faster: efficiencies that multiply to their total exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "study/estimate.hpp"

namespace shardstream::study {

/// The parallel efficiency of ranks that are useful for U_i seconds of the wall time T, as in the
/// POP methodology (https://pop-coe.eu): mean U / max U times max U / T is mean U / T.
struct Causes {
  double balance = 0;  ///< mean U / max U: 1 if all ranks have the same useful time
  double busy = 0;  ///< max U / T: the share of the wall time in which the busiest rank is useful
  double total() const { return balance * busy; }
};

/// No value without ranks, without useful time, or if the wall time is not positive.
Result<Causes> find_causes(std::span<const double> useful, double wall);

/// The same for devices, of which also the time with any activity is known: K_i seconds in kernels,
/// A_i seconds in kernels, copies or collectives. mean K / max K times max K / max A times
/// max A / T is mean K / T.
struct DeviceCauses {
  double balance = 0;  ///< mean K / max K
  double overlap = 0;  ///< max K / max A: low if copies do not overlap with kernels
  double active = 0;   ///< max A / T: low if the device waits for the host
  double total() const { return balance * overlap * active; }
};

/// `kernels` and `active` have an entry a device. No value as for find_causes().
Result<DeviceCauses> find_device_causes(std::span<const double> kernels,
                                        std::span<const double> active, double wall);

/// How well the stages of a pipeline overlap: (sum B - T) / (sum B - max B) for stages that are
/// busy for B_j seconds of the wall time T. 1: the run takes as long as its longest stage;
/// 0: the stages work one after another. No value with fewer than two stages that do anything.
Result<double> find_overlap(std::span<const double> busy, double wall);

/// Nanoseconds from `begin` to `end`.
struct TimeSpan {
  std::int64_t begin = 0, end = 0;
};

/// The time in which at least one of the spans is open, in seconds.
double union_of(std::vector<TimeSpan> spans);

}  // namespace shardstream::study
