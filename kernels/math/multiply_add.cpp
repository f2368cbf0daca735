#include "kernels/math/multiply_add.hpp"

#include <array>
#include <atomic>

#include "kernels/vector_clones.hpp"

namespace shardstream::math {
namespace {

/// The sum of blocks * 32 elements after `steps` steps. A block of 32 fills the vector registers.
template <class T>
SHARDSTREAM_VECTOR_CLONES T run(std::uint64_t blocks, std::uint64_t steps, T a, T b) {
  T sum = 0;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    std::array<T, 32> x;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i);
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (T& each : x) each = each * a + b;
    }
    for (const T each : x) sum += each;
  }
  return sum;
}

template <class T>
void multiply_add(const MultiplyAddArgs<T>& args, unsigned part, unsigned parts) {
  const std::uint64_t blocks = args.elements / 32;
  const T sum =
      run(blocks * (part + 1) / parts - blocks * part / parts, args.steps, args.a, args.b);
  if (sum == T{-1}) std::atomic_ref(*args.sink).store(sum, std::memory_order_relaxed);
}

}  // namespace

template <class T>
Kernel<MultiplyAddArgs<T>> multiply_add_kernel() {
  return {"multiply_add", multiply_add<T>, with_cuda<cuda::multiply_add<T>>()};
}
template Kernel<MultiplyAddArgs<float>> multiply_add_kernel();
template Kernel<MultiplyAddArgs<double>> multiply_add_kernel();

}  // namespace shardstream::math
