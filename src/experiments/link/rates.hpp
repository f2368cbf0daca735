// The theoretical rates of a GPU's links, as remarks of experiments.
#pragma once

#include <string>

#include "experiments/bench.hpp"

namespace shardstream::experiments::link {

/// A remark: the share of `rate`, in GB/s, in the theoretical rate of this rank's PCIe link.
std::string share_of_link(const Bench& bench, double rate);
/// The theoretical rate of all NVLinks of this rank's GPU in one direction, in GB/s; NaN if it has
/// none or they are unknown.
double nvlink_rate(const Bench& bench);
/// A remark: the share of `rate`, in GB/s, in nvlink_rate().
std::string share_of_nvlink(const Bench& bench, double rate);

}  // namespace shardstream::experiments::link
