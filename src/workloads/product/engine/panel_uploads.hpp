// The upload of the panels of A and B: the pieces that a rank reads, and their places in a batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "io/source/matrix.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/engine/held_matrix.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// The work that makes a panel from an uploaded operand.
gemm::PanelWork panel_work(const Operands& operands, gemm::Side side, Backend backend);

/// The form in which A, or B, is uploaded.
UploadedOperand uploaded_operand(const Operands& operands, gemm::Side side, Backend backend);

/// A dense rectangle of a stored matrix. Elements outside the valid part (beyond the matrix, or
/// of another block) become zeros.
struct Rectangle {
  const io::Matrix* matrix;
  const HeldMatrix* held;  ///< its elements in host memory; null: they are read
  Range rows, columns, valid_rows, valid_columns;
  std::size_t element;  ///< bytes, as uploaded
  bool rounded;         ///< whether readers convert to panel elements

  std::size_t row_bytes() const { return columns.count * element; }
  std::size_t bytes() const { return rows.count * row_bytes(); }
  std::size_t stored_row_bytes() const { return columns.count * size_of(matrix->type()); }
};

/// The upload of a batch: this rank's parts of the A panel and of the B panel. A part that is
/// already in panel form goes directly to its place in the panel.
struct BatchUpload {
  std::uint64_t k, a_ld;  ///< of the block, and of its A panel
  PanelPart a_part, b_part;
  Rectangle a, b;
  // Bytes from the start of the batch: of this rank's parts; of B's panel, or its raw part.
  std::size_t a_offset, b_offset, b_panel;
  std::size_t a_pitch;           ///< bytes from one row of A's part to the next
  std::size_t bytes;             ///< of the batch, with room for the others' parts
  std::uint64_t a_step, b_step;  ///< rows of a rectangle in one piece
  std::uint64_t a_pieces, b_pieces;

  std::uint64_t pieces() const { return a_pieces + b_pieces; }
};

/// Rows in device memory. Contiguous rows count as one row; others are whole words of 8 bytes each.
struct PitchedRows {
  std::uint64_t rows;
  std::size_t row_bytes, pitch;  ///< pitch: from one row to the next

  std::size_t bytes() const { return rows * pitch; }
};
PitchedRows pitched_rows(std::uint64_t rows, std::size_t row_bytes, std::size_t pitch);

/// Runtime, operands and plan must outlive it. A run starts with begin().
class PanelUploads {
 public:
  /// Precomputed for every super-tile.
  struct Extent {
    SuperTile tiles;
    PanelPart a_part;
    bool a_from_b;
  };

  /// If pipeline.mode is pageable, allocates host memory for this rank's operands. Throws
  /// UsageError if the host's memory is too small for them, for staging, and for `other_bytes`
  /// bytes that the product needs in addition.
  PanelUploads(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
               const pipeline::StagingSizes& staging, std::uint64_t other_bytes);

  /// Loads A and B as pipeline.mode requests, before timing begins.
  void load();

  pipeline::RingSizes ring_sizes() const { return sizes_; }
  /// Pieces of a whole run.
  std::uint64_t pieces() const { return first_piece_.back(); }
  pipeline::ReaderPhase reader_phase() const {
    return held_b_ ? pipeline::copies : pipeline::reads;
  }
  /// Bytes that this rank uploads in a run.
  std::uint64_t uploaded() const { return uploaded_; }
  const Extent& extent(std::uint64_t super_tile) const { return extents_[super_tile]; }
  /// The parts of a panel are contiguous. B's panel begins at a multiple of 256 bytes.
  BatchUpload upload(std::uint64_t batch) const;
  /// Whether an earlier super-tile has kept the B panels.
  bool has_b(std::uint64_t super_tile) const { return plan_.cut.keeps_b && super_tile > 0; }

  void begin();
  pipeline::Piece piece(std::uint64_t number) const;
  /// Called by readers.
  const std::byte* read(std::uint64_t number, std::byte* slot);
  /// The checksum of a batch, complete once its pieces have been read.
  std::uint64_t checksum(std::uint64_t batch) const { return checksums_[batch]; }

 private:
  /// Some rows of one rectangle, and where they go.
  struct Rows {
    std::uint64_t batch;
    Rectangle rectangle;
    Range rows;
    std::size_t offset, pitch;  ///< bytes
  };

  void hold_operands(std::uint64_t other_bytes);
  void check_host_memory(std::uint64_t held, std::uint64_t other) const;
  std::size_t min_slot_bytes() const;
  void compute_sizes();
  BatchUpload undivided(std::uint64_t batch) const;
  Rectangle rectangle(gemm::Side side, Range rows, Range columns, Range valid_rows,
                      Range valid_columns) const;
  std::size_t place_a(BatchUpload& made, const Extent& extent) const;
  void place_b(BatchUpload& made, std::size_t a_bytes) const;
  Rows locate(std::uint64_t piece) const;
  static const std::byte* stored_rows(const Rectangle& from, Range rows, std::byte* to);

  runtime::Runtime& runtime_;
  const Operands& operands_;
  const Plan& plan_;
  pipeline::StagingSizes staging_;
  Backend backend_;
  std::size_t element_;  ///< bytes, of panels
  std::vector<Extent> extents_;
  pipeline::RingSizes sizes_;
  std::vector<std::uint64_t> first_piece_;  ///< of each batch, and one past the last
  std::uint64_t uploaded_ = 0;
  std::optional<HeldMatrix> held_a_, held_b_;
  std::vector<std::atomic<std::uint64_t>> checksums_;  ///< of each batch
};

}  // namespace shardstream::workloads::product
