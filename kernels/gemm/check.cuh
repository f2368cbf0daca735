// Loads and sums that the kernels of the check share. Their blocks have `threads` threads.
#pragma once

#include <cstdint>

namespace shardstream::gemm::cuda {

inline constexpr unsigned threads = 256, warps = threads / 32;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}
inline unsigned blocks_of(std::uint64_t items, std::uint64_t items_a_block) {
  return static_cast<unsigned>(ceil_div(items, items_a_block));
}

/// 16 bytes of elements, or 8 of the smallest, since a step of add_products has no more of these.
template <class T>
struct alignas(sizeof(T) == 1 ? 8 : 16) Pack {
  static constexpr unsigned width = sizeof(T) == 1 ? 8 : 16 / sizeof(T);
  T element[width];
};

/// Whether every row of `ld` elements can be read in Packs.
template <class T>
bool in_packs(const void* data, std::uint64_t ld) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T>) == 0 && ld % Pack<T>::width == 0;
}

/// Elements [at, at + width) of x, with zeros from `count` on.
template <class T>
__device__ Pack<T> load(const T* x, std::uint64_t at, std::uint64_t count, bool packs) {
  if (packs && at + Pack<T>::width <= count) return *reinterpret_cast<const Pack<T>*>(x + at);
  Pack<T> some{};
#pragma unroll
  for (unsigned i = 0; i < Pack<T>::width; ++i) {
    if (at + i < count) some.element[i] = x[at + i];
  }
  return some;
}

__device__ inline double warp_sum(double value) {
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  return value;
}

/// The sum over the block's threads; valid in thread 0.
__device__ inline double block_sum(double value) {
  __shared__ double of_warp[32];
  value = warp_sum(value);
  __syncthreads();  // an earlier sum has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) total += of_warp[i];
  return total;
}

}  // namespace shardstream::gemm::cuda
