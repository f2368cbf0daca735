// Statistics of a leaf computed another way: one compensated sum after the other in extended
// precision, element by element. Slow, and independent of lanes, trees and backends.
#pragma once

#include <cstdint>

#include "kernels/reduce/partial.hpp"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce {

struct Reference {
  long double sum = 0;        ///< Neumaier's compensated sum
  long double magnitude = 0;  ///< sum of absolute values
  long double squares = 0;    ///< sum of squares, for bounds only
  long double m2 = 0;         ///< squared deviations from sum / count
};

/// How far a quantity of a leaf is from its reference, and how far it may be.
struct Deviation {
  double error = 0, bound = 0;

  bool passes() const { return error <= bound; }
  /// The one that is nearer to its bound, or further past it.
  static Deviation worse(const Deviation& a, const Deviation& b);
};

/// A leaf's partial held against the reference of the same elements. Each deviation is that of the
/// leaf's own value. A quantity that is not wanted, or undefined for the leaf, deviates by 0.
struct LeafCheck {
  /// count, NaNs, and, if wanted, min, max and their places: 0 if all are equal, else 1; bound 0.
  Deviation exact;
  /// Bound: (additions in a lane and in the tree) * 2^-53 * sum of |x|; 0 for integers.
  Deviation sum, mean;
  /// Bound: likewise, with the effect of the mean's error.
  Deviation variance, stddev;

  static LeafCheck worse(const LeafCheck& a, const LeafCheck& b);
};

/// Computes the reference of `count` elements, the first of which has index `first`, and compares.
template <class T>
LeafCheck check_leaf(const T* elements, std::uint64_t count, std::int64_t first, Want want,
                     const PartialOf<T>& partial);

}  // namespace shardstream::reduce
