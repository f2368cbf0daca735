// The ceilings of a matrix product on this machine, measured before its buffers are allocated.
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

namespace shardstream::workloads::product {

/// The same on every rank.
struct Limits {
  measure::Ceiling read, up, down, multiply;
  std::optional<measure::Ceiling> gather;  ///< with several ranks
  bool gathers_block;                      ///< as in Rates

  /// The rates for a plan.
  Rates rates() const;
};

/// `device_limit`: bytes of device memory that this rank may use. Collective; throws AgreedError
/// when a matrix cannot be read.
Limits measure_limits(runtime::Runtime& runtime, const Operands& operands, const gemm::Tile& tile,
                      const pipeline::StagingSizes& staging, std::uint64_t device_limit);

/// The rates for a plan, from an earlier result, else `measured`, else (null) assumed.
Rates rates_of(measure::Machine& machine, const Operands& operands, const Options& options,
               const Rates* measured = nullptr);
/// The rates that a run plans with: those of the result that measure.rates names, read by rank 0.
/// Rates that it lacks come from `limits`. The same on every rank. Collective; throws AgreedError
/// if the result is not usable.
Rates planning_rates(runtime::Runtime& runtime, const Operands& operands, const Limits& limits);

/// The readers' work in words. Rates of panel_read are comparable if it is the same.
std::string panel_read_conditions(const Operands& operands, const Options& options);

/// "tiles of 256 x 256 x 1024"
std::string words_of(const gemm::Tile& tile);
/// Whether products of `tile` and of the tile that words_of() described as `words` are about as
/// fast: neither edges nor numbers of multiplications differ by more than a factor of two.
/// Multiplications alone do not tell a slim tile from a square one.
bool is_similar(const std::string& words, const gemm::Tile& tile);

/// The load of all ranks on each ceiling in one repetition, in bytes and flop.
struct Loads {
  double uploaded, downloaded, received, flops;
};
std::vector<measure::Ceiling> loaded(Limits&& limits, const Loads& loads);

}  // namespace shardstream::workloads::product
