#include "kernels/math/multiply_add.hpp"

namespace shardstream::math::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned chains = elements_together / threads;  // independent elements of a thread

template <class T>
__global__ void __launch_bounds__(threads) run_chains(MultiplyAddArgs<T> args) {
  T x[chains];
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) x[c] = static_cast<T>(threadIdx.x + c);
  for (std::uint64_t step = 0; step < args.steps; ++step) {
#pragma unroll
    for (unsigned c = 0; c < chains; ++c) x[c] = fma(x[c], args.a, args.b);
  }
  T sum = 0;
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) sum += x[c];
  if (sum == static_cast<T>(-1)) *args.sink = sum;
}

}  // namespace

template <class T>
void multiply_add(const MultiplyAddArgs<T>& args, CudaStream stream) {
  const auto blocks = static_cast<unsigned>(args.elements / elements_together);
  run_chains<<<blocks, threads, 0, stream>>>(args);
}

template void multiply_add(const MultiplyAddArgs<float>&, CudaStream);
template void multiply_add(const MultiplyAddArgs<double>&, CudaStream);

}  // namespace shardstream::math::cuda
