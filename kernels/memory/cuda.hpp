// The launchers of memory.cu: each enqueues its kernel and does not wait.
#pragma once

#include "kernels/memory/memory.hpp"

namespace shardstream::memory::cuda {

void read(const ReadArgs& args, CudaStream stream);
void copy(const CopyArgs& args, CudaStream stream);

}  // namespace shardstream::memory::cuda
