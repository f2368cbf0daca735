// The workload `gemm`: C = alpha op(A) op(B) + beta C0 over all ranks, of any size, with the same
// bits of C for any number of ranks and any memory on one kind of device.
#pragma once

#include <span>
#include <string>

#include "core/options.hpp"
#include "io/dataset_file.hpp"
#include "runtime/runtime.hpp"
#include "workloads/gemm_product.hpp"
#include "workloads/outcome.hpp"

namespace shardstream::workloads {

/// The rows of [gemm].
std::span<const OptionRow> gemm_options();

/// Opens the operands. Collective; throws AgreedError where they are missing, do not fit together
/// or differ between ranks.
GemmOperands open_gemm(const launch::Session& session, const Options& options);

/// The type of C's elements.
ElementType result_type(const GemmOperands& operands);

/// `to` is where C goes, null if it is not stored; the same on all ranks. Called by all ranks.
/// Throws AgreedError when options and machine do not fit together; Error when a rank's data cannot
/// be read or written.
Outcome gemm(runtime::Runtime& runtime, const GemmOperands& operands, const io::RangeWriter* to);

}  // namespace shardstream::workloads
