// The tree over the leaves, joined by the blocks that make the leaves: of each group of
// neighbouring nodes the block that finishes last joins them all, and may then be the last of a
// group of groups.
#pragma once

#include <cuda/atomic>

#include "kernels/reduce/leaf.cuh"
#include "kernels/reduce/tree.hpp"

namespace shardstream::reduce::cuda {

inline constexpr unsigned pairs_in_group = 1U << (group_levels - 1);

/// Where a node goes that is not joined with another one of the stretch; null for all others.
template <class T>
__device__ PartialOf<T>* largest(const ReduceArgs<T>& args, Leaves stretch, Subtree place) {
  return stretch.join(place) ? nullptr : args.largest + place_in_subtrees(stretch, place);
}

/// True in the block that is the last of `blocks` to come to `counter`, which it leaves as it was:
/// zero. What thread 0 of the others wrote before is then seen by all threads of this one.
__device__ inline bool last_to_come(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> come(*counter);
    last = come.fetch_add(1, ::cuda::memory_order_acq_rel) == blocks - 1;
    if (last) come.store(0, ::cuda::memory_order_relaxed);
  }
  __syncthreads();
  return last;
}

/// Joins the nodes of 2^level leaves of one group, as far as they have a sibling in `leaves`, the
/// part of the stretch that is in the group. Valid in thread 0: the node of the whole group, if
/// all of it is there. `nodes` begins with the one that holds the stretch's first leaf.
template <unsigned Threads, class T>
__device__ PartialOf<T> join_group(const ReduceArgs<T>& args, Leaves stretch, Leaves leaves,
                                   Subtree group, unsigned level, const PartialOf<T>* nodes,
                                   PartialOf<T>* shared) {
  static_assert(Threads >= pairs_in_group, "each pair has a thread");
  const unsigned t = threadIdx.x;
  Subtree place{group.first + (std::uint64_t{t} << (level + 1)), level + 1};
  const PartialOf<T>* left = nodes + ((place.first >> level) - (stretch.first >> level));
  const PartialOf<T>* right = left + 1;
  // Not unrolled: this runs once, so that loading the code would take longer than running it.
#pragma unroll 1
  for (unsigned distance = 1; distance <= pairs_in_group; distance *= 2) {
    if (t % distance == 0 && leaves.hold(place)) {
      PartialOf<T>* const to = largest(args, stretch, place);
      const PartialOf<T> node = combine(*left, *right);
      shared[t] = node;
      if (to != nullptr) *to = node;
    }
    __syncthreads();
    left = shared + t;
    right = left + distance;
    ++place.level;
  }
  return shared[0];
}

/// Brings the leaf of block blockIdx.x, which thread 0 has, into the tree over the stretch.
/// `shared` holds pairs_in_group nodes.
template <unsigned Threads, class T>
__device__ void join_leaf(const ReduceArgs<T>& args, const PartialOf<T>& leaf,
                          PartialOf<T>* shared) {
  const Leaves stretch{args.first / leaf_elements,
                       (args.count + leaf_elements - 1) / leaf_elements};
  Subtree place{stretch.first + blockIdx.x, 0};
  if (threadIdx.x == 0 && !stretch.join(place)) *largest(args, stretch, place) = leaf;
  const PartialOf<T>* nodes = args.leaves;
  std::uint64_t groups = 0;  // of lower levels
  while (stretch.join(place)) {
    const unsigned level = place.level, above = level + group_levels;
    const Subtree group{place.first >> above << above, above};
    const Leaves leaves = stretch.in_common_with(group);
    // Its whole pairs of nodes: only these come here.
    const std::uint64_t first = (leaves.first + (std::uint64_t{2} << level) - 1) >> (level + 1);
    const std::uint64_t end = leaves.end() >> (level + 1);
    const std::uint64_t number = groups + (place.first >> above) - (stretch.first >> above);
    if (!last_to_come(args.counters + number, static_cast<unsigned>(2 * (end - first)))) return;
    const PartialOf<T> node =
        join_group<Threads>(args, stretch, leaves, group, level, nodes, shared);
    if (!leaves.hold(group)) return;
    if (threadIdx.x == 0) args.scratch[number] = node;
    nodes = args.scratch + groups;
    groups += groups_of_level(stretch.count, level);
    place = group;
  }
}

}  // namespace shardstream::reduce::cuda
