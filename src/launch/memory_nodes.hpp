// On which NUMA nodes a piece of memory lies.
#pragma once

#include <cstddef>
#include <string>

namespace shardstream::launch {

/// Pages of [data, data + bytes) a node, "0:4000,1:96" for nodes 0 and 1, counted on up to 4096
/// pages evenly spread over it; pages that were never touched lie nowhere and are not counted.
/// "unknown" where none are, or where the system does not tell (containers often forbid it).
std::string numa_nodes_of(const void* data, std::size_t bytes);

}  // namespace shardstream::launch
