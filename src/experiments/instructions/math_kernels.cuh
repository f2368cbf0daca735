// The kernels of the experiment `math` for one function, as templates for sources with different
// compiler flags.
#pragma once

#include <type_traits>

#include "experiments/gpu.hpp"
#include "experiments/instructions/math_functions.hpp"

namespace shardstream::experiments::instructions {

/// The results of a function that has two, such as a sine and a cosine.
struct Pair {
  float first, second;
};

/// F(x) or F(x, y).
template <auto F>
__device__ auto call(float x, float y) {
  if constexpr (std::is_invocable_v<decltype(F), float>) {
    return F(x);
  } else {
    return F(x, y);
  }
}

__device__ inline float last_of(float result) {
  return result;
}
__device__ inline float last_of(Pair result) {
  return result.second;
}

/// x if `zero` is 0 and the result is finite. The compiler does not know that.
__device__ inline float add_times_zero(float x, float result, float zero) {
  return fmaf(result, zero, x);
}
__device__ inline float add_times_zero(float x, Pair result, float zero) {
  return fmaf(result.second, zero, fmaf(result.first, zero, x));
}

/// The second result of those that have two.
template <auto F>
__global__ void __launch_bounds__(threads)
    evaluate_all(Arguments arguments, std::uint64_t begin, std::uint64_t count, float* results) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= count) return;
  results[i] = last_of(call<F>(arguments.x(begin + i), arguments.y(begin + i)));
}

/// Each call needs the result of the previous one, and costs one multiply-add for each argument and
/// each result besides the function. A second argument changes as well, as far as the compiler
/// knows: otherwise it would compute the logarithm of a constant base before the loop.
template <auto F>
__global__ void __launch_bounds__(threads)
    repeat_calls(Arguments arguments, unsigned rounds, float zero, float* results) {
  const unsigned t = blockIdx.x * threads + threadIdx.x, step = gridDim.x * threads;
  float x[chains], y[chains];
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) {
    x[c] = arguments.x(t + c * step);
    y[c] = arguments.y(t + c * step);
  }
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned twice = 0; twice < 2; ++twice) {
#pragma unroll
      for (unsigned c = 0; c < chains; ++c) {
        const auto result = call<F>(x[c], y[c]);
        x[c] = add_times_zero(x[c], result, zero);
        if constexpr (!std::is_invocable_v<decltype(F), float>) {
          y[c] = add_times_zero(y[c], result, zero);
        }
      }
    }
  }
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) results[t + c * step] = x[c];
}

/// The kernels of F.
template <auto F>
Function compiled(const char* name) {
  return {name,
          [](const Arguments& arguments, std::uint64_t begin, std::uint64_t count, float* results,
             cudaStream_t stream) {
            evaluate_all<F><<<blocks_for(count, threads), threads, 0, stream>>>(arguments, begin,
                                                                                count, results);
            check_launch("evaluate_all");
          },
          [](const Arguments& arguments, unsigned rounds, float* results, cudaStream_t stream) {
            repeat_calls<F>
                <<<static_cast<unsigned>(arguments.count / repeat_granule), threads, 0, stream>>>(
                    arguments, rounds, 0, results);
            check_launch("repeat_calls");
          }};
}

}  // namespace shardstream::experiments::instructions
