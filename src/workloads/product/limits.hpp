// What limits a matrix product on this machine, measured before its buffers are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "kernels/gemm/grid.hpp"
#include "measure/ceilings.hpp"
#include "measure/machine.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

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

/// The rates to plan with, from an earlier result or else `measured`; null: assumed.
GemmRates rates_of(measure::Machine& machine, const GemmOperands& operands, const Options& options,
                   const GemmRates* measured = nullptr);
/// The rates that a run plans with: those of the result that measure.rates names, as rank 0 reads
/// it, and those of `limits` that it lacks. The same on every rank. Collective; throws AgreedError
/// if the result is not usable.
GemmRates planning_rates(runtime::Runtime& runtime, const GemmOperands& operands,
                         const ProductLimits& limits);

/// What the readers do: rates of panel_read are comparable if this is the same.
std::string reading_of(const GemmOperands& operands, const Options& options);

/// "tiles of 256 x 256 x 1024"
std::string words_of(const gemm::Tile& tile);
/// Whether products of `tile` and of the tile that words_of() has put into `words` are about as
/// fast: neither edges nor multiplications differ by more than a factor of two. Multiplications
/// alone would take a slim tile for a square one.
bool is_similar(const std::string& words, const gemm::Tile& tile);

/// What all ranks carry through the limits in a repetition, in bytes and flop.
struct ProductLoads {
  double uploaded, downloaded, received, flops;
};
std::vector<measure::Ceiling> loaded(ProductLimits&& limits, const ProductLoads& loads);

}  // namespace shardstream::workloads
