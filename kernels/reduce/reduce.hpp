// One pass over elements in a fixed order: leaves of leaf_elements, in each `lanes` partial sums
// (element i belongs to lane i mod lanes) that are added in order in double, then one fixed tree
// over the lanes and one over the leaves (tree.hpp). The result is a function of the data alone:
// the same bits on every backend, for every number of ranks and every batch size.
//
// Both numbers were measured before they were frozen: see kernels/README.md. They are part of the
// result file's schema.
#pragma once

#include <cstdint>

#include "kernels/kernel.hpp"
#include "kernels/reduce/partial.hpp"
#include "kernels/reduce/tree.hpp"

namespace shardstream::reduce {

inline constexpr std::uint64_t leaf_elements = std::uint64_t{1} << 16;
inline constexpr unsigned lanes = 512;

/// What is to be known of the elements beside count, sum and NaNs.
struct Want {
  bool extremes = false;   ///< min, max and their indices
  bool variance = false;   ///< m2, by a second pass over each leaf
  bool skip_nans = false;  ///< NaNs are counted apart and leave the statistics alone
};

/// Statistics of each leaf of a stretch.
template <class T>
struct LeavesArgs {
  const T* elements;     ///< aligned to 16 bytes
  std::uint64_t count;   ///< elements, one or more; only the last leaf may be short
  std::uint64_t first;   ///< global index of elements[0], a multiple of leaf_elements
  PartialOf<T>* leaves;  ///< out: one a leaf
  Want want;
};
template <class T>
Kernel<LeavesArgs<T>> leaves_kernel();

/// The largest whole subtrees over a stretch of leaves, and some of the leaves. `T` is the class of
/// the nodes: double or std::int64_t.
template <class T>
struct JoinArgs {
  static constexpr unsigned most_samples = 128;

  const Partial<T>* leaves;
  Partial<T>* scratch;  ///< scratch_nodes(number of leaves)
  Partial<T>* largest;  ///< out: one for each of `subtrees`, in their order
  Partial<T>* samples;  ///< out: samples[i] is leaves[sampled[i]]
  Leaves stretch;
  SubtreeList subtrees;  ///< those of the stretch
  unsigned sample_count;
  std::uint32_t sampled[most_samples];
};
template <class T>
Kernel<JoinArgs<T>> join_kernel();

/// On a GPU one block joins 2^group_levels neighbouring nodes, and then one the blocks' nodes.
inline constexpr unsigned group_levels = 8;

/// Nodes of blocks, of all levels, for a stretch of `leaves` leaves that begins anywhere.
constexpr std::uint64_t scratch_nodes(std::uint64_t leaves) {
  std::uint64_t nodes = 0;
  for (unsigned level = group_levels; level < 64; level += group_levels) {
    nodes += (leaves >> level) + 2;
  }
  return nodes;
}

// The launchers: each enqueues its kernels and does not wait.
namespace cuda {
template <class T>
void leaves(const LeavesArgs<T>& args, CudaStream stream);
template <class T>
void join(const JoinArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::reduce
