// The resources of a kernel, as CUDA reports them, and the occupancy that follows from them.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/cuda/handles.hpp"

namespace shardstream::experiments {

/// A kernel as the functions of CUDA's runtime take it.
template <class... Parameters>
const void* address_of(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}

/// The attributes of a kernel, such as its registers. Loads the kernel. Throws Error if CUDA fails.
inline cudaFuncAttributes attributes_of(const void* kernel) {
  cudaFuncAttributes attributes{};
  device::cuda::check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return attributes;
}
template <class... Parameters>
cudaFuncAttributes attributes_of(void (*kernel)(Parameters...)) {
  return attributes_of(address_of(kernel));
}

/// The number of blocks of `threads` threads and `shared` bytes of dynamic shared memory that a
/// multiprocessor of the current GPU can hold at the same time. Throws Error if CUDA fails.
inline unsigned blocks_per_multiprocessor(const void* kernel, unsigned threads,
                                          std::size_t shared = 0) {
  int blocks = 0;
  device::cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                          &blocks, kernel, static_cast<int>(threads), shared),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return static_cast<unsigned>(blocks);
}

/// The shape of a launch.
struct KernelLaunch {
  const void* kernel;
  dim3 blocks, threads;
  std::size_t shared = 0;  ///< bytes of dynamic shared memory of a block

  std::uint64_t block_count() const { return std::uint64_t{blocks.x} * blocks.y * blocks.z; }
  unsigned threads_of_block() const { return threads.x * threads.y * threads.z; }
};

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
