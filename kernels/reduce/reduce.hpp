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

/// Statistics of each leaf of a stretch.
template <class T>
struct LeavesArgs {
  const T* elements;       ///< aligned to 16 bytes
  std::uint64_t count;     ///< elements; only the last leaf may be short
  std::uint64_t first;     ///< global index of elements[0], a multiple of leaf_elements
  PartialOf<T>* partials;  ///< out: one a leaf
  Want want;
};
template <class T>
Kernel<LeavesArgs<T>> leaves_kernel();

/// Folds the nodes of leaves [first_leaf, first_leaf + count) in place, level by level: afterwards
/// every whole subtree inside the range stands at the place of its first leaf. `T` is the class of
/// the partials: double or std::int64_t.
template <class T>
struct FoldArgs {
  Partial<T>* partials;
  std::uint64_t first_leaf;
  std::uint64_t count;
};
template <class T>
Kernel<FoldArgs<T>> fold_kernel();

/// to[i] = from[places[i]].
template <class T>
struct PickArgs {
  static constexpr unsigned most = 128;
  const Partial<T>* from;
  Partial<T>* to;
  unsigned count;
  std::uint32_t places[most];
};
template <class T>
Kernel<PickArgs<T>> pick_kernel();

}  // namespace shardstream::reduce
