// The launcher of moments.cu: it enqueues its kernel and does not wait.
#pragma once

#include "kernels/gemm/moments.hpp"

namespace shardstream::gemm::cuda {

void moments(const MomentsArgs& args, CudaStream stream);

}  // namespace shardstream::gemm::cuda
