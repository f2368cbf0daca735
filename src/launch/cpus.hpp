// Lists of CPUs, as masks and sysfs write them; those that the launcher granted to this process,
// binding it to fewer of them, and the NUMA nodes that CPUs and memory belong to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::launch {

/// Numbers of CPUs (or of ranks), each once; ascending unless another order is stated.
using Cpus = std::vector<int>;

/// "0-7,16-23"; runs of numbers that follow each other, in the order of the list.
std::string list_of(const Cpus& cpus);

/// The numbers of such a list, in its order; none for empty text. Throws Error if it is no list.
Cpus cpus_of(std::string_view list);

/// Those of `these` that are also in `those`, in the order of `these`.
Cpus common(const Cpus& these, const Cpus& those);

/// The CPUs that the calling thread may run on, ascending; none if the system does not tell.
Cpus granted_cpus();

/// The same as a list: "0-7,16-23".
std::string granted_cpu_list();

/// Binds the calling thread, and with it all threads that it starts from now on. Returns the
/// system's words if that is refused, else nothing.
std::string bind_to(const Cpus& cpus);

/// CPUs that this host has running, at least one.
int host_cpus();

/// Pages of [data, data + bytes) a node, "0:4000,1:96" for nodes 0 and 1, counted on up to 4096
/// pages evenly spread over it; pages that were never touched lie nowhere and are not counted.
/// "unknown" where none are, or where the system does not tell (containers often forbid it).
std::string numa_nodes_of(const void* data, std::size_t bytes);

/// The nodes that these CPUs belong to, "0-1"; empty if unknown.
std::string numa_nodes_of_cpus(const Cpus& cpus);

}  // namespace shardstream::launch
