// What limits a matrix product on this machine, measured before its buffers are there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/gemm/grid.hpp"
#include "measure/ceilings.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/gemm_operands.hpp"
#include "workloads/gemm_plan.hpp"

namespace shardstream::workloads {

/// The same on every rank.
struct ProductLimits {
  measure::Ceiling read, up, down, multiply;
  std::optional<measure::Ceiling> gather;  ///< with more ranks than one
  bool gathers_block;                      ///< as in GemmRates

  /// What a plan goes by.
  GemmRates rates() const;
};

/// `device_limit`: bytes of device memory that this rank may use. Collective; throws AgreedError
/// when a matrix cannot be read.
ProductLimits measure_limits(runtime::Runtime& runtime, const GemmOperands& operands,
                             const gemm::Tile& tile, const pipeline::Ring& staging,
                             std::uint64_t device_limit);

/// What all ranks carry through the limits in a repetition, in bytes and flop.
struct ProductLoads {
  double uploaded, downloaded, received, flops;
};
std::vector<measure::Ceiling> loaded(ProductLimits&& limits, const ProductLoads& loads);

}  // namespace shardstream::workloads
