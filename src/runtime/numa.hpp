// NUMA nodes as the system tells them: of a PCI device, of CPUs, of memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardstream::runtime {

/// Of the device at an address such as "0000:1b:00.0"; -1 if unknown, as in most virtual machines.
int numa_node_of(std::string_view pci);

/// The nodes that have CPUs of a list such as "0-7,16": "0,1"; empty if unknown.
std::string numa_nodes_of_cpus(std::string_view cpus);

/// Pages of [data, data + bytes) a node, "0:500,1:12", counted on up to 4096 pages evenly spread;
/// pages that were never touched are not counted. "unknown" where none are, or where the system
/// does not tell: containers often forbid it.
std::string numa_nodes_of(const void* data, std::size_t bytes);

}  // namespace shardstream::runtime
