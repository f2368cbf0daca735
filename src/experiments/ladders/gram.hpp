// The kernels of the ladder `gram`, for the experiment and its test.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <span>

#include "experiments/ladders/products.hpp"

namespace shardstream::experiments::ladders {

/// They compute C = A B, where B is A's transpose: m = n, and only A is read. alpha is 1, beta 0.
std::span<const ProductKernel<float>> gram_kernels();

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
