// Who ran where: ranks, GPUs, and how GPUs reach each other, as they were observed.
#pragma once

#include "core/table.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::runtime {

/// The same on every rank. Integers that are unknown are -1, reals NaN, texts empty or "unknown".
struct Topology {
  /// A row a rank: its CPUs and their NUMA nodes, its device, and the nodes (with numbers of pages)
  /// where pinned memory that it allocates lands, seen on a few MiB.
  Table ranks;
  /// A row a GPU that any rank can see, the bound ones first; `rank` is the first rank that has
  /// bound it, else -1; `visible` is 1 if CUDA shows it to a rank. None where nothing tells of
  /// GPUs, and in runs on the host backend.
  Table gpus;
  /// A row an ordered pair of GPUs that one rank can see; both are numbers of `gpus`.
  Table peers;
};

/// From where one rank looks.
struct Viewpoint {
  const ranks::Session& session;
  unsigned threads = 1;
  device::Device* device = nullptr;  ///< null if none could be opened
  const device::Nvml& nvml;
  bool ask_cuda = false;  ///< about GPUs that are not bound, too
};

/// Collective.
Topology observe(const Viewpoint& from);
Topology observe(const Runtime& runtime);

}  // namespace shardstream::runtime
