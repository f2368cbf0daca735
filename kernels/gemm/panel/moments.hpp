// Sums and squares of the variables of a data set, for centring and scaling. Nothing here waits or
// synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>

#include "kernels/data/element.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// sums[v] = (or +=, unless `first`) the sum of x - shift[v] over the samples x of variable v, and
/// squares[v] that of (x - shift[v])^2: in doubles, in an order that depends on nothing but
/// variables, samples, the layout and the backend. Where x is not finite, neither are they.
struct MomentsArgs {
  const void* raw;  ///< row-major, aligned for `from`
  ElementType from;
  bool variables_are_rows;  ///< else samples are
  std::uint64_t variables, samples;
  std::uint64_t ld;     ///< elements from one row to the next
  const double* shift;  ///< one a variable, as sums and squares
  double* sums;
  double* squares;
  bool first;
};
Kernel<MomentsArgs> moments_kernel();

}  // namespace shardstream::gemm
