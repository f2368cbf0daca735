// A kernel that ends its GPU's context.
#pragma once

#include "kernels/kernel.hpp"

namespace shardstream::test {

struct TrapArgs {};

/// As a fault of the hardware would: every later call returns cudaErrorLaunchFailure.
void trap(const TrapArgs& args, CudaStream stream);
/// The kernel of trap(), for tests that change attributes of a kernel and do not launch it.
const void* trap_kernel();

}  // namespace shardstream::test
