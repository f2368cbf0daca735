// Host links that carry less than they should.
#pragma once

#include <span>
#include <string>

#include "device/nvml.hpp"
#include "measure/ceilings.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::runtime {

/// One rank's link, as it was measured with all ranks at work.
struct HostLink {
  int rank = 0;
  double rate = 0;  ///< GB/s of uploads
  int ranks_on_host = 1;
  device::GpuFacts gpu;
};

/// `rate` over what the GPU's PCIe link could carry at its best (device::pcie_rate); NaN where that
/// is not known.
double share_of_link(const HostLink& link);

/// What is wrong with a link of which less than 80 % are reached; empty if nothing. Several ranks
/// of a host may share a switch or be limited by its memory: then only a link that has lost lanes,
/// or that is slower than `best_share`, the best of all ranks, by as much again, is at fault.
std::string slow_link(const HostLink& link, double best_share);

/// Rank 0 warns of the slow links of all ranks, if link_up is among the ceilings and was measured
/// for long enough to tell. Collective.
void warn_of_slow_links(const Runtime& runtime, std::span<const measure::Ceiling> ceilings);

}  // namespace shardstream::runtime
