// Which CPUs are near a GPU, as hwloc knows it; a build without hwloc knows nothing.
#pragma once

#include <string>
#include <string_view>

#include "launch/cpus.hpp"

namespace shardstream::launch {

/// The surroundings of a PCI device.
struct Locality {
  int numa_node = -1;  ///< -1: unknown
  Cpus cpus;           ///< near it, ascending, whether granted or not; none: unknown
};

/// Of the device with a bus id as CUDA writes it, "0000:c1:00.0". The first call, of this function
/// or the next, loads the machine's topology (ten milliseconds or more); not thread-safe until
/// then.
Locality locality_of(std::string_view pci);

/// The same CPUs, those of a core, of a cache, of a socket beside each other; in their given order
/// where the topology is unknown.
Cpus neighbours_together(const Cpus& cpus);

/// The version of hwloc's interface, "2.8.0"; "none" in a build without it.
std::string hwloc_version();

}  // namespace shardstream::launch
