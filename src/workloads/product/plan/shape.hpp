// The properties of a plan that a problem and a box of ranks determine, before super-tiles are
// chosen.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// A stack of nodes of the tree over segments, left to right. If the two nodes at the top are the
/// children of one parent, the parent replaces them.
class Stack {
 public:
  /// Pushes a node, and returns how often the two nodes at the top were replaced by their parent.
  std::uint64_t push(TreeNode node);
  const std::vector<TreeNode>& nodes() const { return nodes_; }

 private:
  std::vector<TreeNode> nodes_;
};

/// The number of segments of K. It is 1 unless gemm::is_tall(). Otherwise it is the largest power
/// of two that exceeds none of these: 64, the number of blocks, and 512 divided by the number of
/// tiles.
///
/// is_tall() means that k is at least eight times m and n, and that C has at most 64 tiles. Then C
/// and the partial sums that ranks exchange are small compared with the panels. With more tiles,
/// many ranks are busy without segments, and each level of the tree needs memory for all tiles.
///
/// So if K is split, at most 512 ranks compute, and 64 if C has one tile. More segments would
/// employ more ranks. But C's bits depend on the segments, so their number must not depend on the
/// ranks. Twice as many segments would cost even a single rank another level of accumulators for
/// every tile (64 segments have seven levels), and all ranks would exchange more partial sums.
std::uint64_t segments_of(const Problem& problem);

/// Numbers of parts into which `count` >= 1 items can be divided, in ascending order from 1. For
/// each possible size of the largest part, the result has the smallest number of parts.
std::vector<std::uint64_t> numbers_of_parts(std::uint64_t count);

/// Plan::depth().
Range depth_of(Range blocks, std::uint64_t tile_k, bool begins_shallow);

/// The layout, with sizes that the choice of super-tiles needs.
struct Shape : Layout {
  Shape(const Problem& problem, const Box& box);

  std::uint64_t max_rows, max_columns,
      max_blocks = 0;  ///< maxima over all ranks, in tiles and blocks
  /// Bytes of an element: of panels, of A and B as they are uploaded, and of C.
  std::uint64_t panel_element, a_element, b_element, c_element;
  std::uint64_t tile_bytes;  ///< bytes of an accumulator

  Range rows_of(std::uint64_t row) const { return share(tile_rows, row, box.rows); }
  Range columns_of(std::uint64_t column) const { return share(tile_columns, column, box.columns); }
  Range segments_of(std::uint64_t layer) const { return share(segments, layer, box.depth); }
  Range blocks_of(Range segments) const;
  Range depth(Range some_blocks) const {
    return depth_of(some_blocks, problem.tile.k, begins_shallow);
  }
  /// The nodes of a layer's segments.
  std::vector<TreeNode> nodes_of(std::uint64_t layer) const;
  /// The columns of the computed tiles in a row of tiles: two ranges, each of which may be empty.
  std::array<Range, 2> computed(std::uint64_t row) const;
  /// The number of accumulators of each tile of a super-tile: one for each level and, if there are
  /// several lanes, one for each lane.
  std::uint64_t accumulators() const {
    return levels + (problem.tile.lanes > 1 ? problem.tile.lanes : 0);
  }
  std::uint64_t b_part_rows(std::uint64_t depth) const { return ceil_div(depth, box.rows); }
  /// Plan::a_part_rows() for a super-tile with `rows` rows of tiles.
  std::uint64_t a_part_rows(std::uint64_t rows) const;
  bool a_from_b(Range rows, Range columns) const;
};

}  // namespace shardstream::workloads::product
