// Statistics of elements in one pass and in a fixed order. The elements are divided into leaves of
// leaf_elements, and a leaf into `lanes` lanes: element i belongs to lane i mod lanes. Each lane
// adds its elements in order, in double. One fixed tree joins the lanes, another one the leaves
// (tree.hpp). The result depends only on the data: the bits are the same on every backend, for
// every number of ranks and every batch size.
//
// Both numbers are part of the result file's schema; kernels/MEASUREMENTS.md shows why they were
// chosen.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/kernel.hpp"
#include "kernels/reduce/partial.hpp"
#include "kernels/reduce/tree.hpp"

namespace shardstream::reduce {

inline constexpr std::uint64_t leaf_elements = std::uint64_t{1} << 16;
inline constexpr unsigned lanes = 512;

/// The requested statistics, besides count, sum and missing values.
struct Want {
  bool extremes = false;      ///< min, max and their indices
  bool variance = false;      ///< m2, by a second pass over each leaf
  bool skip_missing = false;  ///< NaNs, and integers that equal `marker`, are left out and counted
  std::int64_t marker = 0;    ///< the integer that stands for a missing value
};

/// Whether x is NaN or, if it is an integer, equals the marker.
template <class T>
constexpr bool is_missing(T x, [[maybe_unused]] T marker) {
  if constexpr (std::integral<T>) {
    return x == marker;
  } else {
    return x != x;
  }
}

/// On a GPU, one block joins a group of 2^group_levels neighbouring nodes, one per thread.
template <class T>
inline constexpr unsigned group_levels = sizeof(T) >= 4 ? 8 : 7;

/// The maximum number of groups of all levels over `leaves` contiguous leaves, which may begin and
/// end within a group.
template <class T>
constexpr std::uint64_t groups_over(std::uint64_t leaves) {
  std::uint64_t groups = 0;
  for (unsigned level = group_levels<T>; level < 64; level += group_levels<T>) {
    groups += (leaves >> level) + 2;
  }
  return groups;
}

/// The number of words of BatchArgs::exchange. It has a counter for each group. For each node that
/// one block passes to another, it has the words of a partial, each with a mark that shows its
/// arrival.
template <class T>
constexpr std::uint64_t exchange_words(std::uint64_t leaves) {
  const std::uint64_t groups = groups_over<T>(leaves);
  return groups + groups % 2 + (leaves + groups) * 2 * sizeof(PartialOf<T>) / sizeof(std::uint64_t);
}

/// An upper bound: exchange_words<T>(n) <= exchange_words<T>(0) + n * exchange_words_per_leaf<T>.
template <class T>
inline constexpr std::uint64_t exchange_words_per_leaf = 2 * sizeof(PartialOf<T>) /
                                                             sizeof(std::uint64_t) +
                                                         1;

/// Bytes of device memory for the nodes of the tree and the exchange.
struct TreeMemory {
  std::uint64_t per_leaf;  ///< of a batch
  std::uint64_t fixed;     ///< for a whole shard
};
template <class T>
constexpr TreeMemory tree_memory(std::uint64_t leaves_of_shard) {
  constexpr std::uint64_t node = sizeof(PartialOf<T>), word = sizeof(std::uint64_t);
  return {.per_leaf = node + exchange_words_per_leaf<T> * word,
          .fixed = leaves_of_shard * node + exchange_words<T>(0) * word};
}

/// Computes the statistics of each leaf of a batch and of the largest whole subtrees over the
/// leaves, and copies the statistics of sampled leaves. All pointers are to device memory.
template <class T>
struct BatchArgs {
  static constexpr unsigned max_samples = 16;

  const T* elements;        ///< aligned to 16 bytes
  std::uint64_t count;      ///< number of elements, at least 1; only the last leaf may be short
  std::uint64_t first;      ///< global index of elements[0], a multiple of leaf_elements
  PartialOf<T>* leaves;     ///< out: one per leaf
  PartialOf<T>* largest;    ///< out: one for each of subtrees(leaf_range()), in their order
  PartialOf<T>* samples;    ///< out: samples[i] is leaves[sampled[i]]
  std::uint64_t* exchange;  ///< exchange_words(), aligned to 16 bytes; see below
  Want want;
  unsigned sample_count;
  std::uint32_t sampled[max_samples];

  /// The leaves of the batch.
  constexpr Leaves leaf_range() const {
    return {first / leaf_elements, (count + leaf_elements - 1) / leaf_elements};
  }
};

/// `exchange` must be zero before a launch, and is zero again after it. So the caller clears it
/// only once, after allocation. Launches that may run at the same time need separate ones.
template <class T>
Kernel<BatchArgs<T>> batch_kernel();

/// The launcher. It enqueues one kernel and does not wait.
namespace cuda {
template <class T>
void batch(const BatchArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::reduce
