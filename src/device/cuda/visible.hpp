// What CUDA tells of all visible GPUs without opening any of them.
#pragma once

#include <string>
#include <vector>

#include "device/nvml.hpp"

namespace shardstream::device::cuda {

/// How one GPU reaches another's memory.
struct PeerAccess {
  std::string from, to;       ///< PCI addresses
  bool can = false;           ///< directly
  int performance_rank = -1;  ///< CUDA's: the lower, the faster; -1 if unknown
};

/// The visible GPUs in the order of their ordinals, as far as CUDA knows them: no uuid (that of a
/// bound GPU is in DeviceInfo), no clocks, no links. Empty where CUDA cannot work.
std::vector<GpuFacts> visible_gpus();

/// Each ordered pair of visible GPUs.
std::vector<PeerAccess> peer_access();

}  // namespace shardstream::device::cuda
