// The shape of a plan: the tiles of C, the blocks of K, and how the ranks share them. It follows
// from the problem and the box of ranks, before super-tiles are chosen, and is the same on every
// rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "workloads/product/plan/problem.hpp"
#include "workloads/product/plan/segments.hpp"

namespace shardstream::workloads::product {

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

/// Numbers of parts into which `count` >= 1 items can be divided, in ascending order from 1. For
/// each possible size of the largest part, the result has the smallest number of parts.
std::vector<std::uint64_t> numbers_of_parts(std::uint64_t count);

struct Shape {
  Shape() = default;
  Shape(const Problem& problem, const Box& box);

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
  std::uint64_t check_slices = 1;  ///< gemm::check_slices()
  std::uint64_t max_nodes = 1;     ///< split-k: the maximum number of nodes of a rank
  /// split-k: rows of accumulators of a tile per exchange; fewer in the last.
  std::uint64_t exchange_rows = 0;
  /// Maxima over all ranks, in tiles and blocks.
  std::uint64_t max_rows = 0, max_columns = 0, max_blocks = 0;
  /// Bytes of an element: of panels, of A and B as they are uploaded, and of C.
  std::uint64_t panel_element = 0, a_element = 0, b_element = 0, c_element = 0;
  std::uint64_t tile_bytes = 0;  ///< bytes of the accumulators of a tile: of all its moments

  // The parts of the ranks in a row, a column or a layer of the box.
  Range rows_of(std::uint64_t row) const { return share(tile_rows, row, box.rows); }
  Range columns_of(std::uint64_t column) const { return share(tile_columns, column, box.columns); }
  Range segments_of(std::uint64_t layer) const { return share(segments, layer, box.depth); }
  Range blocks_of(Range segments) const;
  /// The nodes of a layer's segments.
  std::vector<TreeNode> nodes_of(std::uint64_t layer) const;

  /// The range of k in a range of blocks, with padding at the end of K.
  Range depth(Range some_blocks) const;
  /// Bytes of the accumulators of all lanes of a tile.
  std::uint64_t lanes_bytes() const {
    const gemm::Tile& tile = problem.tile;
    if (!tile.has_lanes()) return 0;
    return saturating_product({problem.moments.count, tile.lanes, tile.lane_elements(), c_element});
  }
  /// Bytes of the matrices that leave a tile, with padding.
  std::uint64_t result_bytes() const {
    return tile_bytes / problem.moments.count * problem.moments.results();
  }
  /// The rows (A) or columns (B) of panels for a number of tiles.
  std::uint64_t panel_rows(std::uint64_t tiles) const {
    return saturating_product({tiles, problem.moments.planes, problem.tile.m});
  }
  std::uint64_t panel_columns(std::uint64_t tiles) const {
    return saturating_product({tiles, problem.moments.planes, problem.tile.n});
  }
  /// The layout of the panels' planes.
  gemm::Planes planes() const { return {problem.moments.planes, problem.tile.n}; }
  /// Bytes of the accumulators of each tile of a super-tile: of all levels and all lanes.
  std::uint64_t accumulator_bytes() const {
    return saturating_sum({saturating_product({levels, tile_bytes}), lanes_bytes()});
  }
  /// The number of ranks that compute: those in the box that have tiles.
  std::uint64_t busy_ranks() const {
    return std::min(box.rows, tile_rows) * std::min(box.columns, tile_columns) * box.depth;
  }
  /// The number of checksums of each batch: see Box.
  std::uint64_t batch_checksums() const { return box.batch_checksums(problem.symmetric); }

  /// The number of rows of op(A) that a rank uploads for the A panels of a super-tile with `rows`
  /// rows of tiles, with padding: the rows of a panel (of one plane) divided by box.columns,
  /// rounded up. A gathered panel has box.columns times as many rows.
  std::uint64_t a_part_rows(std::uint64_t rows) const;
  /// The number of rows of op(B) that a rank uploads for the B panels of a block of this depth,
  /// with padding: the rows of a panel divided by box.rows, rounded up. A gathered panel has
  /// box.rows times as many rows.
  std::uint64_t b_part_rows(std::uint64_t depth) const { return ceil_div(depth, box.rows); }
  /// Whether the A panel is not uploaded but made from the gathered B panel. The columns of B that
  /// belong to the super-tile's rows are then transposed. This needs a symmetric product, rows that
  /// are within the super-tile's columns, and no other rank with a part of the A panel.
  bool a_from_b(const SuperTile& super_tile) const;

  /// The columns of the computed tiles in a row of tiles: two ranges, each of which may be empty.
  std::array<Range, 2> computed(std::uint64_t row) const;
  /// True if this tile of C is computed; false if it is the mirror of a computed tile. With d =
  /// (column - row) mod T of T x T tiles, a tile is computed if 2 d < T. If 2 d = T, it is computed
  /// in the first T / 2 rows if its row is even, and in the other rows if row - T / 2 is odd. So
  /// the numbers of computed tiles in any two rows differ by at most one.
  bool computed(TileIndex tile) const;
  /// The computed tiles of a super-tile, row by row, and within a row by columns. Their
  /// accumulators have this order.
  std::vector<TileIndex> tiles(const SuperTile& super_tile) const;
  std::vector<TileRun> runs(const SuperTile& super_tile) const;  ///< the same tiles as runs
  std::uint64_t count_tiles(const SuperTile& super_tile) const;

  /// The additions by which the owner of a tile folds it after an exchange, in order. The last sum
  /// is the product; it replaces node 0 of layer 0. Empty if one layer has the root of the tree.
  std::vector<FoldAddition> fold() const;
};

}  // namespace shardstream::workloads::product
