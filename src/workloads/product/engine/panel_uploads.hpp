// The upload of the panels of A and B: the pieces that this rank reads, and their places in a
// batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/gemm/panel/panel.hpp"
#include "pipeline/pipeline_options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/held_matrix.hpp"
#include "workloads/product/engine/held_uploads.hpp"
#include "workloads/product/engine/rectangle.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// The work that makes a panel from an uploaded operand.
gemm::PanelWork panel_work(const Operands& operands, gemm::Side side, const gemm::Tile& tile,
                           Backend backend);

/// The form in which A, or B, is uploaded.
UploadedOperand uploaded_operand(const Operands& operands, gemm::Side side, const gemm::Tile& tile,
                                 Backend backend);

/// The pieces into which readers divide some rows: a few short ones first, then longer ones.
struct RowPieces {
  std::uint64_t rows = 0;  ///< number of rows
  std::uint64_t short_pieces = 0, short_rows = 1, long_rows = 1;

  std::uint64_t count() const {
    const std::uint64_t in_short = short_pieces * short_rows;
    return rows <= in_short ? ceil_div(rows, short_rows)
                            : short_pieces + ceil_div(rows - in_short, long_rows);
  }
  /// The rows of a piece, counted from the first row.
  Range operator[](std::uint64_t piece) const {
    const Range all{0, rows};
    if (piece < short_pieces) return intersection({piece * short_rows, short_rows}, all);
    const std::uint64_t in_short = short_pieces * short_rows;
    return intersection({in_short + (piece - short_pieces) * long_rows, long_rows}, all);
  }
};

/// The upload of a batch: this rank's parts of the A panel and of the B panel. A part that is not
/// raw (UploadedOperand) is uploaded to its place in the panel. The offsets are bytes from the
/// start of the batch.
struct BatchUpload {
  std::uint64_t k;               ///< depth of the block
  std::uint64_t a_ld;            ///< leading dimension of the A panel, in elements
  PanelPart a_part, b_part;      ///< this rank's parts
  Rectangle a, b;                ///< the same, in the stored matrices
  std::size_t a_offset;          ///< of this rank's part of A
  std::size_t b_offset;          ///< of this rank's part of B
  std::size_t b_panel;           ///< offset of B's whole panel; if B is raw, b_offset
  std::size_t a_pitch;           ///< bytes from one row of A's part to the next
  std::size_t bytes;             ///< size of the batch, with space for the parts of other ranks
  RowPieces a_pieces, b_pieces;  ///< of the rows of a and b

  std::uint64_t pieces() const { return a_pieces.count() + b_pieces.count(); }
};

/// Rows in device memory. Contiguous rows count as one row. If there are several rows, the bytes of
/// each are a multiple of 8.
struct PitchedRows {
  std::uint64_t rows;
  std::size_t row_bytes, pitch;  ///< `pitch`: bytes from one row to the next

  std::size_t bytes() const { return rows * pitch; }
};
PitchedRows pitched_rows(std::uint64_t rows, std::size_t row_bytes, std::size_t pitch);

/// Runtime, operands and plan must outlive it. A run starts with begin().
class PanelUploads {
 public:
  /// Properties of a super-tile, computed once.
  struct Extent {
    SuperTile tiles;
    PanelPart a_part;
    bool a_from_b;
  };

  /// If pipeline.mode is pageable, allocates host memory for this rank's operands; if it is pinned
  /// or write-combined, for its uploads. Throws UsageError if the host's memory is too small for
  /// them, for staging, and for `other_bytes` bytes that the product needs in addition.
  PanelUploads(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
               const pipeline::StagingSizes& staging, std::uint64_t other_bytes);

  /// Loads A and B as pipeline.mode requests, before timing begins.
  void load();

  /// The sizes of the ring for these uploads.
  pipeline::RingSizes ring_sizes() const { return sizes_; }
  /// Bytes of a slot. Without readers, the size that a slot would have.
  std::size_t slot_bytes() const { return slot_bytes_; }
  /// The number of pieces of a whole run. They are numbered from 0, batch by batch.
  std::uint64_t pieces() const { return first_piece_.back(); }
  pipeline::ReaderPhase reader_phase() const {
    return held_b_ ? pipeline::copies : pipeline::reads;
  }
  /// Bytes that this rank uploads in a run.
  std::uint64_t uploaded() const { return uploaded_; }
  const Extent& extent(std::uint64_t super_tile) const { return extents_[super_tile]; }
  /// The upload of batch number `batch`. The parts of a panel are contiguous. B's panel begins at a
  /// multiple of 256 bytes.
  BatchUpload upload(std::uint64_t batch) const;
  /// Whether the B panels are on the device from an earlier super-tile.
  bool has_b(std::uint64_t super_tile) const {
    return plan_.schedule.cut.keeps_b && super_tile > 0;
  }

  void begin();
  /// The destination of piece `number`.
  pipeline::UploadPiece piece(std::uint64_t number) const;
  /// UploadRing::Job::read() for piece `number`, with its checksum. Thread-safe.
  const std::byte* read(std::uint64_t number, std::byte* slot);
  /// The checksum of this rank's upload of a batch, complete once its pieces have been read.
  std::uint64_t checksum(std::uint64_t batch) const { return checksums_[batch]; }

 private:
  /// Some rows of one rectangle, and their destination in the batch.
  struct Rows {
    std::uint64_t batch;
    Rectangle rectangle;
    Range rows;
    std::size_t offset, pitch;  ///< bytes, of the first row and from one row to the next
  };

  void hold_operands(std::uint64_t other_bytes);
  std::vector<Rectangle> rectangles() const;
  void hold_uploads(device::Memory memory, std::uint64_t other_bytes);
  void check_host_memory(std::uint64_t held, std::uint64_t other) const;
  std::size_t min_slot_bytes() const;
  void compute_sizes();
  BatchUpload undivided(std::uint64_t batch) const;
  Rectangle rectangle(gemm::Side side, Range rows, Range columns, Range valid_rows,
                      Range valid_columns) const;
  std::size_t place_a(BatchUpload& made, const Extent& extent) const;
  void place_b(BatchUpload& made, std::size_t a_bytes, std::uint64_t columns) const;
  Rows locate(std::uint64_t piece) const;
  std::uint64_t copy(const Rectangle& from, Range rows, std::byte* room, std::byte* to) const;

  runtime::Runtime& runtime_;
  const Operands& operands_;
  const Plan& plan_;
  pipeline::StagingSizes staging_;
  Backend backend_;
  std::size_t element_;          ///< bytes of an element of a panel
  std::vector<Extent> extents_;  ///< one for each super-tile
  pipeline::RingSizes sizes_;
  /// The index of each batch's first piece. The last entry is the number of all pieces.
  std::vector<std::uint64_t> first_piece_;
  std::uint64_t uploaded_ = 0;
  std::size_t slot_bytes_ = 0, piece_bytes_ = 0;       ///< piece_bytes_: of the largest piece
  std::optional<HeldMatrix> held_a_, held_b_;          ///< with pipeline.mode pageable
  std::optional<HeldUploads> held_uploads_;            ///< with mode pinned or write-combined
  std::vector<std::atomic<std::uint64_t>> checksums_;  ///< one for each batch
};

}  // namespace shardstream::workloads::product
