// What multiply.cu makes.
#pragma once

#include "kernels/gemm/multiply.hpp"

namespace shardstream::gemm::cuda {

/// make_multiply_plan() for the calling thread's GPU.
std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile);

/// Enqueues the plan's calls and does not wait.
void multiply(const MultiplyArgs& args, CudaStream stream);

}  // namespace shardstream::gemm::cuda
