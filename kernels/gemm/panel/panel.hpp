// Kernels before and after the product: they convert stored elements to a panel and an accumulator
// to a tile of C, and compute checksums that reveal corrupted copies. Matrices are row-major, and
// every `ld` is a leading dimension in elements. Nothing here waits or synchronises; memory must
// live until the work is done.
#pragma once

#include <cstdint>

#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"
#include "types/element.hpp"

namespace shardstream::gemm {

/// Makes rows x columns of a panel from stored elements, and optionally transposes them. Each
/// element is rounded once to the precision, to nearest (ties to even; tf32: ties away from zero).
/// If values change, (x - whole - shift) * scale * factor is computed and then rounded. x - whole
/// is an integer subtraction (difference()), and the rest is computed in double. An x that is not
/// finite becomes NaN, also in a panel with several planes. A scale or a factor of 0 makes any
/// value 0, even NaN. Elements of the panel have the backend's format, of
/// panel_element_bytes(precision, backend) bytes. Throws std::logic_error unless takes(precision,
/// from). It is fastest if values do not change, and if the bytes of a row of both matrices are a
/// multiple of 16.
struct CanonicalizeArgs {
  /// The valid elements of the panel, or their transpose if `transpose`: dense, valid_rows x
  /// valid_columns (or rows x columns, if those are fewer). Aligned for `from`.
  const void* raw;
  ElementType from;
  bool transpose;
  void* panel;
  Precision precision;
  std::uint64_t rows, columns;  ///< of the panel
  std::uint64_t ld;             ///< of the panel, >= columns
  /// One value for each variable, or null for none. A variable is a row of A's panel, and a
  /// column of B's.
  const double* shift = nullptr;
  const double* scale = nullptr;
  Side side = Side::b;
  /// Elements of the panel beyond these rows and columns are padding. They become zeros.
  std::uint64_t valid_rows = UINT64_MAX, valid_columns = UINT64_MAX;
  const std::int64_t* whole = nullptr;  ///< like shift; only for i64
  /// If values change, lost[v] becomes 1 if a value of variable v that is not 0 may become 0: see
  /// ElementRange::vanishing. Null: nothing is marked.
  std::uint8_t* lost = nullptr;
  /// One value for each sample, or null for none. A sample is a column of A's panel, and a row of
  /// B's.
  const double* factor = nullptr;
  bool shifts_samples = false;  ///< `shift` and `whole` have one value for each sample instead
  /// With several planes, variable v has the rows (A) or columns (B) planes.place(v, ...) of the
  /// panel. `rows` and `columns` then count variables and samples, not planes, and so do the valid
  /// ones. A stored NaN is a missing value: all its planes are 0. The squares are those of the
  /// rounded values, rounded once. Their edge must be a multiple of 4 on a GPU.
  Planes planes = {};

  bool changes() const { return shift != nullptr || scale != nullptr || factor != nullptr; }
};
Kernel<CanonicalizeArgs> canonicalize_kernel();

/// The work on the device that turns uploaded elements into a panel. Readers have rounded the
/// elements if readers_round() (round_elements.hpp) is true and the elements are not centred.
enum class PanelWork : std::uint8_t {
  none,          ///< the panel was uploaded with its padding
  pad,           ///< pad_kernel(): panel elements were uploaded without padding
  transpose,     ///< transpose_kernel(): panel elements were uploaded without padding
  canonicalize,  ///< canonicalize_kernel(): stored elements were uploaded without padding
};
/// `pads`: whether an operand that needs no other work is uploaded without padding.
PanelWork panel_work(ElementType from, Precision precision, Backend backend, bool transpose,
                     bool centred, bool pads = false);

/// Copies a dense matrix of rows x columns elements to `to`, which has to_rows x to_columns, at
/// least as many. The other elements of `to` become zeros. The two must not overlap.
struct PadArgs {
  const void* from;
  std::uint64_t rows, columns;
  void* to;
  std::uint64_t to_rows, to_columns;
  std::uint64_t ld_to;     ///< >= to_columns
  unsigned element_bytes;  ///< 1, 2, 4 or 8
};
Kernel<PadArgs> pad_kernel();

/// Sets to[c][r] = from[r][c] for rows x columns of `from`. The two must not overlap. It is fastest
/// if the bytes of a row of both are a multiple of 16.
struct TransposeArgs {
  const void* from;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< of `from`
  void* to;
  std::uint64_t ld_to;
  unsigned element_bytes;  ///< 1, 2, 4 or 8
  /// The size of `to` if it is larger than columns x rows. Its other elements become zeros.
  std::uint64_t to_rows = 0, to_columns = 0;
};
Kernel<TransposeArgs> transpose_kernel();

/// Copies the part of a square tile above the diagonal to the part below it, mirrored.
struct MirrorArgs {
  void* tile;
  std::uint64_t edge, ld;
  unsigned element_bytes;  ///< 4 or 8
};
Kernel<MirrorArgs> mirror_kernel();

/// Sets `bytes` bytes to zero.
struct ZeroArgs {
  void* data;
  std::uint64_t bytes;
};
Kernel<ZeroArgs> zero_kernel();

/// Adds word_checksum(row, bytes) (checksum.hpp) of every row to *sum, mod 2^64. Several launches
/// may add to one sum at the same time. It is fast if `data` is a multiple of 16 and, for several
/// rows, `bytes` and `pitch` are too.
struct WordChecksumArgs {
  const void* data;     ///< the first row, of any alignment
  std::uint64_t bytes;  ///< of a row
  std::uint64_t* sum;
  std::uint64_t rows = 1;
  std::uint64_t pitch = 0;  ///< bytes from one row to the next
};
Kernel<WordChecksumArgs> word_checksum_kernel();

/// Computes out = alpha * tile + beta * c0 in double, and rounds once to the accumulator's type, to
/// nearest (ties to even). Throws std::logic_error for int8, whose C is the accumulator itself.
struct FinishArgs {
  const void* tile;  ///< of accumulator_type(precision), like c0 and out
  Precision precision;
  std::uint64_t rows, columns;  ///< of `out`, without the tile's padding
  std::uint64_t ld_tile;
  double alpha, beta;
  const void* c0;  ///< dense rows x columns, or null; then beta is ignored
  void* out;       ///< rows x columns; may be c0 if it is dense, or the tile
  std::uint64_t ld_out;
};
Kernel<FinishArgs> finish_kernel();

}  // namespace shardstream::gemm
