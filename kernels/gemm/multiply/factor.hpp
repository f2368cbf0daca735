// The factors that the library multiplies, and sums of accumulators. Usually a factor is the
// canonical panel itself. For fp32x3, it consists of split floats and is three times as deep. For
// int8 on a GPU, B's factor is the transposed panel (transpose_kernel, panel.hpp). Matrices are
// row-major. Nothing here waits or synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>

#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Whether factors are split panels (split_kernel).
constexpr bool splits(Precision precision) {
  return traits_of(precision).products > 1;
}

/// The depth of the factors for a K block of depth `tile_k`.
constexpr std::uint64_t factor_depth(Precision precision, std::uint64_t tile_k) {
  return traits_of(precision).products * tile_k;
}

/// Whether B's factor is the transposed panel, columns x tile_k. cuBLASLt multiplies 8-bit integers
/// only in this layout.
constexpr bool multiplies_transposed_b(Precision precision, Backend backend) {
  return traits_of(precision).transposes_b_on_gpu && backend != Backend::host;
}

/// Splits each float of a panel into two: `high` is the float rounded to tf32, `low` the rest
/// rounded to tf32. Their sum differs from the float by at most 2^-23 of it. The blocks of a factor
/// are ordered so that the products with low come first, while the sum is small, and high * high
/// comes last. low * low is left out. Sums with an element that is not finite become NaN.
struct SplitArgs {
  const void* panel;  ///< floats, rows x columns
  Side side;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< leading dimension of the panel, in elements
  /// For A, rows x (3 * columns): [low | high | high]. For B, (3 * rows) x columns:
  /// [high; low; high]. Dense; must not overlap the panel.
  void* factor;
};
Kernel<SplitArgs> split_kernel();

/// Computes sum[i] = left[i] + right[i] in the accumulators' type. `sum` may be left or right.
struct AddArgs {
  const void* left;
  const void* right;
  void* sum;
  Precision precision;
  std::uint64_t count;  ///< elements
};
Kernel<AddArgs> add_kernel();

}  // namespace shardstream::gemm
