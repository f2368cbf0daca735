#include "workloads/product_limits.hpp"

#include <algorithm>
#include <utility>

#include "measure/source_ceilings.hpp"
#include "workloads/gemm_reading.hpp"

namespace shardstream::workloads {
namespace {

/// Of the whole product, without padding; of a symmetric one the half that is computed.
double whole_flops(const GemmOperands& operands) {
  const double all = 2.0 * static_cast<double>(operands.m) * static_cast<double>(operands.n) *
                     static_cast<double>(operands.k);
  return operands.symmetric ? all / 2 : all;
}

/// Measured again for a while if the product takes long: a GPU that has reached its power limit is
/// slower than one that has just begun. Collective.
measure::Ceiling multiply_limit(runtime::Runtime& runtime, const GemmOperands& operands,
                                const gemm::Tile& tile, measure::Effort effort) {
  const auto measured = [&] {
    return measure::multiply(*runtime.device, runtime.session, effort, operands.precision, tile);
  };
  measure::Ceiling ceiling = measured();
  const double seconds = whole_flops(operands) / (ceiling.aggregate * 1e9);
  if (seconds < 4 * effort.seconds) return ceiling;
  effort.seconds = std::min(seconds / 2, 0.4);
  return measured();
}

}  // namespace

GemmRates ProductLimits::rates() const {
  return {.link_up = std::min(read.least, up.least) * 1e9,
          .link_down = down.least * 1e9,
          .gather = gather ? gather->least * 1e9 : 1e12,
          .flops = multiply.least * 1e9,
          .gathers_block = gathers_block};
}

ProductLimits measure_limits(runtime::Runtime& runtime, const GemmOperands& operands,
                             const gemm::Tile& tile, const pipeline::Ring& staging,
                             std::uint64_t device_limit) {
  const auto span = runtime.recorder.phase("ceilings");
  const launch::Session& session = runtime.session;
  device::Device& device = *runtime.device;
  const double bytes =
      4.0 *
      (static_cast<double>(operands.m + operands.n) * static_cast<double>(operands.k) +
       static_cast<double>(operands.m) * static_cast<double>(operands.n)) /
      session.size();
  const std::uint64_t sample = measure::host_memory_sample(
      runtime.resources.cache, runtime.resources.host_memory, runtime.resources.ranks_on_host);
  const auto effort =
      measure::effort_for(device, session, static_cast<std::uint64_t>(bytes), sample, device_limit);
  constexpr std::size_t most_gathered = std::size_t{64} << 20;
  return {.read = panel_read(runtime, operands, staging, std::min(sample, effort.host_bytes),
                             effort.seconds),
          .up = measure::link(measure::Way::up, device, session, effort),
          .down = measure::link(measure::Way::down, device, session, effort),
          .multiply = multiply_limit(runtime, operands, tile, effort),
          .gather = measure::all_gather(
              device, *runtime.communicator, session, effort,
              std::clamp<std::uint64_t>(
                  effort.device_bytes / static_cast<std::uint64_t>(session.size()) / 256 * 256, 256,
                  most_gathered)),
          .gathers_block = runtime.communicator->blocks()};
}

std::vector<measure::Ceiling> loaded(ProductLimits&& limits, const ProductLoads& loads) {
  std::vector<measure::Ceiling> ceilings;
  const auto add = [&](measure::Ceiling&& ceiling, double load) {
    ceiling.on_path = true;
    ceiling.load = load / 1e9;
    ceilings.push_back(std::move(ceiling));
  };
  add(std::move(limits.read), loads.uploaded);
  add(std::move(limits.up), loads.uploaded);
  add(std::move(limits.down), loads.downloaded);
  if (limits.gather) add(std::move(*limits.gather), loads.received);
  add(std::move(limits.multiply), loads.flops);
  return ceilings;
}

}  // namespace shardstream::workloads
