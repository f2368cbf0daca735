// Checks an answer on the device: counts its wrong elements.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstdint>

#include "experiments/gpu.hpp"

namespace shardstream::experiments {

/// Adds one to `found` for each element below `count` that is wrong.
template <class IsWrong>
__global__ void count_where(std::uint64_t count, IsWrong is_wrong, unsigned* found) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < count && is_wrong(i)) atomicAdd(found, 1);
}

/// The number of elements below `count` that are wrong, at most 2^32 - 1. `is_wrong` is an object
/// with `__device__ bool operator()(std::uint64_t i) const`. Begins after the work in `stream`, and
/// waits for it.
template <class IsWrong>
unsigned count_wrong(std::uint64_t count, const IsWrong& is_wrong, cudaStream_t stream) {
  constexpr unsigned threads = 256;
  const DeviceArray<unsigned> found(1);
  found.clear(stream);
  count_where<<<blocks_for(count, threads), threads, 0, stream>>>(count, is_wrong, found.data());
  check_launch("count_where");
  return found.read()[0];
}

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
