// The kernels of the ladder `matmul`, for the experiment and its test.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <span>

#include "experiments/ladders/products.hpp"

namespace shardstream::experiments::ladders {

/// C = A B with k = 32, alpha = 1 and beta = 0: the case of the Best Practices Guide.
std::span<const ProductKernel<float>> narrow_kernels();

/// On CUDA cores.
std::span<const ProductKernel<float>> core_kernels();

/// The edges of products must be multiples of this number, except for narrow_kernels().
inline constexpr unsigned matmul_granule = 256;

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
