// The statistics of variables from the sums of their shifted and scaled values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"

namespace shardstream::workloads::product {

/// The sums over the samples of a variable, in which each value x counts as
/// y = (x - shift) * scale, rounded to the precision of the product.
struct VariableMoments {
  double sum, squares;  ///< of w y and w y^2; the weight w is 1 without weights
  double weights;       ///< the sum of w
  std::uint64_t count;  ///< number of samples that count
  double degrees;       ///< Samples::degrees()
};

/// Mean and standard deviation, which is the root of the squared deviations from the mean, divided
/// by `degrees`. Without `center` there is no mean, and the deviation is the root mean square.
/// If a value or a sum is not finite, both are NaN, as they are without samples. The mean is near
/// to a rounding error of a double, also if the shift is an integer beyond 2^53.
VariableStatistics statistics_of(const VariableMoments& moments, const Shift& shift, double scale,
                                 bool center);

/// The sums of adjacent variables over all samples, as in VariableMoments.
struct VariableSumsOf {
  std::uint64_t first;  ///< variable
  std::span<const double> sums, squares;
  std::span<const double> counts;  ///< numbers of samples; empty unless each has its own
};

/// The statistics of these variables. A variable that is left out has no samples.
std::vector<VariableStatistics> statistics_of(const Operands& operands,
                                              const Normalization& normalization,
                                              const VariableSumsOf& variables);

}  // namespace shardstream::workloads::product
