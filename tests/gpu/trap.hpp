// A kernel that ends its GPU's context.
#pragma once

#include "kernels/kernel.hpp"

namespace shardstream::test {

struct TrapArgs {};

/// As a fault of the hardware would: every later call returns cudaErrorLaunchFailure.
void trap(const TrapArgs& args, CudaStream stream);

}  // namespace shardstream::test
