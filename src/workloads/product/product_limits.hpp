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
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// The measured ceilings. The same on every rank.
struct Limits {
  measure::Ceiling up, down, device_copy, multiply;
  std::optional<measure::Ceiling> read, feed;  ///< if there are readers
  std::optional<measure::Ceiling> gather;      ///< with several ranks
  bool gathers_block = false;                  ///< Rates::gathers_block

  /// The rates for a plan.
  Rates rates(Backend backend) const;
};

/// `device_limit`: bytes of device memory that this rank may use. Collective; throws AgreedError
/// when a matrix cannot be read.
Limits measure_limits(runtime::Runtime& runtime, const Operands& operands, const gemm::Tile& tile,
                      const pipeline::StagingSizes& staging, std::uint64_t device_limit);

/// The rates for a plan. A rate comes from the earlier result of `machine`, or else from
/// `measured`. If the result does not have it and `measured` is null, a rate is assumed.
Rates rates_of(measure::Machine& machine, const Operands& operands, const Options& options,
               const Rates* measured = nullptr);
/// The rates with which a run is planned. They come from the result that measure.rates names, which
/// rank 0 reads. Rates that it lacks come from `limits`. The same on every rank. Collective; throws
/// AgreedError if the result is not usable.
Rates planning_rates(runtime::Runtime& runtime, const Operands& operands, const Limits& limits);

/// The conditions of panel_read and panel_feed, in words. Two rates are comparable if their
/// conditions are equal.
std::string panel_read_conditions(const Operands& operands, const Options& options);

/// The load of all ranks on each ceiling in one repetition, in bytes and flop.
struct Loads {
  double uploaded, downloaded, received, flops;
};
/// The ceilings with their loads.
std::vector<measure::Ceiling> loaded(Limits&& limits, const Loads& loads);

}  // namespace shardstream::workloads::product
