// The first value of the data that is not finite, for a warning.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {

/// A value that is NaN or infinite, and its place in the matrix.
struct NotFinite {
  std::uint64_t row = 0, column = 0;
  double value = 0;
};

/// The first value of A, row by row, that is not finite; the first infinite one if NaN is missing
/// (Missing). `samples`: if not null, samples and variables that are left out do
/// not count. The ranks share the rows and read until one of them finds a value. Collective, the
/// same on all ranks; throws AgreedError if the matrix cannot be read.
std::optional<NotFinite> first_not_finite(runtime::Runtime& runtime, const Operands& operands,
                                          const Samples* samples, unsigned readers);

}  // namespace shardstream::workloads::product
