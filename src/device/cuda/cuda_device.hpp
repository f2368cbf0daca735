// The CUDA backend. Only builds with CUDA link it, and only runtime/ uses it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/nvml.hpp"

namespace shardstream::device::cuda {

/// The GPUs that this process can see, in the order of their ordinals. `problem` says why existing
/// GPUs cannot be used; otherwise it is empty. The facts are those that CUDA knows, without clocks
/// and links. MIG devices of one GPU have the same `pci`, and a `uuid` that begins with "MIG-".
struct Inventory {
  std::vector<GpuFacts> gpus;
  std::string problem;
};
/// Creates no context on any GPU. Does not throw.
Inventory inventory();

/// How pinned memory is allocated.
enum class Pinning {
  automatic,   ///< pages of the host are registered if the GPU supports that, else as below
  by_runtime,  ///< cudaHostAlloc(), which is slower
};

/// Opens the visible GPU `ordinal`. `threads` threads touch pinned memory before it is pinned.
/// Throws Error if the GPU cannot be used.
std::unique_ptr<Device> make_device(int ordinal, unsigned threads,
                                    Pinning pinning = Pinning::automatic);

/// How one GPU accesses the memory of another one.
struct PeerAccess {
  std::string from, to;       ///< PCI addresses
  bool can = false;           ///< direct access is possible
  int performance_rank = -1;  ///< CUDA's rank of the link: lower is faster; -1 if unknown
};

/// All ordered pairs of visible GPUs, without opening any of them. Empty if CUDA does not work.
std::vector<PeerAccess> peer_access();

}  // namespace shardstream::device::cuda
