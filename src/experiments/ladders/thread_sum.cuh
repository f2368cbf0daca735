// The sum of one thread in the ladder `reduction`: the number, the width and the order of its
// loads.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstdint>

#include "experiments/ladders/rungs.cuh"

namespace shardstream::experiments::ladders {

__device__ inline float sum_of_word(float word) {
  return word;
}
__device__ inline float sum_of_word(const float4& word) {
  return (word.x + word.y) + (word.z + word.w);
}

/// The sum of a thread that adds every gridDim.x * threads-th word. `Flight` loads are in flight:
/// none of them waits for an addition. The loops over the words are not unrolled, since the
/// compiler would then have more loads in flight.
template <unsigned Flight, class T>
__device__ float sum_of_thread(const T* x, std::uint64_t words) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  float parts[Flight] = {};
#pragma unroll 1
  for (; i + (Flight - 1) * step < words; i += Flight * step) {
    T word[Flight];
#pragma unroll
    for (unsigned k = 0; k < Flight; ++k) word[k] = x[i + k * step];
#pragma unroll
    for (unsigned k = 0; k < Flight; ++k) parts[k] += sum_of_word(word[k]);
  }
#pragma unroll 1
  for (; i < words; i += step) parts[0] += sum_of_word(x[i]);
#pragma unroll
  for (unsigned k = 1; k < Flight; ++k) parts[0] += parts[k];
  return parts[0];
}

/// The words that a block reads while its loads are in flight.
enum class Loads {
  spread,    ///< words that are a grid of threads apart, as in sum_of_thread()
  together,  ///< Flight * threads neighbouring words
  streaming  ///< the same; lines are marked as the first ones to leave the L2 cache
};

/// The sum of a thread whose block reads stretches of Flight * threads neighbouring words.
template <unsigned Flight, Loads Order>
__device__ float sum_in_stretches(const float4* x, std::uint64_t words) {
  constexpr unsigned stretch = Flight * threads;
  const std::uint64_t whole = words / stretch * stretch;
  std::uint64_t i = std::uint64_t{blockIdx.x} * stretch + threadIdx.x;
  float parts[Flight] = {};
#pragma unroll 1
  for (; i < whole; i += std::uint64_t{gridDim.x} * stretch) {
    float4 word[Flight];
#pragma unroll
    for (unsigned k = 0; k < Flight; ++k) {
      const float4* const at = &x[i + k * threads];
      word[k] = Order == Loads::streaming ? __ldcs(at) : *at;
    }
#pragma unroll
    for (unsigned k = 0; k < Flight; ++k) parts[k] += sum_of_word(word[k]);
  }
#pragma unroll 1
  for (i = whole + blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < words;
       i += std::uint64_t{gridDim.x} * threads) {
    parts[0] += sum_of_word(x[i]);
  }
#pragma unroll
  for (unsigned k = 1; k < Flight; ++k) parts[0] += parts[k];
  return parts[0];
}

template <unsigned Flight, Loads Order, class T>
__device__ float sum_in_order(const T* x, std::uint64_t words) {
  if constexpr (Order == Loads::spread) {
    return sum_of_thread<Flight>(x, words);
  } else {
    return sum_in_stretches<Flight, Order>(x, words);
  }
}

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
