// The CUDA backend. Only builds with CUDA link it; runtime is the one place that asks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"

namespace shardstream::device::cuda {

/// What tells one visible GPU from others.
struct Identity {
  std::string uuid;  ///< "GPU-...", of a MIG device "MIG-..."
  std::string pci;   ///< "0000:c1:00.0"; MIG devices of one GPU have the same
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
};

/// What this process can see, in the order of its ordinals. `problem` says why GPUs that are there
/// cannot be used, else empty. Makes no context on any of them.
struct Inventory {
  std::vector<Identity> gpus;
  std::string problem;
};
Inventory inventory();

/// Opens visible GPU `ordinal`. Pinned memory is touched by `threads` threads before it is pinned.
std::unique_ptr<Device> make_device(int ordinal, unsigned threads);

}  // namespace shardstream::device::cuda
