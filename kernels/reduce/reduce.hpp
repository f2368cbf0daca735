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

/// On a GPU one block joins 2^group_levels neighbouring nodes, one a thread.
template <class T>
inline constexpr unsigned group_levels = sizeof(T) >= 4 ? 8 : 7;

/// Groups of all levels over a stretch of `leaves` leaves that begins anywhere.
template <class T>
constexpr std::uint64_t groups_over(std::uint64_t leaves) {
  std::uint64_t groups = 0;
  for (unsigned level = group_levels<T>; level < 64; level += group_levels<T>) {
    groups += (leaves >> level) + 2;
  }
  return groups;
}

/// Words of BatchArgs::exchange: a counter for each group, and for each node of the tree that is
/// handed to another block twice the size of a partial.
template <class T>
constexpr std::uint64_t exchange_words(std::uint64_t leaves) {
  const std::uint64_t groups = groups_over<T>(leaves);
  return groups + groups % 2 + (leaves + groups) * 2 * sizeof(PartialOf<T>) / sizeof(std::uint64_t);
}

/// exchange_words<T>(n) is at most exchange_words<T>(0) + n * exchange_words_per_leaf<T>.
template <class T>
inline constexpr std::uint64_t exchange_words_per_leaf = 2 * sizeof(PartialOf<T>) /
                                                             sizeof(std::uint64_t) +
                                                         1;

/// Statistics of each leaf of a batch, the largest whole subtrees over the leaves, and copies of
/// some leaves.
template <class T>
struct BatchArgs {
  static constexpr unsigned max_samples = 16;

  const T* elements;        ///< aligned to 16 bytes
  std::uint64_t count;      ///< elements, one or more; only the last leaf may be short
  std::uint64_t first;      ///< global index of elements[0], a multiple of leaf_elements
  PartialOf<T>* leaves;     ///< out: one a leaf
  PartialOf<T>* largest;    ///< out: one for each of subtrees(stretch()), in their order
  PartialOf<T>* samples;    ///< out: samples[i] is leaves[sampled[i]]
  std::uint64_t* exchange;  ///< exchange_words(), aligned to 16 bytes; see below
  Want want;
  unsigned sample_count;
  std::uint32_t sampled[max_samples];

  /// The leaves of the batch.
  constexpr Leaves stretch() const {
    return {first / leaf_elements, (count + leaf_elements - 1) / leaf_elements};
  }
};

/// `exchange` is zero before a launch and zero again after it, so that it is cleared once, after it
/// was allocated. Launches that may run at the same time have one each.
template <class T>
Kernel<BatchArgs<T>> batch_kernel();

/// The launcher: it enqueues one kernel and does not wait.
namespace cuda {
template <class T>
void batch(const BatchArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::reduce
