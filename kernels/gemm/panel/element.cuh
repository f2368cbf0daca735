// The elements of panels on a GPU.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm::cuda {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

template <Format F>
using Element = std::conditional_t<
    F == Format::f64, double,
    std::conditional_t<
        F == Format::bf16, Bf16,
        std::conditional_t<F == Format::fp16, Fp16,
                           std::conditional_t<F == Format::i8, std::int8_t, float>>>>;

/// Converts a value that the format can represent to an element.
template <Format F, class V>
__device__ Element<F> encoded(V value) {
  if constexpr (F == Format::bf16) {
    return {static_cast<std::uint16_t>(__float_as_uint(value) >> 16)};
  } else if constexpr (F == Format::fp16) {
    return {__half_as_ushort(__float2half_rn(value))};
  } else {
    return static_cast<Element<F>>(value);
  }
}

__device__ inline double value_of(double x) {
  return x;
}
__device__ inline double value_of(float x) {
  return x;
}
__device__ inline double value_of(std::int8_t x) {
  return x;
}
__device__ inline double value_of(std::int32_t x) {
  return x;
}
__device__ inline double value_of(Bf16 x) {
  return __uint_as_float(std::uint32_t{x.bits} << 16);
}
__device__ inline double value_of(Fp16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

}  // namespace shardstream::gemm::cuda
