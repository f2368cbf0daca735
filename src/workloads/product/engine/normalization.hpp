// The shift and factor of each variable of a centred or scaled product.
#pragma once

#include <vector>

namespace shardstream::workloads {

/// Each value x of variable v becomes (x - shift[v]) * scale[v]. The scales are powers of two,
/// which C is divided by again.
struct Normalization {
  std::vector<double> shift;  ///< empty: nothing is subtracted
  std::vector<double> scale;
  /// Whether no other one follows: variables that it does not suit are then not counted.
  bool final = false;
};

}  // namespace shardstream::workloads
