#include "runtime/slow_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/nvml.hpp"

namespace shardstream::runtime {
namespace {

constexpr double min_share = 0.8;
constexpr double min_seconds = 0.05;  // an idle link and GPU need some tens of ms to wake up
constexpr std::size_t max_named_links = 4;

double best_rate(const device::GpuFacts& gpu) {
  return device::pcie_rate(gpu.pcie_generation_max, gpu.pcie_width_max);
}

bool has_lost_lanes(const device::GpuFacts& gpu) {
  return gpu.pcie_width > 0 && gpu.pcie_width < gpu.pcie_width_max;
}

bool is_slower_generation(const device::GpuFacts& gpu) {
  return gpu.pcie_generation > 0 && gpu.pcie_generation < gpu.pcie_generation_max;
}

}  // namespace

double share_of_link(const HostLink& link) {
  return link.rate / best_rate(link.gpu);
}

std::string slow_link(const HostLink& link, double best_share) {
  const device::GpuFacts& gpu = link.gpu;
  const double share = share_of_link(link);
  if (!(share < min_share)) return "";
  const bool alone = link.ranks_on_host == 1;
  if (!alone && !has_lost_lanes(gpu) && !(share < min_share * best_share)) return "";
  const bool degraded = has_lost_lanes(gpu) || is_slower_generation(gpu);
  return fmt::format(
      "uploads of rank {} to the GPU at {} reach {:.1f} GB/s{}, {:.0f} % of the {:.1f} that PCIe "
      "generation {} x{} can carry{}: {}",
      link.rank, gpu.pci, link.rate,
      alone ? "" : fmt::format(" with {} ranks of the host at work", link.ranks_on_host),
      100 * share, best_rate(gpu), gpu.pcie_generation_max, gpu.pcie_width_max,
      degraded ? fmt::format(", and the link runs as generation {} x{}", gpu.pcie_generation,
                             gpu.pcie_width)
               : "",
      degraded ? "see the link's state (lspci -vv), the slot or riser that the GPU is in, and the "
                 "system's firmware settings"
               : "see whether the rank's CPUs and memory are those near the GPU (shardstream "
                 "info), what else uses the machine, and its IOMMU and ACS settings");
}

void warn_of_slow_links(const Runtime& runtime, std::span<const measure::Ceiling> ceilings) {
  const auto up = std::ranges::find(ceilings, "link_up", &measure::Ceiling::name);
  if (up == ceilings.end() || up->seconds < min_seconds) return;
  const ranks::Session& session = runtime.session;
  const auto gpu = runtime.nvml.gpu_at(runtime.device->info().pci);
  const HostLink mine{.rank = session.rank(),
                      .rate = up->by_rank[static_cast<std::size_t>(session.rank())],
                      .ranks_on_host = session.local_size(),
                      .gpu = gpu ? gpu->facts() : device::GpuFacts()};
  double best = 0;
  for (const double share : session.gather(std::vector<double>{share_of_link(mine)})) {
    best = std::fmax(best, share);  // NaN does not count
  }
  auto sentences = session.gather(slow_link(mine, best));
  if (session.rank() != 0) return;
  std::erase(sentences, "");
  for (std::size_t i = 0; i < std::min(sentences.size(), max_named_links); ++i) {
    runtime.log.warn(sentences[i]);
  }
  if (sentences.size() > max_named_links) {
    runtime.log.warn(
        fmt::format("{} more host links are slow", sentences.size() - max_named_links));
  }
}

}  // namespace shardstream::runtime
