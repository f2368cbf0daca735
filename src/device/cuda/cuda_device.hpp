// The CUDA backend. Only builds with CUDA link it; runtime is the one place that asks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/nvml.hpp"

namespace shardstream::device::cuda {

/// What this process can see, in the order of its ordinals. `problem` says why GPUs that are there
/// cannot be used, else empty. Makes no context on any of them. Of the facts, what CUDA knows: no
/// clocks, no links. MIG devices of one GPU have the same pci, and a uuid "MIG-...".
struct Inventory {
  std::vector<GpuFacts> gpus;
  std::string problem;
};
Inventory inventory();

/// Opens visible GPU `ordinal`. Pinned memory is touched by `threads` threads before it is pinned.
std::unique_ptr<Device> make_device(int ordinal, unsigned threads);

/// How one GPU reaches another's memory.
struct PeerAccess {
  std::string from, to;       ///< PCI addresses
  bool can = false;           ///< directly
  int performance_rank = -1;  ///< CUDA's: the lower, the faster; -1 if unknown
};

/// Each ordered pair of visible GPUs, asked without opening any of them; nothing where CUDA cannot
/// work.
std::vector<PeerAccess> peer_access();

}  // namespace shardstream::device::cuda
