// The extremes of a few variables, from a pass over the stored data on the CPUs. They determine the
// shift and scale of a variable if its first samples do not represent the rest, so that its sums
// overflow or its values vanish.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {

/// The range of a variable's values in the samples that count. With shifts of samples these are
/// subtracted first. Values that are NaN are ignored.
struct VariableRange {
  Shift middle;    ///< not used with shifts of samples
  double half;     ///< half the distance between the smallest and the largest value
  double largest;  ///< the largest magnitude
};

/// The ranges of `variables`, a list in ascending order that is the same on all ranks. Each rank
/// reads a part of the samples with `readers` threads. Collective; throws AgreedError if the matrix
/// cannot be read.
std::vector<VariableRange> variable_ranges(runtime::Runtime& runtime, const Operands& operands,
                                           const Samples& samples,
                                           const std::vector<std::uint64_t>& variables,
                                           unsigned readers);

}  // namespace shardstream::workloads::product
