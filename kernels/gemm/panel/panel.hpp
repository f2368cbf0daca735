// What happens to panels and tiles around the product: stored elements become a panel, an
// accumulator becomes a tile of C, and words are summed so that a corrupted copy is seen. Matrices
// are row-major. Nothing here waits or synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>

#include "kernels/data/element.hpp"
#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Makes rows x columns of a panel from stored elements: transposed, converted and rounded to the
/// precision, once and to nearest (ties to even; tf32: away from zero). With shift or scale what is
/// rounded is (x - shift) * scale, in double. Panel elements are those of the backend:
/// panel_element_bytes(precision, on_host) each. For int8 of i8 alone, else std::logic_error. Fast
/// where rows of both are multiples of 16 bytes, without shift and scale, where all is valid.
struct CanonicalizeArgs {
  const void* raw;  ///< dense, rows x columns, or columns x rows if `transpose`; aligned for `from`
  ElementType from;
  bool transpose;
  void* panel;
  Precision precision;
  std::uint64_t rows, columns;  ///< of the panel
  std::uint64_t ld;             ///< elements from one row of the panel to the next, >= columns
  /// One of each for every variable: a row of the panel if `by_row`, else a column. Null: none.
  const double* shift = nullptr;
  const double* scale = nullptr;
  bool by_row = false;
  /// Of the panel; beyond them it becomes zeros, whatever is in raw.
  std::uint64_t valid_rows = UINT64_MAX, valid_columns = UINT64_MAX;
};
Kernel<CanonicalizeArgs> canonicalize_kernel();

/// What the device has to do to what was uploaded before it is a panel, if readers round where
/// readers_round() (words.hpp) says so, but not what is centred.
enum class PanelWork : std::uint8_t {
  none,
  transpose,     ///< transpose_kernel(): panel elements were uploaded
  canonicalize,  ///< canonicalize_kernel(): stored elements were uploaded
};
PanelWork panel_work(ElementType from, Precision precision, bool on_host, bool transpose,
                     bool centred);

/// to[c][r] = from[r][c] for rows x columns of `from`; the two must not overlap. Fast where rows of
/// both are multiples of 16 bytes.
struct TransposeArgs {
  const void* from;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< elements from one row of `from` to the next
  void* to;
  std::uint64_t ld_to;
  unsigned element_bytes;  ///< 1, 2, 4 or 8
};
Kernel<TransposeArgs> transpose_kernel();

/// Below its diagonal a square tile becomes the mirror of what is above.
struct MirrorArgs {
  void* tile;
  std::uint64_t edge, ld;  ///< elements
  unsigned element_bytes;  ///< 4 or 8
};
Kernel<MirrorArgs> mirror_kernel();

/// Sets bytes to zero.
struct ZeroArgs {
  void* data;
  std::uint64_t bytes;
};
Kernel<ZeroArgs> zero_kernel();

/// Adds word_sum(row, bytes) (words.hpp) of every row to *sum, mod 2^64. Several may add to one sum
/// at the same time. Fast where `data`, and of several rows also `bytes` and `apart`, are multiples
/// of 16.
struct WordSumArgs {
  const void* data;     ///< the first row, of any alignment
  std::uint64_t bytes;  ///< of a row
  std::uint64_t* sum;
  std::uint64_t rows = 1;
  std::uint64_t apart = 0;  ///< bytes from one row to the next
};
Kernel<WordSumArgs> word_sum_kernel();

/// out = alpha * tile + beta * c0, in double, rounded once to the type of the accumulator, to
/// nearest (ties to even). Not for int8, whose C is the accumulator: else std::logic_error.
struct FinishArgs {
  const void* tile;  ///< of accumulator_type(precision), as c0 and out
  Precision precision;
  std::uint64_t rows, columns;  ///< of out; padding of the tile is left out
  std::uint64_t ld_tile;        ///< elements
  double alpha, beta;
  const void* c0;        ///< dense rows x columns, or null: then beta counts for nothing
  void* out;             ///< rows x columns; may be c0 if it is dense, or the tile
  std::uint64_t ld_out;  ///< elements
};
Kernel<FinishArgs> finish_kernel();

}  // namespace shardstream::gemm
