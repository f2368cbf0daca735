// The group "host link": transfers between host and GPU, and between GPUs.
#pragma once

#include <string>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::link {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// Each is defined in the file of its name, only in a build with CUDA.
Table transfer(Bench& bench);
Table batching(Bench& bench);
Table zero_copy(Bench& bench);
Table overlap(Bench& bench);
Table peer(Bench& bench);
Table allocation(Bench& bench);
Table timers(Bench& bench);

/// A remark: the share of `rate`, in GB/s, in the theoretical rate of this rank's PCIe link.
std::string share_of_link(const Bench& bench, double rate);
/// The theoretical rate of all NVLinks of this rank's GPU in one direction, in GB/s; NaN if it has
/// none or they are unknown.
double nvlink_rate(const Bench& bench);
/// A remark: the share of `rate`, in GB/s, in nvlink_rate().
std::string share_of_nvlink(const Bench& bench, double rate);

}  // namespace shardstream::experiments::link
