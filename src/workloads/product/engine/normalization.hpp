// The shift and factor of each variable of a centred or scaled product.
#pragma once

#include <vector>

namespace shardstream::workloads::product {

/// Each value x of variable v becomes (x - shift[v]) * scale[v]. The scales are powers of two. C is
/// later divided by them.
struct Normalization {
  std::vector<double> shift;  ///< empty: nothing is subtracted
  std::vector<double> scale;
  /// Whether this is the last pass over the data. VariableSums then does not count the variables
  /// for which shift and scale are not suitable.
  bool final = false;
};

}  // namespace shardstream::workloads::product
