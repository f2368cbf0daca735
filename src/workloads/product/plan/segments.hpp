// The segments of K: which sums of products they have, and the binary tree that adds these sums.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/problem.hpp"

namespace shardstream::workloads::product {

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
std::uint64_t count_segments(const Problem& problem);

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

/// A stack of nodes of the tree over segments, left to right. If the two nodes at the top are the
/// children of one parent, the parent replaces them.
class NodeStack {
 public:
  /// Pushes a node, and returns how often the two nodes at the top were replaced by their parent.
  std::uint64_t push(TreeNode node);
  const std::vector<TreeNode>& nodes() const { return nodes_; }

 private:
  std::vector<TreeNode> nodes_;
};

/// One of the additions that fold the nodes of all layers. It adds a node of one layer (right) to a
/// node of the same or another layer (left). The sum replaces the left node.
struct FoldAddition {
  std::uint64_t left_layer = 0, left_node = 0;
  std::uint64_t right_layer = 0, right_node = 0;
};

}  // namespace shardstream::workloads::product
