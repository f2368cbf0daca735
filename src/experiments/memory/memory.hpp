// The group "device memory": what each access pattern costs.
#pragma once

#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::memory {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// In files of the same names; only in a build with CUDA.
Table bandwidth(Bench& bench);
Table stride(Bench& bench);
Table latency(Bench& bench);
Table banks(Bench& bench);
Table l2_window(Bench& bench);

/// The part of `bandwidth` that needs no GPU: the theoretical rate of a given memory.
Table theoretical_bandwidth(Bench& bench);

}  // namespace shardstream::experiments::memory
