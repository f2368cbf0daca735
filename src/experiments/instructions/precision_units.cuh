// The units of a multiprocessor that multiply and add, by the type of their numbers: what an
// instruction takes, and how threads hold it. A unit adds A B to C for A of 16 x depth and B of
// depth x 8 elements. A group of threads holds C: a warp for tensor cores, or else 128 threads with
// one element each.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "experiments/instructions/real_elements.hpp"
#include "experiments/ladders/mma.cuh"

namespace shardstream::experiments::instructions {

// ---------------------------------------------------------------------------------- the elements

/// Integers from -2 to 2, which all types hold exactly, for rates. `sign` is 1 or -1.
struct SmallElements {
  int sign = 1;
  __host__ __device__ float a(unsigned row, unsigned k) const {
    return static_cast<float>(sign * (static_cast<int>((row + 3 * k) % 5) - 2));
  }
  __host__ __device__ float b(unsigned k, unsigned column) const {
    return static_cast<float>(static_cast<int>((3 * column + k) % 5) - 2);
  }
};

template <class T>
__device__ T converted(float x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(__float2int_rn(x));
  } else {
    return static_cast<T>(x);
  }
}

template <class T>
constexpr unsigned in_word = 4 / sizeof(T);  // elements of a word of 4 bytes

/// A word of elements of type T; `element(i)` is the i-th one, from the low bits on.
template <class T, class Element>
__device__ std::uint32_t packed_word(const Element& element) {
  T elements[in_word<T>];
#pragma unroll
  for (unsigned i = 0; i < in_word<T>; ++i) elements[i] = converted<T>(element(i));
  std::uint32_t word = 0;
  memcpy(&word, elements, sizeof(word));
  return word;
}

template <class To>
__device__ To from_word(std::uint32_t word) {
  To value;
  memcpy(&value, &word, sizeof(word));
  return value;
}

// -------------------------------------------------------------------------------------- CUDA cores

/// Each thread has one element of C.
struct OnCores {
  static constexpr unsigned group = outputs;
  template <class Factor>
  __device__ static void permute(Factor&) {}
  __device__ static unsigned row(unsigned lane) { return lane / columns; }
  __device__ static unsigned column(unsigned lane) { return lane % columns; }
};

/// One element of A and B for each instruction.
template <class T>
struct Single : OnCores {
  static constexpr unsigned depth = 1;
  using A = T;
  using B = T;
  using Sums = T;

  template <class Elements>
  __device__ static T load_a(const Elements& from, unsigned k, unsigned lane) {
    return static_cast<T>(from.a(row(lane), k));
  }
  template <class Elements>
  __device__ static T load_b(const Elements& from, unsigned k, unsigned lane) {
    return static_cast<T>(from.b(k, column(lane)));
  }
  __device__ static Sums start(float x) { return static_cast<T>(x); }
  __device__ static void multiply_add(Sums& sum, T a, T b) { sum = fma(a, b, sum); }
  __device__ static void turn(Sums& sum, Sums minus_two) { sum = fma(sum, minus_two, sum); }
  template <class Store>
  __device__ static void each(const Sums& sum, unsigned lane, const Store& store) {
    store(row(lane), column(lane), static_cast<double>(sum));
  }
};

/// Words of several elements.
template <class T>
struct Words : OnCores {
  static constexpr unsigned depth = in_word<T>;
  using A = std::uint32_t;
  using B = std::uint32_t;

  template <class Elements>
  __device__ static A load_a(const Elements& from, unsigned k, unsigned lane) {
    return packed_word<T>([&](unsigned i) { return from.a(row(lane), k + i); });
  }
  template <class Elements>
  __device__ static B load_b(const Elements& from, unsigned k, unsigned lane) {
    return packed_word<T>([&](unsigned i) { return from.b(k + i, column(lane)); });
  }
};

__device__ inline __half2 multiply_add(__half2 a, __half2 b, __half2 c) {
  return __hfma2(a, b, c);
}
__device__ inline __half2 multiply(__half2 a, __half2 b) {
  return __hmul2(a, b);
}
/// Those of bf16 need compute capability 8.0.
__device__ inline __nv_bfloat162 multiply_add([[maybe_unused]] __nv_bfloat162 a,
                                              [[maybe_unused]] __nv_bfloat162 b, __nv_bfloat162 c) {
#if __CUDA_ARCH__ >= 800
  return __hfma2(a, b, c);
#else
  return c;
#endif
}
__device__ inline __nv_bfloat162 multiply(__nv_bfloat162 a, [[maybe_unused]] __nv_bfloat162 b) {
#if __CUDA_ARCH__ >= 800
  return __hmul2(a, b);
#else
  return a;
#endif
}

/// Pairs of fp16 or bf16, with a sum for each half.
template <class T, class PairOfT>
struct Pairs : Words<T> {
  using Sums = PairOfT;
  __device__ static Sums start(float x) { return {static_cast<T>(x), static_cast<T>(0.0F)}; }
  __device__ static void multiply_add(Sums& sum, std::uint32_t a, std::uint32_t b) {
    sum = instructions::multiply_add(from_word<PairOfT>(a), from_word<PairOfT>(b), sum);
  }
  __device__ static void turn(Sums& sum, Sums minus_two) {
    sum = instructions::multiply_add(sum, minus_two, sum);
  }
  template <class Store>
  __device__ static void each(const Sums& sum, unsigned lane, const Store& store) {
    store(OnCores::row(lane), OnCores::column(lane),
          double{static_cast<float>(sum.x)} + double{static_cast<float>(sum.y)});
  }
};

/// Sums of 32 bits.
struct IntegerSums {
  using Sums = int;
  __device__ static Sums start(float x) { return static_cast<int>(x); }
  template <class Store>
  __device__ static void each(const Sums& sum, unsigned lane, const Store& store) {
    store(OnCores::row(lane), OnCores::column(lane), static_cast<double>(sum));
  }
};

/// Four bytes times four bytes.
struct FourBytes : Words<std::int8_t>, IntegerSums {
  __device__ static void multiply_add(Sums& sum, std::uint32_t a, std::uint32_t b) {
    sum = __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
  }
};

/// Two numbers of 16 bits times two bytes, the low ones of a word.
struct TwoShorts : Words<std::int16_t>, IntegerSums {
  template <class Elements>
  __device__ static B load_b(const Elements& from, unsigned k, unsigned lane) {
    return packed_word<std::int8_t>([&](unsigned i) { return from.b(k + i % 2, column(lane)); });
  }
  __device__ static void multiply_add(Sums& sum, std::uint32_t a, std::uint32_t b) {
    sum = __dp2a_lo(static_cast<int>(a), static_cast<int>(b), sum);
  }
};

// ------------------------------------------------------------------------------------ tensor cores

/// The instructions of ladders/mma.cuh, with elements of type T and sums of type Sum.
template <class T, class Sum>
struct Tensor {
  static constexpr unsigned group = 32, words = 32 / 4, depth = words * in_word<T>;
  struct A {
    std::uint32_t words[4];
  };
  struct B {
    std::uint32_t words[2];
  };
  struct Sums {
    Sum of[4];
  };

  /// Permutes the elements of fp8 along k. The product stays the same if both factors are permuted.
  /// Compute capability 9.0 has no such instruction, so that the compiler converts the elements and
  /// multiplies numbers of fp16; for constant factors it would do so once, before all additions.
  template <class Factor>
  __device__ static void permute(Factor& factor) {
    if constexpr (std::is_same_v<T, __nv_fp8_e4m3> || std::is_same_v<T, __nv_fp8_e5m2>) {
      for (std::uint32_t& word : factor.words) word = __funnelshift_l(word, word, 8);
    }
  }
  template <class Elements>
  __device__ static A load_a(const Elements& from, unsigned k, unsigned lane) {
    A a;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + i % 2 * 8, first = (lane % 4 + i / 2 * 4) * in_word<T>;
      a.words[i] = packed_word<T>([&](unsigned j) { return from.a(row, k + first + j); });
    }
    return a;
  }
  template <class Elements>
  __device__ static B load_b(const Elements& from, unsigned k, unsigned lane) {
    B b;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned first = (lane % 4 + i * 4) * in_word<T>;
      b.words[i] = packed_word<T>([&](unsigned j) { return from.b(k + first + j, lane / 4); });
    }
    return b;
  }
  __device__ static Sums start(float x) {
    const auto value = static_cast<Sum>(x);
    return {{value, value, value, value}};
  }
  __device__ static void multiply_add(Sums& sums, const A& a, const B& b) {
    ladders::multiply_add(sums.of, a.words, b.words, T{});
  }
  template <class Store>
  __device__ static void each(const Sums& sums, unsigned lane, const Store& store) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      store(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, static_cast<double>(sums.of[i]));
    }
  }
};

/// fp16 with sums of fp16: two of them in a word.
struct TensorHalves : Tensor<__half, float> {
  struct Sums {
    std::uint32_t words[2];
  };
  __device__ static Sums start(float x) {
    const std::uint32_t word = packed_word<__half>([&](unsigned) { return x; });
    return {{word, word}};
  }
  __device__ static void multiply_add(Sums& sums, const A& a, const B& b) {
    ladders::multiply_add(sums.words, a.words, b.words, __half{});
  }
  template <class Store>
  __device__ static void each(const Sums& sums, unsigned lane, const Store& store) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const auto pair = from_word<__half2>(sums.words[i]);
      const unsigned row = lane / 4 + i * 8, column = lane % 4 * 2;
      store(row, column, double{__half2float(pair.x)});
      store(row, column + 1, double{__half2float(pair.y)});
    }
  }
};

/// Doubles: each register has one element.
struct TensorDoubles : Tensor<float, double> {
  static constexpr unsigned depth = 16;
  struct A {
    double elements[8];
  };
  struct B {
    double elements[4];
  };

  template <class Elements>
  __device__ static A load_a(const Elements& from, unsigned k, unsigned lane) {
    A a;
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
      a.elements[i] = from.a(lane / 4 + i % 2 * 8, k + lane % 4 + i / 2 * 4);
    }
    return a;
  }
  template <class Elements>
  __device__ static B load_b(const Elements& from, unsigned k, unsigned lane) {
    B b;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) b.elements[i] = from.b(k + lane % 4 + i * 4, lane / 4);
    return b;
  }
  __device__ static void multiply_add(Sums& sums, const A& a, const B& b) {
    ladders::multiply_add(sums.of, a.elements, b.elements, double{});
  }
};

}  // namespace shardstream::experiments::instructions
