// The GPU and the CPUs of each rank: pure arithmetic on the observations of all ranks.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "ranks/cpus.hpp"

namespace shardstream::ranks {

/// A GPU as one rank sees it.
struct VisibleGpu {
  std::string uuid;    ///< "GPU-..." or "MIG-...": unique even if MIG devices share a PCI id
  std::string pci;     ///< "0000:c1:00.0"
  std::string name;    ///< its model
  int numa_node = -1;  ///< -1: unknown
  Cpus cpus;           ///< CPUs near the GPU; none: unknown
};

/// The observations of one rank.
struct Situation {
  std::string host;
  Cpus cpus;          ///< granted to the rank, with CPUs that share caches adjacent; none: unknown
  int host_cpus = 1;  ///< number of CPUs of the host, granted or not
  bool built_with_cuda = false;
  std::vector<VisibleGpu> gpus;          ///< visible to the rank, in CUDA's order
  std::string problem;                   ///< why existing GPUs cannot be used; else empty
  std::vector<std::string> environment;  ///< "NAME=value" of set variables that assign GPUs
};

/// The options that control the placement.
struct PlacementRequest {
  std::string backend = "auto";  ///< auto|cuda|host
  bool oversubscribe = false;    ///< whether ranks may share a GPU
  bool bind = true;              ///< whether ranks may be bound to a part of their CPUs and memory
  std::size_t max_cpus = 0;      ///< of a rank; 0: an equal share
  std::size_t first_gpu = 0;     ///< index of the visible GPU at which each rank starts to choose
};

/// The place of one rank.
struct RankPlacement {
  int gpu = -1;  ///< index among the GPUs that this rank sees; -1: host backend
  /// All ranks on this GPU, this rank included; none on the host backend.
  std::vector<int> sharers;
  Cpus cpus;             ///< CPUs to bind to, ascending and granted to the rank; none: unknown
  unsigned threads = 1;  ///< number of CPUs for this rank alone, at least one
  /// The NUMA node of its GPU, for host memory; -1 if the node is unknown or the host has only one,
  /// and on the host backend.
  int memory_node = -1;
};

struct Placement {
  std::vector<RankPlacement> places;  ///< in rank order
  std::vector<std::string> warnings;  ///< one sentence each, to be printed by one rank
  std::vector<std::string> notes;

  /// Whether two ranks anywhere use the same GPU.
  bool shares_gpu() const {
    return std::ranges::any_of(places,
                               [](const RankPlacement& place) { return place.sharers.size() > 1; });
  }
};

/// The places of all ranks. Each rank in turn takes the first visible GPU, counted cyclically from
/// `first_gpu`, that no other rank of its host has taken. It takes those of its CPUs that are near
/// its GPU. If ranks of a host were granted the same CPUs, each gets a part of its own.
///
/// Throws UsageError with the remedy if ranks would use different backends, if there are more ranks
/// than GPUs (unless ranks may share GPUs; they are then spread evenly), and if existing GPUs
/// cannot be used: they are never ignored silently.
Placement place(std::span<const Situation> ranks, const PlacementRequest& request);

}  // namespace shardstream::ranks
