// The group "device memory": what each access pattern costs.
#pragma once

#include <string>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::memory {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// In files of the same names; only in a build with CUDA.
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

/// GB/s of a memory with a clock in MHz that moves data twice a cycle, and a bus of `width` bits
/// (CUDA C++ Best Practices Guide, section Theoretical Bandwidth Calculation).
double theoretical_rate(double clock, double width);
/// The same for the options of `bandwidth`; where they are auto, for this rank's GPU with
/// `own_width`. NaN if the clock or the width is unknown.
double theoretical_rate(const Bench& bench, double own_width);
/// A remark on a rate in GB/s.
std::string share_of_theoretical(double rate, double theoretical);

}  // namespace shardstream::experiments::memory
