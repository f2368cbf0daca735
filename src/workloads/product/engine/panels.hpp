// The panels of A and B: the pieces that a rank reads and uploads, and how the pieces of a batch
// become complete, checked panels on every rank that multiplies them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "device/buffer.hpp"
#include "io/source/matrix.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/engine/held_matrix.hpp"
#include "workloads/product/engine/normalization.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// The seed of the signs that every product is checked with.
inline constexpr std::uint64_t sign_seed = 0x73686172;

/// The form in which A, or B, is uploaded.
UploadedOperand uploaded_operand(const Operands& operands, gemm::Side side, Backend backend);

/// Allocates once; a run starts with begin(). Runtime, operands and plan must outlive it.
class Panels {
 public:
  /// A batch's panels after its arrival has been enqueued: the panels for the check, and the
  /// factors that are multiplied, which may be the same memory.
  struct Batch {
    std::uint64_t k = 0;  ///< columns of A's panel and rows of B's, without padding of parts
    const std::byte *a = nullptr, *b = nullptr;
    std::uint64_t a_ld = 0;     ///< elements from one row of A's panel to the next
    const double* y = nullptr;  ///< of gemm::SignedSumsArgs, for all rows of the B panel
    const std::byte *a_factor = nullptr, *b_factor = nullptr;
    std::uint64_t b_factor_ld = 0;  ///< as in gemm::MultiplyArgs
  };

  /// Throws UsageError if the host's memory is too small for staging and, with pipeline.mode
  /// pageable, for this rank's operands.
  /// `other_host_bytes`: host memory that the product needs in addition.
  Panels(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
         const pipeline::Ring& staging, std::uint64_t other_host_bytes);

  /// Loads A and B as pipeline.mode requests, before timing begins.
  void load();

  /// Bytes of device memory for shifts and scales, which the constructor allocates.
  static std::uint64_t normalization_bytes(const Operands& operands, const gemm::Tile& tile);
  /// Uploads the shifts and scales of all variables. Call it before a run.
  void normalize(device::Stream& stream, const Normalization& normalization);
  const double* scales() const { return scale_.data(); }  ///< on the device

  pipeline::RingSizes ring_sizes() const { return sizes_; }
  /// Pieces of a whole run.
  std::uint64_t pieces() const { return first_piece_.back(); }
  pipeline::ReaderPhase reading() const { return held_b_ ? pipeline::copies : pipeline::reads; }
  /// The kind of work on arrival: communication if panels are gathered, because the kernels are
  /// short in comparison.
  measure::Kind arrival() const {
    const bool gathers = a_parts_ != nullptr || b_parts_ != nullptr;
    return gathers ? measure::Kind::communication : measure::Kind::useful;
  }
  /// Bytes that this rank uploads in a run.
  std::uint64_t uploaded() const { return uploaded_; }

  /// Starts a run. No stream may use this object's memory.
  void begin(device::Stream& stream);
  pipeline::Piece piece(std::uint64_t number) const;
  /// Called by readers.
  const std::byte* read(std::uint64_t number, std::byte* slot);
  /// Enqueues the work that turns the upload at `data` into panels. Collective, batch by batch, on
  /// the thread that owns the MPI session.
  void arrive(device::Stream& stream, std::uint64_t number, std::byte* data);
  const Batch& batch(std::uint64_t number) const { return own_[number % own_.size()].now; }

  /// On the device: plan.batch_sums() checksums of each batch, in order, complete once they have
  /// arrived: first that of its upload; then, if it gathers a panel from which both sides of C's
  /// check are computed, those of all parts as they were sent and of all parts as they arrived.
  const std::uint64_t* device_sums() const { return sums_.data(); }
  /// A sentence on corrupted uploads or gathers of the batches, whose checksums on the device were
  /// `there`; empty if there are none. Call it after their pieces have been read.
  std::string failure(Range batches, const std::uint64_t* there) const;

  /// Waits for a stream whose work has gone through arrive().
  void wait(device::Stream& stream);

 private:
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
  struct Upload {
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
  /// Precomputed for every super-tile.
  struct Extent {
    SuperTile tiles;
    PanelPart a_part;
    bool a_from_b;
  };
  /// Some rows of one rectangle, and where they go.
  struct Rows {
    std::uint64_t batch;
    Rectangle rectangle;
    Range rows;
    std::size_t offset, pitch;  ///< bytes
  };
  /// Rows on the device. Contiguous rows count as one row; others are whole words of 8 bytes each.
  struct Lines {
    std::uint64_t rows;
    std::size_t row_bytes, pitch;  ///< from one row to the next

    std::size_t bytes() const { return rows * pitch; }
  };
  /// Buffers of a batch in the ring, besides the upload.
  struct Own {
    device::Buffer<std::byte> a, b, a_factor, b_factor;
    device::Buffer<double> y;
    std::uint64_t* sums = nullptr;  ///< of the batch that it holds
    Batch now;
  };
  /// A block's B factor and its y, kept for the super-tiles after the first one.
  struct Kept {
    device::Buffer<std::byte> factor;
    device::Buffer<double> y;
    std::uint64_t ld = 0;
  };

  /// Whether an earlier super-tile has kept the B panels.
  bool has_b(std::uint64_t super_tile) const { return plan_.cut.keeps_b && super_tile > 0; }
  void keep_b(device::Stream& stream, const SuperTile& super_tile, Own& own, Kept& kept) const;
  void hold_operands(std::uint64_t other_host_bytes);
  void check_host_memory(std::uint64_t held, std::uint64_t other) const;
  void measure_ring();
  void open_parts();
  Rectangle rectangle(gemm::Side side, Range rows, Range columns, Range valid_rows,
                      Range valid_columns) const;
  Upload upload(std::uint64_t batch) const;
  Rows locate(std::uint64_t piece) const;
  static const std::byte* stored_rows(const Rectangle& from, Range rows, std::byte* to);
  const std::byte* arrive_a(device::Stream& stream, const Upload& uploaded, std::byte* data,
                            Own& own);
  const std::byte* arrive_b(device::Stream& stream, const Upload& uploaded, std::byte* data,
                            Own& own, const SuperTile& super_tile);
  static Lines lines(std::uint64_t rows, std::size_t row_bytes, std::size_t pitch);
  static void add_words(device::Stream& stream, const std::byte* first, const Lines& lines,
                        std::uint64_t* sum);
  void gather(device::Stream& stream, comm::Communicator& parts, std::byte* panel,
              const Lines& part, std::uint64_t* sums) const;
  void make_panel(device::Stream& stream, gemm::Side side, const Upload& uploaded,
                  const std::byte* from, std::byte* to) const;
  void turn_b(device::Stream& stream, const SuperTile& super_tile, Own& own) const;
  const std::byte* turn_into_a(device::Stream& stream, const SuperTile& super_tile, std::byte* data,
                               Own& own) const;
  void split(device::Stream& stream, const SuperTile& super_tile, Own& own) const;
  std::uint64_t* sums_of(std::uint64_t batch) { return sums_.data() + batch * plan_.batch_sums(); }

  runtime::Runtime& runtime_;
  const Operands& operands_;
  const Plan& plan_;
  pipeline::Ring staging_;
  Backend backend_;
  std::size_t element_;  ///< bytes, of panels
  std::vector<Extent> extents_;
  pipeline::RingSizes sizes_;
  std::vector<std::uint64_t> first_piece_;  ///< of each batch, and one past the last
  std::uint64_t uploaded_ = 0;
  std::optional<HeldMatrix> held_a_, held_b_;
  // The ranks that share this rank's A panels, and its B panels: all, some, or none (null).
  std::unique_ptr<comm::Communicator> own_row_, own_column_;
  comm::Communicator *a_parts_ = nullptr, *b_parts_ = nullptr;
  device::Buffer<double> shift_, scale_;
  std::vector<Own> own_;
  std::vector<Kept> kept_;                        ///< of each block, if the plan keeps B
  device::Buffer<std::uint64_t> sums_;            ///< on the device, as device_sums() has them
  std::vector<std::atomic<std::uint64_t>> read_;  ///< likewise, by the readers
};

}  // namespace shardstream::workloads::product
