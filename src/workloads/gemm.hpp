// The workload `gemm`: C = alpha op(A) op(B) + beta C0 over all ranks, of any size, with the same
// bits of C for any number of ranks and any memory on one kind of device.
#pragma once

#include <span>

#include "core/options.hpp"
#include "workloads/gemm_operands.hpp"

namespace shardstream::workloads {

/// The rows of [gemm].
std::span<const OptionRow> gemm_options();

/// What the options name. Throws UsageError where operands are missing or do not fit together.
GemmOperands open_gemm(const Options& options);

}  // namespace shardstream::workloads
