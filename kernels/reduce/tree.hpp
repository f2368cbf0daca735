// The fixed binary tree over leaves. Node (level, first) covers the leaves [first, first +
// 2^level); first is a multiple of 2^level. A node without leaves in its right half equals its left
// half. Any contiguous range of leaves is a short list of such nodes. Joining the lists of
// neighbouring ranges gives the same tree, however the leaves were divided into ranges.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/reduce/partial.hpp"

namespace shardstream::reduce {

/// The place of a node in the tree.
struct Subtree {
  std::uint64_t first;  ///< first leaf
  unsigned level;       ///< 2^level leaves
  bool operator==(const Subtree&) const = default;
};

/// A contiguous range of leaves.
struct Leaves {
  std::uint64_t first, count;

  constexpr std::uint64_t end() const { return first + count; }
  /// Whether all leaves of the node are in the range.
  constexpr bool hold(Subtree node) const {
    return node.first >= first && node.first + (std::uint64_t{1} << node.level) <= end();
  }
  /// Whether the sibling of a node in the range is in the range too, so that the two are joined.
  constexpr bool join(Subtree node) const {
    return hold({node.first ^ (std::uint64_t{1} << node.level), node.level});
  }
  constexpr Leaves in_common_with(Subtree node) const {
    const std::uint64_t begin = std::max(first, node.first);
    const std::uint64_t last = std::min(end(), node.first + (std::uint64_t{1} << node.level));
    return {begin, last > begin ? last - begin : 0};
  }
  /// The largest whole subtree that begins with the first leaf; the range must not be empty. Not
  /// constexpr, so only for hosts: nvcc replaces std::countr_zero and std::bit_width by constants
  /// in device code.
  Subtree largest() const {
    const int aligned = first == 0 ? 63 : std::countr_zero(first);
    const int widest = static_cast<int>(std::bit_width(count)) - 1;
    return {first, static_cast<unsigned>(std::min(aligned, widest))};
  }
  /// The leaves after largest().
  Leaves rest() const {
    const std::uint64_t width = std::uint64_t{1} << largest().level;
    return {first + width, count - width};
  }
};

/// The maximum number of largest subtrees of up to 2^48 leaves: two of each level.
inline constexpr unsigned max_subtrees = 96;

/// The largest whole subtrees that together cover the leaves, from left to right.
inline std::vector<Subtree> subtrees(Leaves leaves) {
  std::vector<Subtree> found;
  for (; leaves.count > 0; leaves = leaves.rest()) found.push_back(leaves.largest());
  return found;
}

/// The index in subtrees(leaves) of the subtree that begins with leaf `first`. The leaf `turn` is
/// the one in (leaves.first, end] that is a multiple of the highest power of two. The subtrees
/// become larger up to this leaf, and smaller after it. On each side their sizes are different
/// powers of two, so the number of set bits in a distance is the number of subtrees.
constexpr unsigned subtree_index(Leaves leaves, std::uint64_t first) {
  const auto set_bits = [](std::uint64_t distance) {
    unsigned bits = 0;
    for (; distance != 0; distance &= distance - 1) ++bits;
    return bits;
  };
  std::uint64_t turn = leaves.end();
  while ((turn & (turn - 1)) > leaves.first) turn &= turn - 1;
  if (first < turn) return set_bits(first - leaves.first);
  return set_bits(turn - leaves.first) + set_bits(first - turn);
}

/// Joins nodes into the largest whole subtrees. The nodes are added from left to right.
template <class T>
class TreeFold {
 public:
  struct Node {
    Subtree place;
    Partial<T> partial;
  };

  void push(Subtree place, const Partial<T>& partial) {
    nodes_.push_back({place, partial});
    while (nodes_.size() >= 2) {
      const Node& right = nodes_.back();
      const Node& left = nodes_[nodes_.size() - 2];
      const std::uint64_t width = std::uint64_t{1} << right.place.level;
      const bool siblings = left.place.level == right.place.level &&
                            left.place.first % (2 * width) == 0 &&
                            left.place.first + width == right.place.first;
      if (!siblings) break;
      const Node parent{{left.place.first, left.place.level + 1},
                        combine(left.partial, right.partial)};
      nodes_.pop_back();
      nodes_.back() = parent;
    }
  }

  const std::vector<Node>& nodes() const { return nodes_; }

  /// The root, if the nodes cover all leaves from 0 on; an empty Partial if there are no nodes.
  Partial<T> root() const {
    std::optional<Partial<T>> sum;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      sum = sum ? combine(node->partial, *sum) : node->partial;
    }
    return sum.value_or(Partial<T>{});
  }

 private:
  std::vector<Node> nodes_;
};

}  // namespace shardstream::reduce
