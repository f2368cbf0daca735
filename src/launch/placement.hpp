// Which GPU and which CPUs each rank takes: pure arithmetic on what all ranks see.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "launch/cpus.hpp"

namespace shardstream::launch {

/// A GPU as one rank sees it.
struct Gpu {
  std::string uuid;  ///< "GPU-..." or "MIG-...": one per device, also where MIG devices share a pci
  std::string pci;   ///< "0000:c1:00.0"
  std::string name;  ///< its model
  int numa_node = -1;  ///< -1: unknown
  Cpus cpus;           ///< near it; none: unknown
};

/// What one rank found around it.
struct Situation {
  std::string host;
  Cpus cpus;  ///< granted to it, neighbours that share caches beside each other; none: unknown
  int host_cpus = 1;  ///< CPUs of the host, granted or not
  bool built_with_cuda = false;
  std::vector<Gpu> gpus;                 ///< visible to it, in CUDA's order
  std::string problem;                   ///< why GPUs that are there cannot be used; else empty
  std::vector<std::string> environment;  ///< "NAME=value" of what hands out GPUs, if set
};

/// What the options say.
struct Wishes {
  std::string backend = "auto";  ///< auto|cuda|host
  bool oversubscribe = false;    ///< may ranks share a GPU?
  bool bind = true;              ///< may a rank be bound to a part of its CPUs?
  std::size_t max_cpus = 0;      ///< of a rank; 0: its share of all
  std::size_t first_gpu = 0;     ///< where ranks begin to choose among the GPUs that they see
};

/// Where one rank goes.
struct Place {
  int gpu = -1;  ///< its number among those that this rank sees; -1: the host backend
  std::vector<int>
      sharers;           ///< the ranks on this GPU, this one among them; none on the host backend
  Cpus cpus;             ///< to bind to, ascending: never others than granted; none: unknown
  unsigned threads = 1;  ///< CPUs for this rank alone, at least one
};

struct Plan {
  std::vector<Place> places;          ///< in rank order
  std::vector<std::string> warnings;  ///< one sentence each, for one rank to print
  std::vector<std::string> notes;

  /// Do two ranks anywhere use one GPU?
  bool shares_gpu() const {
    return std::ranges::any_of(places, [](const Place& place) { return place.sharers.size() > 1; });
  }
};

/// The places of all ranks. Each rank, in order, takes the first GPU that it sees, counted around
/// from `first_gpu`, and that no rank of its host has taken; of its CPUs, those near its GPU; where
/// ranks of a host were granted the same CPUs, each gets a part of its own. Throws UsageError with
/// the remedy when ranks differ in backend, when there are more ranks than GPUs (unless ranks may
/// share them, which spreads them evenly), and when GPUs that are there cannot be used: they are
/// never passed over silently.
Plan place(std::span<const Situation> ranks, const Wishes& wishes);

}  // namespace shardstream::launch
