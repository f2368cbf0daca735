// The workload `gram`: the products of all rows, or of all columns, of a matrix with one another,
// C = op(A) op(A)^T. With centred variables C is the covariance matrix; if they are scaled too, it
// is the correlation matrix: the workloads `covariance` and `correlation`. A tile and its mirror
// are computed once.
#pragma once

#include "core/options.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

Workload gram_workload();
Workload covariance_workload();
Workload correlation_workload();

/// The operands that the options name. Throws UsageError if operands are missing or do not fit
/// together.
product::Operands open_gram(const Options& options);

}  // namespace shardstream::workloads
