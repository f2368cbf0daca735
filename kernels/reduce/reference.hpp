// An independent reference for the statistics of a leaf: compensated sums in extended precision,
// element by element. It is slow and does not use lanes, trees or backends.
#pragma once

#include <cstdint>

#include "kernels/reduce/partial.hpp"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce {

struct Reference {
  long double sum = 0;        ///< Neumaier's compensated sum
  long double magnitude = 0;  ///< sum of finite absolute values
  long double m2 = 0;         ///< squared deviations from sum / count
};

/// The difference between a quantity of a leaf and its reference, and the bound for it.
struct Deviation {
  double error = 0, bound = 0;

  bool passes() const { return error <= bound; }
  /// The one with the larger error relative to its bound.
  static Deviation worse(const Deviation& a, const Deviation& b);
};

/// The comparison of a leaf's statistics with the reference of the same elements. A quantity that
/// is not requested, or undefined for the leaf, has a deviation of 0.
struct LeafCheck {
  /// Count, missing values and, if requested, min, max and their indices: 0 if all are equal, else
  /// 1. The bound is 0.
  Deviation exact;
  /// The bound of the sum is (additions in a lane and in the tree) * 2^-53 * sum of |x|; 0 for
  /// integers.
  Deviation sum, mean;
  /// The bound is derived in the same way and includes the effect of the mean's error.
  Deviation variance, stddev;

  static LeafCheck worse(const LeafCheck& a, const LeafCheck& b);
};

/// Computes the reference of `count` elements, the first of which has the index `first`, and
/// compares `partial` with it.
template <class T>
LeafCheck check_leaf(const T* elements, std::uint64_t count, std::int64_t first, Want want,
                     const PartialOf<T>& partial);

}  // namespace shardstream::reduce
