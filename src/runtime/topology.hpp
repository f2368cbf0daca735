// The observed placement of ranks, the GPUs, and the links between GPUs.
#pragma once

#include "core/table.hpp"
#include "device/device.hpp"
#include "device/nvml.hpp"
#include "ranks/session.hpp"

namespace shardstream::runtime {

/// The same on every rank. Unknown integers are -1, unknown reals NaN, unknown texts empty or
/// "unknown".
struct Topology {
  /// One row per rank: its CPUs and their NUMA nodes, its device, and the NUMA nodes of its pinned
  /// memory with numbers of pages, observed on a few MiB. `memory_node` is the node that new memory
  /// prefers, -1 if none. `numa_balancing` is "on" or "off".
  Table ranks;
  /// One row per GPU that any rank can see; GPUs that ranks use come first. `rank` is the first
  /// rank that uses the GPU, or -1. `visible` is 1 if CUDA shows it to a rank. `utilization` is
  /// NVML's, of a second or less before the observation, and `other_processes` are not ranks. The
  /// table is empty if neither CUDA nor NVML lists GPUs, and in runs on the host backend.
  Table gpus;
  /// One row per ordered pair of GPUs that one rank can see. Both are numbers of rows of `gpus`.
  Table peers;
};

/// The sources of one rank's observations.
struct Viewpoint {
  const ranks::Session& session;
  unsigned threads = 1;
  device::Device* device = nullptr;  ///< null if none could be opened
  const device::Nvml& nvml;
  bool ask_cuda = false;  ///< whether CUDA lists the GPUs that this rank does not use
};

/// Collective.
Topology observe(const Viewpoint& from);

}  // namespace shardstream::runtime
