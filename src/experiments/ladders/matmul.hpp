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

/// On tensor cores by mma, for compute capability 8.0 and above. The one for floats rounds the
/// elements to tf32.
std::span<const ProductKernel<float>> mma_kernels_for_floats();
std::span<const ProductKernel<bf16>> mma_kernels();

/// On tensor cores by wgmma, for compute capability 9.0 only.
std::span<const ProductKernel<bf16>> wgmma_kernels();

/// The edges of products must be multiples of this number, except for narrow_kernels().
inline constexpr unsigned matmul_granule = 256;

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
