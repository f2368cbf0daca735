// The instructions of a warp for tensor cores (PTX ISA, section Warp Level Matrix Multiply-
// Accumulate Instructions). Lane l has the numbers g = l / 4 and t = l % 4.
#pragma once

#include <cuda_bf16.h>

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

/// Adds the product of a (16 x 32 bytes) and b (32 bytes x 8) to `sums`. a has words t of rows g
/// and g + 8, then words t + 4 of them. b has words t and t + 4 of column g. A word is one float or
/// two of bf16. The hardware ignores the last 13 bits of the floats, so that they become tf32.
/// Needs compute capability 8.0.
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

}  // namespace shardstream::experiments::ladders
