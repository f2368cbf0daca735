// The workload `gram`: the products of all rows, or of all columns, of a matrix with one another,
// C = op(A) op(A)^T; of a data set's variables, centred, the covariance matrix, and scaled too the
// correlation matrix. A tile and its mirror are computed once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/options.hpp"
#include "workloads/gemm_operands.hpp"

namespace shardstream::workloads {

class Moments;

/// The rows of [gram].
std::span<const OptionRow> gram_options();

/// What the options name. Throws UsageError.
GemmOperands open_gram(const Options& options);

/// What the elements of each variable become before they are multiplied: (x - shift) * scale.
struct Normalization {
  std::vector<double> shift, scale;  ///< empty: none
  std::uint64_t constant = 0;        ///< variables whose scale is 0, since they have no deviation
};
/// The deviation is the root of the mean square over the divisor that alpha has: around the mean if
/// the operands are centred, else around 0.
Normalization normalization(const GemmOperands& operands, const Moments& moments);

}  // namespace shardstream::workloads
