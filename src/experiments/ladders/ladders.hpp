// The group "ladders": one computation, from a naive kernel to the best one, step by step.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::ladders {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// Each is defined in the file of its name, only in a build with CUDA.
Table reduction(Bench& bench);
Table reduction_order(Bench& bench);

/// The sum of unit_number() over the first `count` indices, in doubles.
double reference_sum(std::uint64_t count);
/// The part of `reduction` that needs no GPU: the sum by the host reference.
Table reduction_on_host(Bench& bench);
/// The part of `reduction-order` that needs no GPU: leaves on CPUs.
Table reduction_order_on_host(Bench& bench);

}  // namespace shardstream::experiments::ladders
