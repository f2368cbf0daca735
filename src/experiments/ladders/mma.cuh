// The instructions of a warp for tensor cores (PTX ISA, section Warp Level Matrix Multiply-
// Accumulate Instructions). Lane l has the numbers g = l / 4 and t = l % 4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace shardstream::experiments::ladders {

/// An accumulator of 16 x 8 floats: elements 0 and 1 are at row g and columns 2t and 2t + 1,
/// elements 2 and 3 at row g + 8.
using Sums16x8 = float[4];

/// The address of `data`, which is in shared memory, as instructions take it.
__device__ inline std::uint32_t shared_address(const void* data) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
}

/// Loads four matrices of 8 rows of 16 bytes. Lane l gives the address of row l % 8 of matrix
/// l / 8, and gets word t of row g of each matrix. Needs compute capability 7.5.
__device__ inline void load_matrices(std::uint32_t (&words)[4], const void* row) {
#if __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}

/// The same for matrices of 8 x 8 elements of 2 bytes, which are transposed: the lane gets elements
/// 2t and 2t + 1 of column g.
__device__ inline void load_transposed(std::uint32_t (&words)[4], const void* row) {
#if __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}

// Adds the product of a (16 x 32 bytes) and b (32 bytes x 8) to the sums. a has words t of rows g
// and g + 8, then words t + 4 of them. b has words t and t + 4 of column g. A word has one float,
// two numbers of 16 bits or four of 8 bits. The last argument is of the type of the elements.

/// The hardware ignores the last 13 bits of the floats, so that they become tf32. Needs compute
/// capability 8.0.
__device__ inline void multiply_add(Sums16x8& sums, const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], float) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
/// Needs compute capability 8.0.
__device__ inline void multiply_add(Sums16x8& sums, const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
/// Needs compute capability 8.0.
__device__ inline void multiply_add(Sums16x8& sums, const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], __half) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
/// The sums are of fp16: those of row g in the first word, those of row g + 8 in the second. Needs
/// compute capability 8.0.
__device__ inline void multiply_add(std::uint32_t (&sums)[2], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], __half) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(sums[0]), "+r"(sums[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
/// Needs compute capability 8.0.
__device__ inline void multiply_add(std::int32_t (&sums)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], std::int8_t) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// nvcc 12.4 is the first that takes fp8 here.
inline constexpr bool has_fp8_mma = CUDART_VERSION >= 12040;

/// Needs compute capability 8.9 and has_fp8_mma.
__device__ inline void multiply_add(Sums16x8& sums, const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], __nv_fp8_e4m3) {
#if __CUDA_ARCH__ >= 890 && CUDART_VERSION >= 12040
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
/// Needs compute capability 8.9 and has_fp8_mma.
__device__ inline void multiply_add(Sums16x8& sums, const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], __nv_fp8_e5m2) {
#if __CUDA_ARCH__ >= 890 && CUDART_VERSION >= 12040
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// The same for a of 16 x 16 doubles and b of 16 x 8: a has columns t of rows g and g + 8, then
/// columns t + 4, t + 8 and t + 12 of them. b has rows t, t + 4, t + 8 and t + 12 of column g.
/// Needs compute capability 8.0, on which it takes eight instructions.
__device__ inline void multiply_add(double (&sums)[4], const double (&a)[8], const double (&b)[4],
                                    double) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, "
      "{%0, %1, %2, %3};"
      : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sums[i % 2 * 2]), "+d"(sums[i % 2 * 2 + 1])
                 : "d"(a[i]), "d"(b[i / 2]));
  }
#endif
}

}  // namespace shardstream::experiments::ladders
