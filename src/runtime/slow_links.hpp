// Finds links between hosts and GPUs that are slower than they should be.
#pragma once

#include <span>
#include <string>

#include "device/nvml.hpp"
#include "measure/ceilings.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::runtime {

/// The link of one rank, measured while all ranks use their links.
struct HostLink {
  int rank = 0;
  double rate = 0;  ///< GB/s of uploads
  int ranks_on_host = 1;
  device::GpuFacts gpu;
};

/// `rate` divided by the rate of the GPU's PCIe link (device::pcie_rate) at its maximum generation
/// and width; NaN if they are unknown.
double share_of_link(const HostLink& link);

/// A sentence about the link if it reaches less than 80 % of its rate; otherwise empty. Several
/// ranks of a host may share a switch, or be limited by the host's memory. For them, the link is
/// also not reported unless it has lost lanes or its share is below 80 % of `best_share`, the
/// highest share of all ranks.
std::string slow_link(const HostLink& link, double best_share);

/// Rank 0 warns about the slow links of all ranks. Does nothing unless link_up is among the
/// ceilings and its measurement was long enough. Collective.
void warn_of_slow_links(const Runtime& runtime, std::span<const measure::Ceiling> ceilings);

}  // namespace shardstream::runtime
