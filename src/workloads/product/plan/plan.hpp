// The plan of C = alpha op(A) op(B) + beta C0 within the memory of the ranks. It has the tiles of C
// and the blocks of K of each rank, the super-tiles that fit, buffers, traffic, and a prediction of
// the time. Pure arithmetic: no MPI, no device. src/workloads/product/README.md describes the
// decompositions, how one is chosen, and the prediction.
//
// Lock step. Every rank has the same number of super-tiles. In each super-tile the ranks of a grid
// row have the same rows of tiles, and the ranks of a grid column the same columns. Rows or columns
// may be empty on some ranks; such a rank still takes part in all gathers. The ranks of a layer
// process the same blocks in the same order. Different layers communicate only in the exchange at
// the end of each super-tile, and may have different numbers of batches. All ranks of a layer make
// their collective calls in one order: gathers of a super-tile, its exchange, gathers of the next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shard.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads::product {

// ---------------------------------------------------------------- the problem

enum class Decomposition : std::uint8_t { automatic, rows, grid, split_k };

/// "auto", "rows", "grid", "split-k": the values of product.decomposition.
std::string_view name_of(Decomposition decomposition);

/// The form in which an operand is uploaded.
struct UploadedOperand {
  std::uint64_t element_bytes = 0;  ///< bytes of an element, after a conversion by readers
  /// Whether the uploaded data are not yet a panel, because they are transposed or have another
  /// type. A kernel then makes the panel in a separate buffer.
  bool raw = false;
};

/// The numbers of ranks that share rows of tiles, columns of tiles, and segments of K.
struct Box {
  std::uint64_t rows = 1, columns = 1, depth = 1;

  /// Ranks of one layer.
  std::uint64_t layer() const { return saturating_product(rows, columns); }
  std::uint64_t ranks() const { return saturating_product(layer(), depth); }
  /// The number of checksums of a batch: one of the upload and, if ranks gather A's panels, two for
  /// each part of the panel (as sent, as received). In a symmetric product there are also two for
  /// each part of B's panel, because both sides of the check are computed from the gathered panel.
  std::uint64_t batch_checksums(bool symmetric) const {
    return 1 + (columns > 1 ? 2 * columns : 0) + (symmetric && rows > 1 ? 2 * rows : 0);
  }

  bool operator==(const Box&) const = default;
};

/// The value of product.box: "2x1x4".
std::string name_of(const Box& box);

/// The values of product.decomposition and product.box.
struct RequestedPlacement {
  Decomposition decomposition = Decomposition::automatic;
  std::optional<Box> box = std::nullopt;  ///< if set, no other box is considered
};

/// The ranks that compute a product, all with the same resources.
struct Ranks {
  std::uint64_t count = 1;
  std::uint64_t device_memory = 0;  ///< bytes that each rank may use: the minimum over all ranks
  std::uint64_t other_bytes = 0;    ///< bytes of device memory that the caller needs in addition
  /// Bytes of host memory that a rank needs in addition to `device_memory`, for a message. 0 with
  /// CUDA, and if pipeline.gpu-memory was set.
  std::uint64_t host_bytes = 0;
  Backend backend = Backend::cuda;
  unsigned streams = 1;  ///< number of streams on which tiles take turns: gemm::multiply_streams()
};

/// The product, and the ranks for which it is planned. The same on every rank.
struct Problem {
  std::uint64_t m = 1, n = 1, k = 1;
  gemm::Precision precision = gemm::Precision::fp64;
  UploadedOperand a, b;
  bool reads_c = false;  ///< beta is not 0
  /// Whether C is stored. If not, a symmetric C is drained without its mirrored tiles.
  bool stores_c = true;
  /// Whether op(B) is the transpose of op(A). Then only one of a tile and its mirror is computed.
  /// It requires m = n and tile.m = tile.n, and that C is not read.
  bool symmetric = false;
  gemm::Tile tile = {};
  RequestedPlacement requested = {};
  Ranks ranks = {};
};

/// Rates of one rank while all ranks work, for the prediction. All are above 0 and the same on
/// every rank.
struct Rates {
  /// Bytes/s of a rank's host link. link_down is infinite if C does not leave the device.
  double link_up = 0, link_down = 0;
  double gather = 0;  ///< bytes/s that a rank receives in all-gathers and exchanges
  double flops = 0;   ///< flop/s of a rank, of products in the panels' precision
  /// Whether an all-gather blocks the thread that enqueues it. Nothing else is enqueued meanwhile.
  bool gathers_block = false;
};

// ---------------------------------------------------------------- parts of C and K

/// A tile of C by its row and column among all tiles.
struct TileIndex {
  std::uint64_t row = 0, column = 0;

  bool operator==(const TileIndex&) const = default;
};

/// The rows and columns of tiles that a rank computes in one pass over its blocks of K. It computes
/// all tiles in these rows and columns or, in a symmetric product, those that are computed().
struct SuperTile {
  Range rows, columns;

  bool operator==(const SuperTile&) const = default;
};

/// Adjacent computed tiles in one row of a super-tile. Their accumulators are contiguous.
struct TileRun {
  std::uint64_t row = 0;    ///< of C's tiles
  Range columns;            ///< of C's tiles
  std::uint64_t first = 0;  ///< index of the first tile among the super-tile's tiles
};

/// The range of elements in a range of tiles (or of blocks) that are `edge` elements long, as far
/// as it is below `end`.
Range elements_of(Range tiles, std::uint64_t edge, std::uint64_t end = UINT64_MAX);

/// One block of K for one super-tile.
struct BatchIndex {
  std::uint64_t super_tile = 0, block = 0;
};

/// The part of a panel that a rank uploads: some rows of op(A), or of op(B). The valid rows come
/// first and are read. The other rows are zeros. valid.first is rows.first unless `valid` is empty.
struct PanelPart {
  Range rows, valid;
};

/// The effect of a block of K on the accumulators of a tile. The accumulators are a stack with
/// level 0 at the bottom.
struct BlockStep {
  std::uint64_t level = 0;  ///< the level that receives the products of this block
  bool begins = false;      ///< the block begins a segment: its products are stored, not added
  bool ends = false;        ///< the block ends a segment: the lanes are added into the accumulator
  /// After this block the two top levels are folded this many times. A fold adds the top level
  /// (right) to the level below it (left), which becomes the top.
  std::uint64_t folds = 0;
};

/// A partial sum in the tree over segments: the sum of the 1 << height segments that begin with
/// segment index << height.
struct TreeNode {
  std::uint64_t height = 0, index = 0;

  bool operator==(const TreeNode&) const = default;
};

/// One of the additions that fold the nodes of all layers. It adds a node of one layer (right) to a
/// node of the same or another layer (left). The sum replaces the left node.
struct FoldAddition {
  std::uint64_t left_layer = 0, left_node = 0;
  std::uint64_t right_layer = 0, right_node = 0;
};

// ---------------------------------------------------------------- device memory

/// The sizes in bytes of the buffers of one batch in the ring: multiples of 256, or 0 for a buffer
/// that is not needed.
struct BatchBuffers {
  /// This rank's parts, if the operand is raw (UploadedOperand).
  std::uint64_t raw_a = 0, raw_b = 0;
  /// A's panel, with the parts of all ranks of the grid row and the leading dimension gemm::a_ld().
  /// 0 for int8 on a GPU if A's panel is always a range of rows of b_factor.
  std::uint64_t a_panel = 0;
  /// B's panel, with the parts of all ranks of the grid column.
  std::uint64_t b_panel = 0;
  /// The matrices that the library multiplies, if they differ from the panels: for fp32x3, A and B
  /// with three times the depth; for int8 on a GPU, the transpose of B.
  std::uint64_t a_factor = 0, b_factor = 0;
  std::uint64_t y = 0;  ///< two doubles for each row and each column tile of B's panel
};

/// The sizes of the buffers of the verification, in bytes as in BatchBuffers. Rows and column tiles
/// are those of a super-tile.
struct CheckBuffers {
  std::uint64_t z = 0;               ///< a double for each row and each column tile
  std::uint64_t row_squares = 0;     ///< a double for each row
  std::uint64_t column_squares = 0;  ///< a double for each column tile
  std::uint64_t slices = 1;          ///< copies of the three above: Layout::check_slices
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
  std::uint64_t lanes = 0;              ///< tile.lanes accumulators for each tile, if lanes > 1
  std::uint64_t c_tile = 0;             ///< one tile of C0, if C is read
  std::uint64_t mirrors = 0;            ///< max_mirrors tiles
  std::uint64_t send = 0, receive = 0;  ///< of the exchange of split-k
};

/// Mirrored tiles that may be on their way to the host at once.
inline constexpr std::uint64_t max_mirrors = 4;

// ---------------------------------------------------------------- the plan

/// How a product is cut in one box of ranks. The same on every rank.
struct Layout {
  Problem problem;
  Box box;
  std::uint64_t tile_rows = 0, tile_columns = 0;  ///< of C
  std::uint64_t blocks = 0;                       ///< of K
  /// Whether the first three blocks have a quarter, a quarter and a half of the usual depth, so
  /// that the first batch arrives early. This needs gemm::may_begin_shallow(), a K with several
  /// blocks, and only one segment.
  bool begins_shallow = false;
  /// The number of segments, a power of two. Segment s has the blocks share(blocks, s, segments),
  /// whose products are added block by block. The sums of segments are the leaves of a binary tree.
  /// Its root is the product.
  std::uint64_t segments = 1;
  /// The number of accumulators of each tile, the maximum over all ranks: 1 or, with segments, the
  /// depth of the stack. Level l of tile t (in the order of tiles()) is accumulator
  /// l * held_tiles + t.
  std::uint64_t levels = 1;
  std::uint64_t check_slices = 1;   ///< gemm::check_slices() of all rows
  std::uint64_t max_nodes = 1;      ///< split-k: the maximum number of nodes of a rank
  std::uint64_t exchange_rows = 0;  ///< split-k: rows of a tile per exchange; fewer in the last
};

/// A decomposition that was considered.
struct Alternative {
  Decomposition decomposition = Decomposition::rows;
  Box box;
  double seconds = 0;   ///< predicted; 0 if it is impossible
  std::string why_not;  ///< why it is impossible; else empty
};

/// The chosen decomposition. The same on every rank.
struct Decision {
  Decomposition decomposition = Decomposition::rows;  ///< never automatic
  std::string why;                                    ///< the reason, as a phrase
  std::vector<Alternative> alternatives;              ///< all that were considered
};

/// One rank's part of C and K. Empty on idle ranks.
struct RankPart {
  std::uint64_t rank = 0;
  bool idle = false;  ///< outside the box: no tiles, segments, blocks and buffers
  /// Position in the box: rank = (layer * box.rows + row) * box.columns + column.
  std::uint64_t row = 0, column = 0, layer = 0;
  Range own_segments;  ///< the segments of its layer: all segments unless split-k
  /// The blocks of own_segments. Each super-tile has one batch for each block, in this order.
  Range own_blocks;
  Range rows, columns;  ///< its rows and columns of tiles; may be empty
  /// The nodes that remain of own_segments, left to right: one unless split-k. After the last
  /// block, node i is the accumulator on level i.
  std::vector<TreeNode> nodes;
};

/// How every rank cuts its tiles into super-tiles: by passes over its rows and columns.
struct Cut {
  std::uint64_t row_passes = 1, column_passes = 1;
  /// If first_rows is 0, all row passes share the rows equally. Otherwise the first pass has the
  /// fraction first_rows / first_of of the rows, and the other passes share the rest equally.
  std::uint64_t first_rows = 0, first_of = 0;
  /// Whether B's panels stay on the device after the first super-tile. Then every tile has its own
  /// accumulator, and a rank uploads everything only once. Tiles leave while later rows of A
  /// arrive.
  bool keeps_b = false;

  std::uint64_t passes() const { return saturating_product(row_passes, column_passes); }
};

/// The order of super-tiles and batches. The same on every rank.
struct Schedule {
  Cut cut;
  /// The numbers of the passes in which some rank computes a tile, in ascending order. Each is a
  /// super-tile. The number of a pass is row pass * column_passes + column pass.
  std::vector<std::uint64_t> passes;
  /// Rows, columns and number of computed tiles: the maxima over all super-tiles of all ranks.
  std::uint64_t max_rows = 0, max_columns = 0;
  std::uint64_t max_tiles = 0;
  /// The number of tiles that have accumulators: those of a super-tile or, if B is kept, all tiles
  /// of a rank.
  std::uint64_t held_tiles = 0;
  std::uint64_t ring_batches = 0;  ///< batches in device memory: 2 to 8, or all if there are fewer
  /// The number of last batches of a super-tile that are computed tile by tile: all of them for one
  /// tile, then for the next tile. So tiles leave while others are computed. It is 1 to
  /// ring_batches, and all these batches are in the last own segment.
  std::uint64_t window = 1;

  std::uint64_t super_tiles() const { return passes.size(); }
};

/// One rank's traffic and work, in bytes and flop.
struct Traffic {
  std::uint64_t uploads = 0;  ///< panels with their padding, and C0
  /// A lower bound of the uploads for this decomposition, without padding: the uploads with the
  /// best super-tiles that would fit if accumulators used all of the memory.
  std::uint64_t min_uploads = 0;
  std::uint64_t a_gathered = 0;  ///< received in all-gathers of A panels
  std::uint64_t b_gathered = 0;  ///< received in all-gathers of B panels and their y
  std::uint64_t exchanged = 0;   ///< received in the exchanges of split-k, with z
  double flops = 0;              ///< of this rank's products, without padding

  /// Bytes from other ranks, of all kinds.
  std::uint64_t received() const { return a_gathered + b_gathered + exchanged; }
};

/// Predicted seconds. In every super-tile the slowest rank counts. The same on every rank.
struct TimePrediction {
  double compute_seconds = 0, upload_seconds = 0, gather_seconds = 0, drain_seconds = 0;
  double exchange_seconds = 0;
  double seconds = 0;  ///< the time of the whole product, in which the times above overlap

  /// The name of the longest time before `seconds`: "computing", "host link", "all-gathers",
  /// "exchange" or "download".
  std::string_view bound_by() const;
};

/// One rank's plan.
struct Plan : Layout, RankPart, Schedule {
  Decision decision;
  Buffers buffers;                 ///< none on idle ranks
  std::uint64_t device_bytes = 0;  ///< all buffers and the caller's other_bytes
  Traffic traffic;
  TimePrediction prediction;

  /// The number of batches of this rank.
  std::uint64_t batches() const { return super_tiles() * own_blocks.count; }

  /// Super-tile `number`: they are numbered by row passes, and within a row pass by column passes.
  /// In a symmetric product the columns go from the first to the last one that any rank of the grid
  /// column needs.
  SuperTile super_tile(std::uint64_t number) const;
  /// The super-tile and the block of batch `number`.
  BatchIndex batch(std::uint64_t number) const {
    return {number / own_blocks.count, own_blocks.first + number % own_blocks.count};
  }

  /// True if this tile of C is computed; false if it is the mirror of a computed tile. With d =
  /// (column - row) mod T of T x T tiles, a tile is computed if 2 d < T. If 2 d = T, it is computed
  /// in the first T / 2 rows if its row is even, and in the other rows if row - T / 2 is odd. So
  /// the numbers of computed tiles in any two rows differ by at most one.
  bool computed(TileIndex tile) const;
  /// The computed tiles of one of this rank's super-tiles, row by row, and within a row by columns.
  /// Their accumulators have this order.
  std::vector<TileIndex> tiles(const SuperTile& super_tile) const;
  std::vector<TileRun> runs(const SuperTile& super_tile) const;  ///< the same tiles as runs
  std::uint64_t count_tiles(const SuperTile& super_tile) const;

  /// The number of a tile among all tiles in this rank's rows and columns, computed or not, row by
  /// row. It is the index of the tile's verdict.
  std::uint64_t number_of(TileIndex tile) const {
    return (tile.row - rows.first) * columns.count + tile.column - columns.first;
  }
  std::uint64_t numbered_tiles() const { return rows.count * columns.count; }
  /// The number of checksums of each batch: see Box.
  std::uint64_t batch_checksums() const { return box.batch_checksums(problem.symmetric); }
  /// Whether this rank folds, checks and drains tile `index` of tiles(). With split-k the layers
  /// take turns, because box.depth tiles are exchanged at a time, in their order.
  bool owns(std::uint64_t index) const { return index % box.depth == layer; }

  /// The number of rows of op(A) that this rank uploads for the super-tile's A panels, with
  /// padding: the rows of a panel divided by box.columns, rounded up. A gathered panel has
  /// box.columns times as many rows.
  std::uint64_t a_part_rows(const SuperTile& super_tile) const;
  /// This rank's part of the super-tile's A panels: part number `column`. Empty if a_from_b().
  PanelPart a_part(const SuperTile& super_tile) const;
  /// The range of k in a range of blocks, with padding at the end of K.
  Range depth(Range some_blocks) const;
  /// The number of rows of op(B) that this rank uploads for the block's B panels, with padding: the
  /// rows of a panel divided by box.rows, rounded up. A gathered panel has box.rows times as many
  /// rows.
  std::uint64_t b_part_rows(std::uint64_t block) const;
  /// This rank's part of the block's B panels: part number `row`.
  PanelPart b_part(std::uint64_t block) const;
  /// Whether the A panel is not uploaded but made from the gathered B panel. The columns of B that
  /// belong to the super-tile's rows are then transposed. This needs a symmetric product, rows that
  /// are within the super-tile's columns, and no other rank with a part of the A panel.
  bool a_from_b(const SuperTile& super_tile) const;

  BlockStep step(std::uint64_t block) const;  ///< `block` is one of own_blocks
  /// The additions by which the owner of a tile folds it after an exchange, in order. The last sum
  /// is the product; it replaces node 0 of layer 0. Empty if one layer has the root of the tree.
  std::vector<FoldAddition> fold() const;
};

/// The plan of the chosen decomposition. Throws UsageError, on every rank or on none, if the
/// requested decomposition or box is impossible, or if even the smallest super-tiles do not fit;
/// the error then names the pipeline.gpu-memory that they need.
Plan make_plan(const Problem& problem, const Rates& rates, std::uint64_t rank);

/// The predicted time and the device memory, as two lines of text.
std::vector<std::string> answer(const Plan& plan);
/// The rest of the plan as lines of text.
std::vector<std::string> describe(const Plan& plan);

}  // namespace shardstream::workloads::product
