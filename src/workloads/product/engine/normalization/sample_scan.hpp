// A pass over the stored data on the CPUs, which counts missing values and computes the means of
// samples.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"

namespace shardstream::workloads::product {

/// The result of a scan; the same on all ranks. Missing values are NaN. Samples and variables with
/// the weight 0 are not counted.
struct SampleScan {
  std::vector<std::uint64_t> of_variables;  ///< number of samples in which each variable is missing
  std::vector<std::uint32_t> of_samples;    ///< number of variables that each sample lacks
  /// The mean of each sample over its variables, if Operands::center_over_variables. Without
  /// Missing::complete it is NaN if a value is missing.
  std::vector<Shift> means;
};

/// Whether values of the operand can be missing: integers cannot.
bool may_lack_values(const Operands& operands);

/// Reads all data once. Each rank reads a part of the samples with `readers` threads. Counts are
/// exact. The values of a sample are added in the order of the variables, i64 in integers of 128
/// bits, others in doubles with compensation of rounding errors (algorithm Sum2 of Ogita, Rump and
/// Oishi, 2005). So all bits are the same on any number of ranks. Collective; throws AgreedError if
/// the matrix cannot be read.
SampleScan scan_samples(runtime::Runtime& runtime, const Operands& operands, unsigned readers);

}  // namespace shardstream::workloads::product
