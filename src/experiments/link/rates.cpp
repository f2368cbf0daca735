#include "experiments/link/rates.hpp"

#include <fmt/format.h>

#include <cmath>

#include "device/nvml.hpp"

namespace shardstream::experiments::link {

std::string share_of_link(const Bench& bench, double rate) {
  const device::GpuFacts& facts = bench.facts();
  const double link = device::pcie_rate(facts.pcie_generation_max, facts.pcie_width_max);
  if (std::isnan(link)) {
    return "the theoretical rate of the link is unknown: NVML does not report it";
  }
  return fmt::format("{:.2f} of PCIe {} x{}, {:.1f} GB/s", rate / link, facts.pcie_generation_max,
                     facts.pcie_width_max, link);
}

double nvlink_rate(const Bench& bench) {
  return device::nvlink_rate(bench.device().info().compute_capability, bench.facts().nvlinks);
}

std::string share_of_nvlink(const Bench& bench, double rate) {
  const double link = nvlink_rate(bench);
  if (std::isnan(link)) return "no NVLink is known";
  return fmt::format("{:.2f} of {} NVLinks, {:.0f} GB/s", rate / link, bench.facts().nvlinks, link);
}

}  // namespace shardstream::experiments::link
