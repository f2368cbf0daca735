// Products of arrays in memory, for each type of numbers. Threads load 16 bytes at once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "experiments/instructions/precision_units.cuh"
#include "experiments/numbers.hpp"

namespace shardstream::experiments::instructions {

using Word16 = uint4;  // 16 bytes

/// Element i of the array `of`, in [0.5, 1).
__host__ __device__ inline float element_in_memory(unsigned of, std::uint64_t i) {
  return 0.5F + unit_number((std::uint64_t{of} << 40) + i) / 2;
}

template <class T>
constexpr unsigned in_16_bytes = 16 / sizeof(T);  // elements

/// Fills an array with elements of type T times `scale`. The copy goes to a variable first: for
/// halves that are copied to global memory byte by byte, ptxas 13.0 converts them to integers.
template <class T>
__global__ void fill_array(unsigned of, float scale, Word16* array, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= words) return;
  T elements[in_16_bytes<T>];
  for (unsigned k = 0; k < in_16_bytes<T>; ++k) {
    elements[k] = converted<T>(scale * element_in_memory(of, i * in_16_bytes<T> + k));
  }
  Word16 word;
  memcpy(&word, elements, sizeof(word));
  array[i] = word;
}

// The products of the elements of two words. Those of bytes are added up in fours.
template <class T>
struct Product {
  __device__ static unsigned of_words(unsigned x, unsigned y) {
    if constexpr (std::is_same_v<T, float>) {
      return __float_as_uint(__uint_as_float(x) * __uint_as_float(y));
    } else if constexpr (std::is_same_v<T, std::int8_t>) {
      return static_cast<unsigned>(__dp4a(static_cast<int>(x), static_cast<int>(y), 0));
    } else {
      using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
      const Pair product = multiply(from_word<Pair>(x), from_word<Pair>(y));
      unsigned word = 0;
      memcpy(&word, &product, sizeof(word));
      return word;
    }
  }
  __device__ static Word16 of(const Word16& x, const Word16& y) {
    return {of_words(x.x, y.x), of_words(x.y, y.y), of_words(x.z, y.z), of_words(x.w, y.w)};
  }
};
template <>
struct Product<double> {
  __device__ static Word16 of(const Word16& x, const Word16& y) {
    double2 a, b;
    memcpy(&a, &x, sizeof(a));
    memcpy(&b, &y, sizeof(b));
    const double2 product{a.x * b.x, a.y * b.y};
    Word16 word;
    memcpy(&word, &product, sizeof(word));
    return word;
  }
};

/// __ldg loads a whole word. Without it, nvcc splits the load if only parts of the word are used:
/// into loads of 4 bytes, and for doubles into single bytes.
template <class T>
__global__ void multiply_arrays(const Word16* x, const Word16* y, Word16* products,
                                std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < words) products[i] = Product<T>::of(__ldg(&x[i]), __ldg(&y[i]));
}

}  // namespace shardstream::experiments::instructions
