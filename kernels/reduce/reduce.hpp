// One pass over elements in a fixed order: leaves of leaf_elements, in each `lanes` partial sums
// (element i belongs to lane i mod lanes) that are added in order in double, then one fixed tree
// over the lanes and one over the leaves (tree.hpp). The result is a function of the data alone:
// the same bits on every backend, for every number of ranks and every batch size.
//
// Both numbers were measured before they were frozen: see kernels/README.md. They are part of the
// result file's schema.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/data/element.hpp"
#include "kernels/kernel.hpp"
#include "kernels/reduce/partial.hpp"

namespace shardstream::reduce {

inline constexpr std::uint64_t leaf_elements = std::uint64_t{1} << 16;
inline constexpr unsigned lanes = 512;

/// What is to be known of the elements beside count, sum and NaNs.
struct Want {
  bool extremes = false;   ///< min, max and their indices
  bool variance = false;   ///< m2, by a second pass over each leaf
  bool skip_nans = false;  ///< NaNs are counted apart and leave the statistics alone
};

/// Statistics of a stretch of whole leaves: of each leaf and, of the tree over them, of the largest
/// whole subtrees. Everything but the elements is written anew by each launch.
template <class T>
struct ReduceArgs {
  static constexpr unsigned most_samples = 128;
  using Node = PartialOf<T>;

  const T* elements;    ///< aligned to 16 bytes
  std::uint64_t count;  ///< elements, one or more; only the last leaf may be short
  std::uint64_t first;  ///< global index of elements[0], a multiple of leaf_elements
  Want want;
  Node* leaves;        ///< out: one a leaf
  Node* largest;       ///< out: one for each of subtrees(leaves of the stretch), in their order
  Node* scratch;       ///< groups_in(number of leaves), as many as counters
  unsigned* counters;  ///< zero before the first launch; each launch leaves them so. Launches that
                       ///< may run at the same time need their own, and their own scratch
  Node* samples;       ///< out: samples[i] is leaves[sampled[i]]
  unsigned sample_count;
  std::uint32_t sampled[most_samples];
};
template <class T>
Kernel<ReduceArgs<T>> reduce_kernel();

/// On a GPU groups of 2^group_levels neighbouring nodes are joined at a time.
inline constexpr unsigned group_levels = 8;

/// Groups of nodes of 2^level leaves that a stretch of `leaves` leaves can reach into.
constexpr std::uint64_t groups_of_level(std::uint64_t leaves, unsigned level) {
  return (leaves >> (level + group_levels)) + 2;
}
/// Groups of all levels.
constexpr std::uint64_t groups_in(std::uint64_t leaves) {
  std::uint64_t groups = groups_of_level(leaves, 0);
  for (unsigned level = group_levels; leaves >> level >= 2; level += group_levels) {
    groups += groups_of_level(leaves, level);
  }
  return groups;
}

}  // namespace shardstream::reduce
