// One rank's plan of C = alpha op(A) op(B) + beta C0: its tiles and blocks, super-tiles, buffers,
// traffic, and a prediction of the time, within the memory of the ranks. This folder is pure
// arithmetic: no MPI, no device. src/workloads/product/DESIGN.md describes the decompositions, how
// one is chosen, and the prediction.
//
// Lock step. Every rank has the same number of super-tiles. In each super-tile the ranks of a grid
// row have the same rows of tiles, and the ranks of a grid column the same columns. Rows or columns
// may be empty on some ranks; such a rank still takes part in all gathers. The ranks of a layer
// process the same blocks in the same order. Different layers communicate only in the exchange at
// the end of each super-tile, and may have different numbers of batches. All ranks of a layer make
// their collective calls in one order: gathers of a super-tile, its exchange, gathers of the next.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/buffers.hpp"
#include "workloads/product/plan/choice.hpp"
#include "workloads/product/plan/prediction.hpp"
#include "workloads/product/plan/schedule.hpp"
#include "workloads/product/plan/shape.hpp"
#include "workloads/product/plan/traffic.hpp"

namespace shardstream::workloads::product {

/// One block of K for one super-tile.
struct BatchIndex {
  std::uint64_t super_tile = 0, block = 0;
};

/// The part of a panel that a rank uploads: some rows of op(A), or of op(B). The valid rows come
/// first and are read. The other rows are zeros. valid.first is rows.first unless `valid` is empty.
struct PanelPart {
  Range rows, valid;
};

/// One rank's part of C and K. Empty on idle ranks.
struct RankPart {
  std::uint64_t rank = 0;
  bool idle = false;  ///< outside the box: no tiles, segments, blocks and buffers
  /// Position in the box: rank = (layer * box.rows + row) * box.columns + column.
  std::uint64_t row = 0, column = 0, layer = 0;
  Range segments;  ///< the segments of its layer: all segments unless split-k
  /// The blocks of `segments`. Each super-tile has one batch for each block, in this order.
  Range blocks;
  Range rows, columns;  ///< its rows and columns of tiles; may be empty
  /// The nodes that remain of `segments`, left to right: one unless split-k. After the last block,
  /// node i is the accumulator on level i.
  std::vector<TreeNode> nodes;
};

/// One rank's plan. shape, schedule, decision and prediction are the same on every rank.
struct Plan {
  Shape shape;
  Schedule schedule;
  Decision decision;
  TimePrediction prediction;
  RankPart part;
  Buffers buffers;                 ///< none on idle ranks
  std::uint64_t device_bytes = 0;  ///< all buffers and the caller's other_bytes
  Traffic traffic;

  const Problem& problem() const { return shape.problem; }
  std::uint64_t super_tiles() const { return schedule.super_tiles(); }
  /// The number of batches of this rank.
  std::uint64_t batches() const { return super_tiles() * part.blocks.count; }

  /// Super-tile `number`: they are numbered by row passes, and within a row pass by column passes.
  /// In a symmetric product the columns go from the first to the last one that any rank of the grid
  /// column needs.
  SuperTile super_tile(std::uint64_t number) const;
  /// The super-tile and the block of batch `number`.
  BatchIndex batch(std::uint64_t number) const {
    return {number / part.blocks.count, part.blocks.first + number % part.blocks.count};
  }

  /// The number of a tile among all tiles in this rank's rows and columns, computed or not, row by
  /// row. It is the index of the tile's verdict.
  std::uint64_t number_of(TileIndex tile) const {
    return (tile.row - part.rows.first) * part.columns.count + tile.column - part.columns.first;
  }
  std::uint64_t numbered_tiles() const { return part.rows.count * part.columns.count; }
  /// Whether this rank folds, checks and drains tile `index` of Shape::tiles(). With split-k the
  /// layers take turns, because box.depth tiles are exchanged at a time, in their order.
  bool owns(std::uint64_t index) const { return index % shape.box.depth == part.layer; }

  /// This rank's part of the super-tile's A panels: part number `column`. Empty if
  /// Shape::a_from_b().
  PanelPart a_part(const SuperTile& super_tile) const;
  /// This rank's part of the block's B panels: part number `row`.
  PanelPart b_part(std::uint64_t block) const;

  BlockStep step(std::uint64_t block) const;  ///< `block` is one of part.blocks
};

/// The plan of the chosen decomposition. Throws UsageError, on every rank or on none, if the
/// requested decomposition or box is impossible, or if even the smallest super-tiles do not fit;
/// the error then names the pipeline.gpu-memory that they need.
Plan make_plan(const Problem& problem, const Rates& rates, std::uint64_t rank);

/// The plan that make_plan() returns on another rank. It costs little, because nothing is chosen
/// again.
Plan plan_of_rank(Plan plan, std::uint64_t rank);

}  // namespace shardstream::workloads::product
