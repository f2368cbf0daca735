// The samples of a symmetric product that count, and how much: those with weights, and those
// without missing values.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/sample_scan.hpp"

namespace shardstream::workloads::product {

/// The same on all ranks. A sample with the factor 0 is left out. So are variables with the weight
/// 0, and variables without a value in any sample that has a weight ("empty" ones).
struct Samples {
  /// One for each sample; empty if all are 1. The factor of a sample is the root of its weight,
  /// multiplied by a power of two, the same for all samples, so that the mean weight is near 1.
  std::vector<double> factors;
  /// With Operands::center_over_variables: the mean of each sample over the variables that are not
  /// left out; else empty. `whole_shift`: as Normalization::whole, only for i64.
  std::vector<double> shift;
  std::vector<std::int64_t> whole_shift;
  std::uint64_t count = 0;             ///< number of samples that are not left out
  double total = 0;                    ///< sum of the weights, which are the squares of the factors
  double square_total = 0;             ///< sum of the squares of the weights
  double alpha = 1;                    ///< 1 / Operands::divisor, for products with these factors
  std::vector<std::uint64_t> empty;    ///< the empty variables, in ascending order
  std::vector<std::uint64_t> missing;  ///< SampleScan::of_variables; empty without a scan

  /// The number that a sum of squared deviations is divided by for a variance.
  double degrees(unsigned ddof) const { return total - ddof * (square_total / total); }
  bool counts(std::uint64_t sample) const { return factors.empty() || factors[sample] != 0; }
};

/// Bytes of host memory that the samples, a scan of them and the weights take on each rank.
std::uint64_t host_bytes_of_samples(const Operands& operands);

/// Samples::alpha of all samples. Throws UsageError if there are too few for the divisor.
double alpha_of_all(const Operands& operands);

/// All samples, with their weights. Throws UsageError if there are too few for the divisor.
Samples all_samples(const Operands& operands);

/// The complete samples, or with Missing::propagate all of them, and their means. Throws UsageError
/// if there are too few for the divisor; if no sample is complete, the message says how many
/// samples each of the worst variables costs.
Samples samples_of(const Operands& operands, SampleScan scan);

/// The variables that are left out, as a mask.
std::vector<bool> left_out(const Operands& operands, const Samples& samples);

}  // namespace shardstream::workloads::product
