// The CPUs that are near a GPU, from hwloc. In a build without hwloc, they are unknown.
#pragma once

#include <string>
#include <string_view>

#include "ranks/cpus.hpp"

namespace shardstream::ranks {

/// The NUMA node and the CPUs near a PCI device.
struct Locality {
  int numa_node = -1;  ///< -1: unknown
  Cpus cpus;           ///< ascending, including CPUs that are not granted; none: unknown
};

/// Loads the machine's topology, which takes ten milliseconds or more and is not thread-safe. The
/// first call of locality_of() or neighbours_together() does the same.
void load_topology();

/// The locality of the device with a bus id in CUDA's format, "0000:c1:00.0".
Locality locality_of(std::string_view pci);

/// The same CPUs, reordered so that CPUs of the same core, cache and socket are adjacent. The order
/// does not change if the topology is unknown.
Cpus neighbours_together(const Cpus& cpus);

/// The version of hwloc's interface, "2.8.0"; "none" in a build without it.
std::string hwloc_version();

}  // namespace shardstream::ranks
