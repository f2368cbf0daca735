// The group "device memory": the cost of access patterns.
#pragma once

#include <string>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::memory {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// Each is defined in the file of its name, only in a build with CUDA.
Table bandwidth(Bench& bench);
Table offset(Bench& bench);
Table stride(Bench& bench);
Table alignment(Bench& bench);
Table latency(Bench& bench);
Table cache(Bench& bench);
Table l2_window(Bench& bench);
Table async_copy(Bench& bench);
Table banks(Bench& bench);
Table texture(Bench& bench);
Table constant(Bench& bench);
Table spills(Bench& bench);

/// The part of `bandwidth` that needs no GPU: the theoretical rate of a given memory.
Table theoretical_bandwidth(Bench& bench);

/// The rate in GB/s of a memory that moves data twice per cycle, with `clock` in MHz and a bus of
/// `width` bits (CUDA C++ Best Practices Guide, section Theoretical Bandwidth Calculation).
double theoretical_rate(double clock, double width);
/// The same for bandwidth.clock and bandwidth.width. If they are auto: for the memory clock of this
/// rank's GPU and `own_width`. NaN if one of them is unknown.
double theoretical_rate(const Bench& bench, double own_width);
/// A remark: the share of `rate` in `theoretical`, both in GB/s.
std::string share_of_theoretical(double rate, double theoretical);

}  // namespace shardstream::experiments::memory
