// The workload `gemm`: C = alpha op(A) op(B) + beta C0 over all ranks, of any size, with the same
// bits of C for any number of ranks and any memory on one kind of device.
#pragma once

#include "core/options.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

Workload gemm_workload();

/// The operands that the options name. Throws UsageError if operands are missing or do not fit
/// together.
product::Operands open_gemm(const Options& options);

}  // namespace shardstream::workloads
