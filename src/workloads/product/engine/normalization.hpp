// The shift and factor of each variable of a centred or scaled product.
#pragma once

#include <cstdint>
#include <vector>

namespace shardstream::workloads::product {

/// Each value x of variable v becomes (x - whole[v] - shift[v]) * scale[v]. The scales are powers
/// of two. C is later divided by them.
struct Normalization {
  std::vector<double> shift;  ///< empty: nothing is subtracted
  /// Subtracted in integers, before the shift; only for centred data of type i64, else empty.
  std::vector<std::int64_t> whole = {};
  std::vector<double> scale;
  /// Whether this is the last pass over the data. VariableSums then does not count the variables
  /// for which shift and scale are not suitable.
  bool final = false;
};

/// The shift of one variable: `whole` is 0 unless its elements are i64.
struct Shift {
  std::int64_t whole = 0;
  double part = 0;
};

/// The shift `origin + by` for i64 elements, with the nearest integer as `whole`.
Shift integer_shift(std::int64_t origin, double by);

/// The shift from + by. `integers`: the elements are i64. A shift up to 2^53 is then rounded to a
/// double, like the shifts of other types; a larger one is more exact than a double.
Shift moved(const Shift& from, double by, bool integers);

}  // namespace shardstream::workloads::product
