// On which NUMA nodes a piece of memory lies, and which nodes CPUs belong to.
#pragma once

#include <cstddef>
#include <string>

#include "launch/cpus.hpp"

namespace shardstream::launch {

/// Pages of [data, data + bytes) a node, "0:4000,1:96" for nodes 0 and 1, counted on up to 4096
/// pages evenly spread over it; pages that were never touched lie nowhere and are not counted.
/// "unknown" where none are, or where the system does not tell (containers often forbid it).
std::string numa_nodes_of(const void* data, std::size_t bytes);

/// The nodes that these CPUs belong to, "0-1"; empty if unknown.
std::string numa_nodes_of_cpus(const Cpus& cpus);

}  // namespace shardstream::launch
