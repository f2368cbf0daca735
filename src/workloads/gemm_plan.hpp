// How C = alpha op(A) op(B) + beta C is computed within a rank's memory: which tiles a rank has,
// the super-tiles that fit, their buffers and traffic, and a prediction of the time. Pure
// arithmetic: no MPI, no device.
//
// A rank owns whole rows of tiles. It computes them super-tile by super-tile; a super-tile's
// accumulators stay on the device while all blocks of K go by, in batches of one block each: an A
// panel that the rank uploads, and a B panel of which it uploads one part, the other ranks the
// rest, and which an all-gather completes. So all ranks go through the same row passes, column
// passes and blocks together, even where a rank has no rows in a pass.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/shard.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads {

/// An operand as it lies in its file.
struct GemmOperand {
  std::uint64_t element_bytes = 0;  ///< as stored, and so as uploaded
  /// Whether what is uploaded is not yet a panel (transposed, or of another type) but becomes one
  /// in a buffer of its own.
  bool raw = false;
};

/// All of it must be the same on every rank.
struct GemmProblem {
  std::uint64_t m = 1, n = 1, k = 1;
  gemm::Precision precision = gemm::Precision::fp64;
  GemmOperand a, b;
  bool reads_c = false;  ///< beta is not 0
  std::uint64_t ranks = 1;
  std::uint64_t device_memory = 0;  ///< bytes that every rank may use: the least of all ranks'
  std::uint64_t other_bytes = 0;    ///< of device memory that the caller needs besides
  bool on_host = false;
  gemm::Tile tile = {};
};

/// What a rank does in a second while all do, for the prediction. The same on every rank, above 0.
struct GemmRates {
  double link_up = 0, link_down = 0;  ///< bytes/s of a rank's host link; infinite down if C stays
  double gather = 0;                  ///< bytes/s that a rank receives in all-gathers
  double flops = 0;                   ///< flop/s of a rank
};

/// Bytes of device memory of the largest super-tile, the same on every rank; each a multiple of
/// 256.
struct GemmBuffers {
  // One of each for every batch in the ring:
  std::uint64_t raw_a = 0, raw_b = 0;  ///< 0 where what is uploaded is the panel, or its part
  std::uint64_t a_panel = 0;
  std::uint64_t b_panel = 0;  ///< all ranks' parts
  std::uint64_t y = 0;        ///< two doubles for each of its rows and column of tiles
  // One of each:
  std::uint64_t z = 0;               ///< a double for each row and column of tiles
  std::uint64_t row_squares = 0;     ///< a double for each row
  std::uint64_t column_squares = 0;  ///< a double for each column of tiles
  std::uint64_t verdicts =
      0;  ///< of all tiles of a rank, with their word sums, and of a tile's rows
  std::uint64_t accumulators = 0;
  std::uint64_t c_tile = 0;  ///< of the C that is read; 0 if none is
};

/// The tiles that a rank computes at once: rows of C's tiles (of this rank, perhaps none) and
/// columns of them (the same on every rank).
struct GemmSuperTile {
  Range rows, columns;

  std::uint64_t tiles() const { return rows.count * columns.count; }
};

/// One block of K for one super-tile.
struct GemmBatch {
  std::uint64_t super_tile = 0, block = 0;
};

/// One rank's plan. All but `rows`, its uploads and `flops` is the same on every rank.
struct GemmPlan {
  GemmProblem problem;
  std::uint64_t rank = 0;

  std::uint64_t tile_rows = 0, tile_columns = 0;  ///< of C
  std::uint64_t blocks = 0;                       ///< of K
  Range rows;                                     ///< this rank's rows of tiles; may be empty
  std::uint64_t row_passes = 0, column_passes = 0;
  std::uint64_t most_rows = 0, most_columns = 0;  ///< of tiles, in the largest super-tile
  /// Rows of a B panel that a rank uploads, whatever is padding among them. The gathered panel has
  /// ranks * part_rows, which may be some more than tile.k: zeros.
  std::uint64_t part_rows = 0;
  std::uint64_t ring = 0;  ///< batches in device memory: 3; 2 if memory is tight; or all if fewer

  GemmBuffers buffers;
  std::uint64_t device_bytes = 0;  ///< all buffers and the caller's other_bytes

  std::uint64_t uploads = 0;  ///< bytes that this rank uploads: panels with their padding, and C
  /// Bytes without padding that this rank would upload with the best extents if its accumulators
  /// had all of the memory: no order of whole super-tiles does with less. If they all fit: its rows
  /// of A, its part of B, and its C.
  std::uint64_t least_uploads = 0;
  std::uint64_t gathered = 0;  ///< bytes that this rank receives in all-gathers
  double flops = 0;            ///< of this rank's part of C, without padding

  // Predicted for the rank with the most rows:
  double compute_seconds = 0, upload_seconds = 0, gather_seconds = 0, drain_seconds = 0;
  double seconds = 0;  ///< of the whole, with what of these overlaps

  std::uint64_t super_tiles() const { return row_passes * column_passes; }
  std::uint64_t batches() const { return super_tiles() * blocks; }

  /// They come pass of rows by pass of rows; in one, column by column.
  GemmSuperTile super_tile(std::uint64_t number) const;
  /// The blocks of a super-tile come in order.
  GemmBatch batch(std::uint64_t number) const { return {number / blocks, number % blocks}; }
  /// The rows of op(B) that this rank uploads for the block, without those past K; may be empty.
  Range b_rows(std::uint64_t block) const;

  /// "computing", "host link", "all-gathers" or "download": what takes longest by itself.
  std::string_view bound_by() const;
};

/// The extents are, of those that fit, the ones that upload least among those whose predicted time
/// is within 4 % of the least; then the largest super-tiles, then the longest ring. The prediction:
/// the first panels arrive, batches follow one another at the rate of the slowest of uploading,
/// gathering and computing, and finished tiles are drained while the last batch of their
/// super-tile and the first of the next compute tile by tile; the next super-tile waits for those
/// that take longer, the end for the last ones. Throws UsageError naming the pipeline.gpu-memory
/// that would do where even the smallest super-tiles do not fit; on every rank or on none.
GemmPlan plan_gemm(const GemmProblem& problem, const GemmRates& rates, std::uint64_t rank);

/// The plan in lines of text without line ends.
std::vector<std::string> describe(const GemmPlan& plan);

}  // namespace shardstream::workloads
