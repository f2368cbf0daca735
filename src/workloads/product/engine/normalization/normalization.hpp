// The shift and scale of each variable of a product that changes values.
#pragma once

#include <cstdint>
#include <vector>

namespace shardstream::workloads::product {

struct Samples;

/// Each value x of variable v becomes (x - whole[v] - shift[v]) * scale[v], times the factor of its
/// sample. The scales are powers of two. C is later divided by them.
struct Normalization {
  std::vector<double> shift;  ///< empty: nothing is subtracted, or the shifts of samples are
  /// Subtracted in integers, before the shift; only for centred data of type i64, else empty.
  std::vector<std::int64_t> whole = {};
  std::vector<double> scale;  ///< 0 for a variable that is left out
  /// Their factors and shifts; must outlive the pass.
  const Samples* samples = nullptr;
  /// Whether the pass assumes that no value is missing, without knowing it. Its tiles do not count
  /// as finished for a checkpoint.
  bool is_provisional = false;
  /// Whether this is the last pass over the data. VariableSums then does not count the variables
  /// for which shift and scale are not suitable.
  bool final = false;
};

/// The shift of one variable: `whole` is 0 unless its elements are i64.
struct Shift {
  std::int64_t whole = 0;
  double part = 0;
};

/// The shift of a variable.
Shift shift_of(const Normalization& normalization, std::uint64_t variable);

/// The shift `origin + by` for i64 elements, with the nearest integer as `whole`.
Shift integer_shift(std::int64_t origin, double by);

/// The shift from + by. `integers`: the elements are i64. A shift up to 2^53 is then rounded to a
/// double, like the shifts of other types; a larger one is more exact than a double.
Shift moved(const Shift& from, double by, bool integers);

}  // namespace shardstream::workloads::product
