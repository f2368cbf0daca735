// What the library multiplies where that is not the canonical panel, and the sums of accumulators.
// A factor is made from a panel after all checks of it: fp32x3 wants floats split in three-fold
// depth, int8 on a GPU wants B transposed (transpose_kernel, panel.hpp). Matrices are row-major.
// Nothing here waits or synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>

#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Whether factors are split panels (split_kernel).
constexpr bool splits(Precision precision) {
  return precision == Precision::fp32x3;
}

/// Columns of A's factor and rows of B's, for K blocks of `tile_k`.
constexpr std::uint64_t factor_depth(Precision precision, std::uint64_t tile_k) {
  return splits(precision) ? 3 * tile_k : tile_k;
}

/// Whether B's factor is the panel's transpose, columns x tile_k: the one layout of 8-bit whole
/// numbers that GPUs multiply.
constexpr bool multiplies_transposed_b(Precision precision, bool on_host) {
  return precision == Precision::int8 && !on_host;
}

/// Takes each float of a panel apart: high is the float rounded to tf32, low the rest rounded to
/// tf32, at most 2^-23 of the float off. The factor's blocks stand in an order in which the
/// products low * high come first, while the sum is small, and high * high last; low * low is left
/// out. An element that is not finite makes NaN of every sum that it is in.
struct SplitArgs {
  const void* panel;  ///< floats, rows x columns
  bool of_b;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< of the panel, elements
  /// Of A rows x (3 * columns), [low | high | high]; of B (3 * rows) x columns, [high; low; high].
  /// Dense; must not overlap the panel.
  void* factor;
};
Kernel<SplitArgs> split_kernel();

/// sum[i] = left[i] + right[i] of accumulators, in their own type. `sum` may be left or right.
struct AddArgs {
  const void* left;
  const void* right;
  void* sum;
  Precision precision;
  std::uint64_t count;  ///< elements
};
Kernel<AddArgs> add_kernel();

}  // namespace shardstream::gemm
