// Elements that a thread loads at once, and the properties of a GPU by which kernels are launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace shardstream::cuda {

/// 16 bytes of elements. Bytes stay in words, since each of them would take a register.
template <class T>
struct alignas(16) Vector {
  using Unit = std::conditional_t<sizeof(T) == 1, std::uint32_t, T>;
  static constexpr unsigned width = 16 / sizeof(T);

  Unit unit[16 / sizeof(Unit)];

  __device__ T operator[](unsigned i) const {
    if constexpr (sizeof(T) == 1) {
      return static_cast<T>(unit[i / 4] >> (i % 4 * 8));
    } else {
      return unit[i];
    }
  }
};

/// A property of the current GPU, such as the largest shared memory of a block. Failures are kept
/// by CUDA for the caller, who asks for the error of the launch.
inline int attribute(cudaDeviceAttr which) {
  int gpu = 0, value = 0;
  (void)cudaGetDevice(&gpu);
  (void)cudaDeviceGetAttribute(&value, which, gpu);
  return value;
}

/// Admits `bytes` of dynamic shared memory for the kernel. Returns the number of its blocks that
/// the current GPU runs at the same time.
template <class F>
std::uint64_t resident_blocks(F* kernel, unsigned threads, std::size_t bytes) {
  (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes));
  int resident = 0;
  (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, static_cast<int>(threads),
                                                      bytes);
  return static_cast<std::uint64_t>(attribute(cudaDevAttrMultiProcessorCount)) * resident;
}

}  // namespace shardstream::cuda
