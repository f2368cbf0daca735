// How C = alpha op(A) op(B) + beta C0 is computed within the ranks' memory: which tiles of C and
// blocks of K a rank has, the super-tiles that fit, their buffers and traffic, and a prediction of
// the time. Pure arithmetic: no MPI, no device. src/workloads/product/README.md describes the
// decompositions, the choice of one, and the prediction.
//
// Lock step. Every rank has the same number of super-tiles. In each of them the ranks of a grid row
// have the same rows of tiles and those of a grid column the same columns, either of which may be
// empty on some ranks; such a rank takes part in all gathers. The ranks of a layer also go through
// the same blocks in the same order. Layers meet only in the exchange at the end of each
// super-tile, and the number of their batches differs. What a rank does with others goes in one
// order, the same in all of a layer: gathers of a super-tile, its exchange, gathers of the next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shard.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads {

enum class Decomposition : std::uint8_t { automatic, rows, grid, split_k };

/// "auto", "rows", "grid", "split-k", as product.decomposition has them.
std::string_view name_of(Decomposition decomposition);

/// An operand as it comes to the device.
struct GemmOperand {
  std::uint64_t element_bytes = 0;  ///< as uploaded: what readers make of the stored ones
  /// Whether what is uploaded is not yet a panel (transposed, or of another type) but becomes one
  /// in a buffer of its own.
  bool raw = false;
};

/// How many ranks share rows of tiles, columns of tiles, and segments of K.
struct Box {
  std::uint64_t rows = 1, columns = 1, depth = 1;

  std::uint64_t layer() const { return saturating_product(rows, columns); }  ///< ranks of one
  std::uint64_t ranks() const { return saturating_product(layer(), depth); }
  /// Checksums that are kept of each batch: of its upload; where ranks gather A's panels also of
  /// each part of it, as it was sent and as it came; and of a symmetric product likewise of B's.
  std::uint64_t batch_sums(bool symmetric) const {
    return 1 + (columns > 1 ? 2 * columns : 0) + (symmetric && rows > 1 ? 2 * rows : 0);
  }

  bool operator==(const Box&) const = default;
};

/// All of it must be the same on every rank.
struct GemmProblem {
  std::uint64_t m = 1, n = 1, k = 1;
  gemm::Precision precision = gemm::Precision::fp64;
  GemmOperand a, b;
  bool reads_c = false;  ///< beta is not 0
  /// Whether C is kept on the host. If not, what is drained of a symmetric C has no mirrors.
  bool stores_c = true;
  /// B is the transpose of A (op(B) = op(A)^T), m = n, tile.m = tile.n, and C is not read: of a
  /// tile and its mirror one is computed.
  bool symmetric = false;
  Decomposition decomposition = Decomposition::automatic;
  std::optional<Box> box = std::nullopt;  ///< the only one to look at
  std::uint64_t ranks = 1;
  std::uint64_t device_memory = 0;  ///< bytes that every rank may use: the least of all ranks'
  std::uint64_t other_bytes = 0;    ///< of device memory that the caller needs besides
  bool on_host = false;
  unsigned streams = 1;  ///< that tiles take turns on (gemm::multiply_streams())
  gemm::Tile tile = {};
};

/// What a rank does in a second while all do, for the prediction. The same on every rank, above 0.
struct GemmRates {
  double link_up = 0, link_down = 0;  ///< bytes/s of a rank's host link; infinite down if C stays
  double gather = 0;                  ///< bytes/s that a rank receives in all-gathers and exchanges
  double flops = 0;                   ///< flop/s of a rank, of products in the panels' precision
  /// Whether all-gathers keep the thread that enqueues them, so that nothing is enqueued beside
  /// one.
  bool gathers_block = false;
};

/// Bytes of device memory of the largest super-tile of any rank, the same on every rank but idle
/// ones, which have none; each a multiple of 256, or 0 where there is none.
struct GemmBuffers {
  // One of each for every batch in the ring:
  std::uint64_t raw_a = 0, raw_b = 0;  ///< this rank's parts, where what is uploaded is not a panel
  /// Canonical, rows gemm::a_ld() apart; all parts of the grid row, or what a_from_b() makes. Not
  /// counted where int8 on a GPU has that in b_factor, whose rows it is.
  std::uint64_t a_panel = 0;
  std::uint64_t b_panel = 0;  ///< canonical; all parts of the grid column
  /// What is multiplied in a panel's place: fp32x3's of either, of three-fold depth; of B its
  /// transpose with int8 on a GPU.
  std::uint64_t a_factor = 0, b_factor = 0;
  std::uint64_t y = 0;  ///< two doubles for each of B's rows and columns of tiles
  // One of each:
  std::uint64_t z = 0;               ///< a double for each row and column of tiles
  std::uint64_t row_squares = 0;     ///< a double for each row
  std::uint64_t column_squares = 0;  ///< a double for each column of tiles
  std::uint64_t slices = 1;          ///< of the three above, as many as check_slices
  /// split-k: z, row_squares and column_squares of all layers, one layer's behind another's: what
  /// an all-gather of these three, contiguous in this order, receives.
  std::uint64_t gathered_z = 0;
  /// Verdicts of all of a rank's tiles, of the rows of one, and checksums of tiles and batches.
  std::uint64_t verdicts = 0;
  std::uint64_t accumulators = 0;       ///< levels * held_tiles of them
  std::uint64_t kept_b = 0;             ///< what is multiplied of all B panels, and y, if kept
  std::uint64_t lanes = 0;              ///< tile.lanes accumulators for each tile, if several
  std::uint64_t c_tile = 0;             ///< of the C that is read
  std::uint64_t mirrors = 0;            ///< mirrored tiles on their way out, four of them
  std::uint64_t send = 0, receive = 0;  ///< of the exchange with split-k
};

/// As product.box has it: "2x1x4".
std::string name_of(const Box& box);

/// Mirrored tiles that are on their way out at once.
inline constexpr std::uint64_t mirrors_on_their_way = 4;

/// A tile of C by its row and column among all tiles.
struct GemmTile {
  std::uint64_t row = 0, column = 0;

  bool operator==(const GemmTile&) const = default;
};

/// The tiles that a rank computes at once lie in these rows and columns of C's tiles: all of them,
/// or if the product is symmetric those that are computed().
struct GemmSuperTile {
  Range rows, columns;

  bool operator==(const GemmSuperTile&) const = default;
};

/// Computed tiles side by side in one row of a super-tile, their accumulators one behind another.
struct GemmRun {
  std::uint64_t row = 0;    ///< of C's tiles
  Range columns;            ///< of C's tiles
  std::uint64_t first = 0;  ///< the first one's place among the super-tile's tiles
};

/// The elements of rows or columns of tiles, or of blocks of K, as far as they are below `end`.
Range elements_of(Range tiles, std::uint64_t edge, std::uint64_t end = UINT64_MAX);

/// One block of K for one super-tile.
struct GemmBatch {
  std::uint64_t super_tile = 0, block = 0;
};

/// What a rank uploads of a panel: rows of op(A), or of op(B), of which only the valid ones are
/// read; the others are zeros. The valid ones are the first ones; their first is rows.first where
/// there are any.
struct GemmPart {
  Range rows, valid;
};

/// What a block of K does to the accumulators of a tile. They are a stack: level 0 at the bottom.
struct GemmStep {
  std::uint64_t level = 0;  ///< where the products of this block go
  bool begins = false;      ///< a segment: they are stored, not added
  bool ends = false;        ///< a segment: the sums of its lanes become its accumulator
  /// Behind this block, so many times: the accumulator of the level below becomes the sum of itself
  /// (left) and of that of the level (right), and is the top.
  std::uint64_t folds = 0;
};

/// A sum of the tree over segments: of those from index << height, 1 << height of them.
struct GemmNode {
  std::uint64_t height = 0, index = 0;

  bool operator==(const GemmNode&) const = default;
};

/// One addition of the fold of all layers' nodes: layer and its node on either side; the sum takes
/// the left one's place.
struct GemmAdd {
  std::uint64_t left_layer = 0, left_node = 0;
  std::uint64_t right_layer = 0, right_node = 0;
};

/// A decomposition that was considered.
struct GemmAlternative {
  Decomposition decomposition = Decomposition::rows;
  Box box;
  double seconds = 0;   ///< predicted; 0 if it can't be
  std::string why_not;  ///< empty if it can be
};

/// Predicted for the slowest rank of every super-tile.
struct GemmTimes {
  double compute_seconds = 0, upload_seconds = 0, gather_seconds = 0, drain_seconds = 0;
  double exchange_seconds = 0;
  double seconds = 0;  ///< of the whole, with what of these overlaps
};

/// How a product is cut in one box of ranks, the same on every rank.
struct GemmLayout {
  GemmProblem problem;
  Box box;
  std::uint64_t tile_rows = 0, tile_columns = 0;  ///< of C
  std::uint64_t blocks = 0;                       ///< of K
  /// Whether the first blocks are a quarter, a quarter and a half as deep as the others, so that
  /// the first batch is soon there: where gemm::may_begin_shallow(), and K is more than one block
  /// and one segment.
  bool begins_shallow = false;
  /// A power of two. Segment s has the blocks share(blocks, s, segments). Its products are summed
  /// block by block; segments are the leaves of a binary tree, whose root is the product.
  std::uint64_t segments = 1;
  /// Accumulators for each tile of a super-tile, of any rank: 1, or with segments what its stack
  /// needs. Level l of tile t (in the order of tiles()) is accumulator l * held_tiles + t.
  std::uint64_t levels = 1;
  std::uint64_t check_slices = 1;  ///< gemm::check_slices() of all rows
  // With split-k:
  std::uint64_t max_nodes = 1;      ///< of any rank
  std::uint64_t exchange_rows = 0;  ///< of a tile, exchanged at once; perhaps fewer at last
};

/// One rank's plan. Not the same on every rank are: rank, idle, row, column, layer, own_segments,
/// own_blocks, rows, columns, nodes, uploads, min_uploads, a_gathered, b_gathered, exchanged and
/// flops; on idle ranks also buffers and device_bytes.
struct GemmPlan : GemmLayout, GemmTimes {
  std::uint64_t rank = 0;

  Decomposition decomposition = Decomposition::rows;  ///< the chosen one, never automatic
  std::string why;                                    ///< a sentence on the choice
  std::vector<GemmAlternative> alternatives;          ///< all that were considered

  /// This rank's place in the box: rank = (layer * box.rows + row) * box.columns + column.
  std::uint64_t row = 0, column = 0, layer = 0;
  /// It has none: no tiles, segments, blocks and buffers.
  bool idle = false;

  Range own_segments;   ///< its layer's; all but with split-k; empty on idle ranks alone
  Range own_blocks;     ///< the blocks of these; every batch of a super-tile has one, in order
  Range rows, columns;  ///< of tiles, this rank's; may be empty

  std::uint64_t row_passes = 0, column_passes = 0;
  std::uint64_t first_rows = 0, first_of = 0;  ///< the first row pass, as Cut has it
  /// Whether B's panels, uploaded with the first super-tile, stay on the device for the others, and
  /// all tiles have accumulators of their own: a rank then uploads everything once, and tiles leave
  /// while later rows of A come.
  bool keeps_b = false;
  /// The passes that have computed tiles on some rank: row pass * column_passes + column pass, in
  /// order. A super-tile each.
  std::vector<std::uint64_t> passes;
  std::uint64_t max_rows = 0, max_columns = 0;  ///< of tiles, in any rank's largest super-tile
  std::uint64_t max_tiles = 0;                  ///< computed ones, likewise
  /// Tiles that have accumulators: those of a super-tile, or if keeps_b of all of any rank's.
  std::uint64_t held_tiles = 0;

  std::uint64_t ring = 0;  ///< batches in device memory: 2 to 8, or all if fewer
  /// The last batches of a super-tile that are computed tile by tile, all of them for a tile before
  /// the next one's, so that tiles leave while others are computed: at least 1, at most `ring`, all
  /// in the last own segment.
  std::uint64_t window = 1;

  // With split-k; one node, and else nothing, without, and nothing on idle ranks.
  std::vector<GemmNode> nodes;  ///< of own_segments: node i is on level i when the last block is
                                ///< folded; left to right

  GemmBuffers buffers;
  std::uint64_t device_bytes = 0;  ///< all buffers and the caller's other_bytes

  std::uint64_t uploads = 0;  ///< bytes that this rank uploads: panels with their padding, and C
  /// Bytes without padding that this rank would upload in this decomposition with the best extents
  /// if its accumulators had all of the memory: no order of whole super-tiles does with less.
  std::uint64_t min_uploads = 0;
  std::uint64_t a_gathered = 0;  ///< bytes that this rank receives in all-gathers of A panels
  std::uint64_t b_gathered = 0;  ///< of B panels and their y
  std::uint64_t exchanged = 0;   ///< from other ranks in the exchanges of split-k, with z
  double flops = 0;              ///< of this rank's products, without padding

  std::uint64_t super_tiles() const { return passes.size(); }
  /// Of this rank.
  std::uint64_t batches() const { return super_tiles() * own_blocks.count; }
  /// Bytes from other ranks, of all kinds.
  std::uint64_t received() const { return a_gathered + b_gathered + exchanged; }

  /// They come pass of rows by pass of rows; in one, column by column. A symmetric product's
  /// columns are those from the first to the last that any rank of the grid column needs.
  GemmSuperTile super_tile(std::uint64_t number) const;
  GemmBatch batch(std::uint64_t number) const {
    return {number / own_blocks.count, own_blocks.first + number % own_blocks.count};
  }

  /// Whether this tile of C is computed, or is the mirror of one that is. With d = (column - row)
  /// mod T of T x T tiles: computed iff 2 d < T; or if 2 d = T and the row is one of the even ones
  /// of the first T / 2, or one of the odd ones, counted anew, of the others. So every row of tiles
  /// has as many as another, or one more or less.
  bool computed(GemmTile tile) const;
  /// The computed tiles of a super-tile, row by row, in each by columns: the order in which their
  /// accumulators stand. The super-tile is one of this rank's.
  std::vector<GemmTile> tiles(const GemmSuperTile& super_tile) const;
  std::vector<GemmRun> runs(const GemmSuperTile& super_tile) const;  ///< the same, run by run
  std::uint64_t count_tiles(const GemmSuperTile& super_tile) const;

  /// Of all tiles in this rank's rows and columns, computed or not, row by row: a place for
  /// verdicts.
  std::uint64_t number_of(GemmTile tile) const {
    return (tile.row - rows.first) * columns.count + tile.column - columns.first;
  }
  std::uint64_t numbered_tiles() const { return rows.count * columns.count; }
  /// Of each batch.
  std::uint64_t batch_sums() const { return box.batch_sums(problem.symmetric); }
  /// Whether this rank folds, checks and drains the tile number `index` of tiles(): all, but with
  /// split-k only every one that is its layer's. Tiles are exchanged box.depth at a time, in their
  /// order.
  bool owns(std::uint64_t index) const { return index % box.depth == layer; }

  /// Rows of op(A) of the super-tile's panel that this rank uploads, padding included: those of the
  /// panel divided by box.columns, rounded up. The gathered panel has box.columns * that.
  std::uint64_t a_part_rows(const GemmSuperTile& super_tile) const;
  /// Part `column` of the A panel. Nothing where a_from_b(). Columns of A: those of the block.
  GemmPart a_part(const GemmSuperTile& super_tile) const;
  /// Rows of op(B), and columns of op(A), of such blocks of K, with padding behind the last.
  Range depth(Range of) const;
  /// Rows of the block's B panel that this rank uploads, whatever is padding among them: those of
  /// the panel divided by box.rows, rounded up. The gathered panel has box.rows * that.
  std::uint64_t b_part_rows(std::uint64_t block) const;
  /// Part `row` of the block's B panel. Columns of B: those of the super-tile.
  GemmPart b_part(std::uint64_t block) const;
  /// Whether the A panel is not uploaded, since it is the transpose of columns of the gathered B
  /// panel: those of the rows' tiles, which lie within the super-tile's columns. Only where the
  /// product is symmetric and no other rank has a part of the A panel.
  bool a_from_b(const GemmSuperTile& super_tile) const;

  GemmStep step(std::uint64_t block) const;  ///< of own_blocks
  /// How an owner folds a tile after an exchange, in order: the last sum, in the place of layer 0's
  /// node 0, is the product. Empty if one layer has the root.
  std::vector<GemmAdd> fold() const;

  /// "computing", "host link", "all-gathers", "exchange" or "download": what takes longest by
  /// itself.
  std::string_view bound_by() const;
};

/// The plan of the chosen decomposition. Throws UsageError where the decomposition or box that is
/// asked for is not possible, and, naming the pipeline.gpu-memory that would do, where even the
/// smallest super-tiles do not fit; on every rank or on none.
GemmPlan plan_gemm(const GemmProblem& problem, const GemmRates& rates, std::uint64_t rank);

/// The plan in lines of text without line ends.
std::vector<std::string> describe(const GemmPlan& plan);

}  // namespace shardstream::workloads
