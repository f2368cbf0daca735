// The device memory of a product with a certain schedule.
#pragma once

#include <cstdint>

#include "workloads/product/plan/schedule.hpp"

namespace shardstream::workloads::product {

/// The sizes in bytes of the buffers of one batch in the ring: multiples of 256, or 0 for a buffer
/// that is not needed.
struct BatchBuffers {
  /// This rank's parts, if the operand is raw (UploadedOperand).
  std::uint64_t raw_a = 0, raw_b = 0;
  /// A's panel, with the parts of all ranks of the grid row and the leading dimension gemm::a_ld().
  /// 0 for int8 on a GPU if A's panel is always a range of rows of b_factor, and for a narrow tile.
  std::uint64_t a_panel = 0;
  /// B's panel, with the parts of all ranks of the grid column.
  std::uint64_t b_panel = 0;
  /// The matrices that the library multiplies, if they differ from the panels: for fp32x3, A and B
  /// with three times the depth; for int8 on a GPU, the transpose of B. Residues are beside the
  /// panels.
  std::uint64_t a_factor = 0, b_factor = 0;
  /// Two doubles for each row and each column tile of B's panel, and each of its planes. 0 for a
  /// narrow tile.
  std::uint64_t y = 0;

  /// The buffer that is uploaded to: of each operand the raw part or, if it is not raw, the panel.
  std::uint64_t uploaded(const Problem& problem) const {
    return (problem.a.raw ? raw_a : a_panel) + (problem.b.raw ? raw_b : b_panel);
  }
};

/// The sizes of the buffers of the verification, in bytes as in BatchBuffers. Rows and column tiles
/// are those of a super-tile, in all planes.
struct CheckBuffers {
  std::uint64_t z = 0;               ///< a double for each row and each column tile
  std::uint64_t row_squares = 0;     ///< a double for each row
  std::uint64_t column_squares = 0;  ///< a double for each column tile
  std::uint64_t slices = 1;          ///< copies of the three above: Shape::check_slices
  /// split-k: z, row_squares and column_squares of each layer. One all-gather fills this buffer,
  /// because the three are contiguous in this order.
  std::uint64_t gathered_z = 0;
  /// Verdicts and checksums of all tiles of a rank, verdicts of the rows of one tile per stream,
  /// and checksums of all batches.
  std::uint64_t verdicts = 0;
};

/// The device memory that the largest super-tile of any rank needs, in bytes as in BatchBuffers.
/// The same on every rank, except that idle ranks have no buffers.
struct Buffers {
  BatchBuffers batch;                   ///< one set for every batch in the ring
  CheckBuffers check;                   ///< one set
  std::uint64_t accumulators = 0;       ///< levels * held_tiles accumulators
  std::uint64_t kept_b = 0;             ///< factors and y of all B panels, if B is kept
  std::uint64_t lanes = 0;              ///< Shape::lanes_bytes() for each tile
  std::uint64_t c_tile = 0;             ///< one tile of C0, if C is read
  std::uint64_t mirrors = 0;            ///< max_mirrors tiles of each matrix that leaves
  std::uint64_t send = 0, receive = 0;  ///< of the exchange of split-k
};

/// Mirrored tiles that may be on their way to the host at once.
inline constexpr std::uint64_t max_mirrors = 4;

/// The parts of a factor that consists of residues, in bytes as in BatchBuffers. They follow one
/// another in this order.
struct ResidueParts {
  std::uint64_t planes = 0, exponents = 0;  ///< gemm::Residues
  std::uint64_t scratch = 0;                ///< gemm::ResiduesArgs::scratch

  std::uint64_t bytes() const { return saturating_sum({planes, exponents, scratch}); }
};
/// For a panel with so many rows (A) or columns (B).
ResidueParts residue_parts(const Problem& problem, gemm::Side side, std::uint64_t lines);

Buffers buffers_of(const Shape& shape, const CutSizes& sizes);
/// The sum of the buffers of one batch in the ring.
std::uint64_t batch_bytes(const BatchBuffers& batch);
/// The sum of the buffers of the verification; y belongs to the batches.
std::uint64_t check_bytes(const CheckBuffers& check);
/// The sum of all buffers and of Ranks::other_bytes, with `ring` batches in the ring.
std::uint64_t device_bytes(const Shape& shape, const CutSizes& sizes, std::uint64_t ring);

}  // namespace shardstream::workloads::product
