// One rank's part of C = alpha op(A) op(B) + beta C0, computed super-tile by super-tile while the
// blocks of K stream by, checked on the device and drained to the host.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/buffer.hpp"
#include "io/dataset_file.hpp"
#include "io/matrix.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply.hpp"
#include "pipeline/drain.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/gemm_plan.hpp"
#include "workloads/held_matrix.hpp"

namespace shardstream::workloads {

/// What is multiplied. `c` is null where beta is 0.
struct GemmOperands {
  std::unique_ptr<io::Matrix> a, b, c;
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  gemm::Precision precision = gemm::Precision::fp64;
  std::uint64_t m = 0, n = 0, k = 0;
};

/// What a repetition made of this rank's tiles, as far as it was seen to be right.
struct GemmVerdict {
  std::string failure;          ///< empty: everything agrees
  double worst = 0;             ///< of all rows and column tiles: deviation by bound
  double smallest_caught = 0;   ///< a deviation of one element that no row's check would miss
  std::uint64_t unchecked = 0;  ///< rows of tiles whose operands are not all finite
  std::uint64_t checksum = 0;   ///< sum of each element's bits times its weight, mod 2^64
  std::vector<double> squares;  ///< sum of C's squares in each of the rank's tiles, in order
};

/// Allocates once; run() may be repeated. Runtime, operands and `to` must outlive it.
class GemmProduct {
 public:
  /// C's elements go to `to` as well, if it is not null. Throws UsageError where the host's memory
  /// does not hold what this rank reads, and pipeline.mode wants it there.
  GemmProduct(runtime::Runtime& runtime, const GemmOperands& operands, const GemmPlan& plan,
              const pipeline::Ring& staging, const io::RangeWriter* to);

  /// Brings A and B to where pipeline.mode wants them before timing begins.
  void load();
  /// One repetition, all of it: when it returns, C has left the device. Called by all ranks.
  void run();
  /// Of the last repetition.
  GemmVerdict verdict() const;
  /// Of the last repetition: this rank's part of the sum of all elements' weighted bits.
  std::uint64_t checksum() const { return checksum_; }

  /// Bytes of a staging slot: as wanted, or the eight rows that are read at once.
  std::size_t slot_bytes() const { return slot_bytes_; }
  /// Bytes that this rank uploaded in one repetition.
  std::uint64_t uploaded() const { return uploaded_; }

 private:
  /// A dense rectangle of a stored matrix. What of it is not valid (past the matrix, or another
  /// block's) becomes zeros.
  struct Rectangle {
    const io::Matrix* matrix;
    const HeldMatrix* held;  ///< where its elements are in memory, if they are
    Range rows, columns, valid_rows, valid_columns;

    std::size_t row_bytes() const { return columns.count * size_of(matrix->type()); }
    std::size_t bytes() const { return rows.count * row_bytes(); }
  };
  /// What a batch uploads: A's rectangle, then B's. Where B's is a part of the panel as it is, it
  /// goes to its place among all ranks' parts; these begin at a multiple of 256 bytes.
  struct Shape {
    Rectangle a, b;
    std::size_t panel_offset, b_offset;  ///< bytes: of B's panel, or of its raw part; of the part
    std::uint64_t a_step, b_step;        ///< rows of a rectangle in one piece
    std::uint64_t a_pieces, b_pieces;

    std::uint64_t pieces() const { return a_pieces + b_pieces; }
  };
  /// One tile of C on this rank.
  struct Place {
    std::uint64_t number;  ///< among the rank's tiles, row by row
    Range rows, columns;   ///< of C; only these of the tile are valid
  };

  void hold_operands();
  void check_host_memory(std::uint64_t held) const;
  /// Of the way back: eight rows of a tile or more.
  std::size_t drain_slot_bytes() const {
    return std::max<std::size_t>(staging_.slot_bytes, 8 * tile_row_bytes_);
  }
  pipeline::RingSizes ring_sizes();
  Shape shape(const GemmSuperTile& super_tile, std::uint64_t block) const;
  std::uint64_t rows_a_piece(const Rectangle& rectangle) const;
  pipeline::Piece piece(std::uint64_t number) const;
  const std::byte* read(std::uint64_t number, std::byte* slot);
  struct Located {
    std::uint64_t batch, within;  ///< the piece's number in its batch
  };
  Located locate(std::uint64_t piece) const;

  void arrive(device::Stream& stream, std::uint64_t number, std::byte* data);
  void compute(device::Stream& stream, std::uint64_t number);
  void multiply(device::Stream& stream, std::uint64_t number, std::uint64_t row,
                std::uint64_t column, std::uint64_t rows, std::uint64_t columns);
  void finish_tile(device::Stream& stream, std::uint64_t number, std::uint64_t row,
                   std::uint64_t column);
  void read_c(const Place& place);
  void add_c(device::Stream& stream, const Place& place, std::byte* tile);
  void drain_tile(const Place& place, std::uint64_t index);
  void take(const Place& place, Range rows, const std::byte* data);

  Place place(const GemmSuperTile& super_tile, std::uint64_t row, std::uint64_t column) const;
  std::byte* accumulator(std::uint64_t index) const {
    return accumulators_.data() + index * tile_bytes_;
  }

  runtime::Runtime& runtime_;
  const GemmOperands& operands_;
  GemmPlan plan_;
  pipeline::Ring staging_;
  const io::RangeWriter* to_;
  bool on_host_;
  std::size_t panel_element_, element_;  ///< bytes: of panels, of accumulators and C
  std::size_t tile_row_bytes_, tile_bytes_;
  std::size_t slot_bytes_ = 0;
  std::unique_ptr<gemm::MultiplyPlan> multiply_plan_;
  std::optional<HeldMatrix> held_a_, held_b_;
  std::vector<std::uint64_t> first_piece_;  ///< of each super-tile, and one past the last
  std::uint64_t uploaded_ = 0;

  /// What a batch in the ring has besides what is uploaded.
  struct Panels {
    device::Buffer<std::byte> a, b;
    device::Buffer<double> y;
    // Where the batch's panels stand now: in the above, or as they were uploaded.
    const std::byte *a_now = nullptr, *b_now = nullptr;
  };
  std::vector<Panels> panels_;
  device::Buffer<double> z_, row_squares_, column_squares_;  ///< of the super-tile at work
  device::Buffer<gemm::RowVerdict> row_verdicts_;
  device::Buffer<std::byte> accumulators_;
  device::Buffer<std::byte> c_there_, c_here_;  ///< one tile of C0
  std::vector<std::byte> c_stored_;             ///< the same as stored, where that differs
  std::unique_ptr<device::Event> c_read_;
  device::Buffer<gemm::TileVerdict> verdicts_, verdicts_here_;
  device::Buffer<std::uint64_t> sums_, sums_here_;  ///< word sums: of batches, then of tiles

  std::vector<std::atomic<std::uint64_t>> read_sums_;   ///< of batches, by the readers
  std::vector<std::atomic<std::uint64_t>> taken_sums_;  ///< of tiles, by the writers
  std::atomic<std::uint64_t> checksum_ = 0;
  // By the writers; of each tile: its rows' squares until the last is there, and their sum.
  std::vector<std::vector<double>> row_squares_here_;
  std::vector<std::atomic<std::uint64_t>> rows_taken_;
  std::vector<double> tile_squares_;

  // Of each accumulator.
  std::vector<std::unique_ptr<device::Event>> computed_;
  std::vector<std::uint64_t> drained_;  ///< the push of what stood there last
  pipeline::UploadRing ring_;
  std::optional<pipeline::Drain> drain_;  ///< none on a rank without tiles
};

}  // namespace shardstream::workloads
