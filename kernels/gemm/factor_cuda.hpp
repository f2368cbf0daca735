// The launchers of factor.cu: each enqueues its kernels and does not wait.
#pragma once

#include "kernels/gemm/factor.hpp"

namespace shardstream::gemm::cuda {

void split(const SplitArgs& args, CudaStream stream);
void add(const AddArgs& args, CudaStream stream);

}  // namespace shardstream::gemm::cuda
