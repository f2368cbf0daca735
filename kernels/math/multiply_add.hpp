// Arithmetic without memory: what multiply-adds in registers reach on this device.
#pragma once

#include <cstdint>

#include "kernels/kernel.hpp"

namespace shardstream::math {

/// `steps` times x = x * a + b for each of `elements` values of x, which are independent: 2 *
/// elements * steps flops. On CUDA each step is one fused operation.
template <class T>
struct MultiplyAddArgs {
  std::uint64_t elements;  ///< a multiple of elements_together
  std::uint64_t steps;
  T a, b;   ///< not known to the compiler
  T* sink;  ///< may be written, so that the work cannot be left out
};
inline constexpr std::uint64_t elements_together = 2048;

template <class T>
Kernel<MultiplyAddArgs<T>> multiply_add_kernel();  ///< T: float, double

// The launchers: each enqueues its kernels and does not wait.
namespace cuda {
template <class T>
void multiply_add(const MultiplyAddArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::math
