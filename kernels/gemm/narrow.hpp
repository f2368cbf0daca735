// Kernels for narrow products C = X^T X, whose panel X has few columns (Tile, grid.hpp). Matrices
// are row-major. Nothing here waits or synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>

#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Adds one block of K to the sums of Freivalds' check (check.hpp). It reads X's panel once and
/// replaces signed_sums and add_products: with y[kk] = sum over c of X[kk][c] x(c) and the random
/// signs x(c) = sign_of(seed, c),
///
///   z[i]           += sum over kk of X[kk][i] y[kk]
///   row_squares[i] += sum over kk of X[kk][i]^2
///   *column_squares += sum of all squares
///
/// If `first` is set, it overwrites them instead. Sums are doubles and have a fixed order. The
/// depth is divided into slices, each with its own z and squares, as in AddProductsArgs.
struct NarrowSumsArgs {
  const void* panel;  ///< X, dense depth x columns; begins at a multiple of 16 bytes
  Precision precision;
  std::uint64_t columns;  ///< with padding: a multiple of 4, up to max_narrow
  std::uint64_t depth;
  std::uint64_t seed;
  double* z;               ///< columns
  double* row_squares;     ///< columns
  double* column_squares;  ///< one
  bool first;
  std::uint64_t slices = 1;
  std::uint64_t slice_pitch = 0;  ///< doubles from z, or the squares, of a slice to the next slice
};
Kernel<NarrowSumsArgs> narrow_sums_kernel();

/// Computes out[i][j] = sum over s of folded[s n + i][s n + j], the sum of the diagonal blocks, in
/// the order of s and in the accumulators' type. `folded` and `out` must not overlap.
struct UnfoldArgs {
  const void* folded;  ///< dense (fold * n) x (fold * n), of accumulator_type(precision)
  void* out;           ///< dense n x n
  Precision precision;
  std::uint64_t n, fold;
};
Kernel<UnfoldArgs> unfold_kernel();

namespace detail {

/// Throws std::logic_error if the panel has a number of columns that narrow_sums does not sum.
void expect_narrow(const NarrowSumsArgs& args);

}  // namespace detail

}  // namespace shardstream::gemm
