// The CUDA backend. Only builds with CUDA link it; runtime is the one place that asks.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace shardstream::device::cuda {

/// What this process can see. `problem` says why GPUs that are there cannot be used, else empty.
struct Inventory {
  int count = 0;
  std::string problem;
};
Inventory inventory();

/// Opens visible GPU `ordinal`. Pinned memory is touched by `threads` threads before it is pinned.
std::unique_ptr<Device> make_device(int ordinal, unsigned threads);

}  // namespace shardstream::device::cuda
