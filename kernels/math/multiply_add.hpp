// Multiply-adds in registers, without memory traffic: measures the peak rate of arithmetic.
#pragma once

#include <cstdint>

#include "kernels/kernel.hpp"

namespace shardstream::math {

/// Computes x = x * a + b `steps` times for each of `elements` independent values of x. This takes
/// 2 * elements * steps flops. On CUDA each step is one fused operation.
template <class T>
struct MultiplyAddArgs {
  std::uint64_t elements;  ///< a multiple of elements_together
  std::uint64_t steps;
  T a, b;   ///< unknown to the compiler
  T* sink;  ///< device memory; written in rare cases, so that the compiler keeps the work
};
inline constexpr std::uint64_t elements_together = 2048;

template <class T>
Kernel<MultiplyAddArgs<T>> multiply_add_kernel();  ///< T: float, double

// The launchers. They enqueue kernels and do not wait.
namespace cuda {
template <class T>
void multiply_add(const MultiplyAddArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::math
