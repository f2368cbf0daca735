// The group "host link": how data gets to the GPU and back, and to other GPUs.
#pragma once

#include <string>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::link {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// In files of the same names; only in a build with CUDA.
Table transfer(Bench& bench);
Table batching(Bench& bench);
Table zero_copy(Bench& bench);
Table overlap(Bench& bench);
Table peer(Bench& bench);
Table allocation(Bench& bench);
Table timers(Bench& bench);

/// A remark: `rate` in GB/s as a share of what this rank's PCIe link carries each way at its best.
std::string share_of_link(const Bench& bench, double rate);
/// GB/s each way of all NVLinks of this rank's GPU; NaN if it has none or they are unknown.
double nvlink_rate(const Bench& bench);
/// A remark on a rate in GB/s.
std::string share_of_nvlink(const Bench& bench, double rate);

}  // namespace shardstream::experiments::link
