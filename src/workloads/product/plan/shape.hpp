// Everything that follows from a problem and a box of ranks alone, before super-tiles are chosen.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// Nodes of the tree over segments, left to right. Two children of one parent are replaced by it.
class Stack {
 public:
  /// Returns how often the two nodes at the top were replaced by their parent.
  std::uint64_t push(TreeNode node);
  const std::vector<TreeNode>& nodes() const { return nodes_; }

 private:
  std::vector<TreeNode> nodes_;
};

/// The number of segments of K: 1 unless gemm::is_tall(), else the largest power of two that is at
/// most 64, the number of blocks, and 512 divided by the number of tiles.
///
/// is_tall() means that k is at least eight times m and n, and that C has at most 64 tiles. Then C
/// and the partial sums that ranks exchange are small compared with the panels. More tiles keep
/// many ranks busy without segments, and each level of the tree needs memory for all tiles.
///
/// So at most 512 ranks compute if K is split, and 64 if C has one tile. More segments would employ
/// more ranks, but C's bits follow from the segments, so their number must not depend on the ranks:
/// each doubling would cost even a single rank another level of accumulators for every tile (64
/// segments have seven levels), and all ranks would exchange more partial sums.
std::uint64_t segments_of(const Problem& problem);

/// The numbers of parts, ascending from 1, that give different sizes of the largest part of `count`
/// (at least 1); for each size the fewest parts.
std::vector<std::uint64_t> numbers_of_parts(std::uint64_t count);

/// Plan::depth().
Range depth_of(Range blocks, std::uint64_t tile_k, bool begins_shallow);

/// The layout, with sizes that the choice of super-tiles needs.
struct Shape : Layout {
  Shape(const Problem& problem, const Box& box);

  std::uint64_t max_rows, max_columns, max_blocks = 0;           ///< of any rank
  std::uint64_t panel_element, a_element, b_element, c_element;  ///< bytes, A's and B's as uploaded
  std::uint64_t tile_bytes;                                      ///< of an accumulator

  Range rows_of(std::uint64_t row) const { return share(tile_rows, row, box.rows); }
  Range columns_of(std::uint64_t column) const { return share(tile_columns, column, box.columns); }
  Range segments_of(std::uint64_t layer) const { return share(segments, layer, box.depth); }
  Range blocks_of(Range segments) const;
  Range depth(Range of) const { return depth_of(of, problem.tile.k, begins_shallow); }
  /// The nodes of a layer's segments.
  std::vector<TreeNode> nodes_of(std::uint64_t layer) const;
  /// The columns of the computed tiles of a row: two ranges, each of which may be empty.
  std::array<Range, 2> computed(std::uint64_t row) const;
  /// Accumulators of each tile of a super-tile: its levels and, if there are several, its lanes.
  std::uint64_t accumulators() const {
    return levels + (problem.tile.lanes > 1 ? problem.tile.lanes : 0);
  }
  std::uint64_t b_part_rows(std::uint64_t depth) const { return ceil_div(depth, box.rows); }
  /// Rows of elements of a part of an A panel of `rows` rows of tiles.
  std::uint64_t a_part_rows(std::uint64_t rows) const;
  bool a_from_b(Range rows, Range columns) const;
};

}  // namespace shardstream::workloads::product
