// Lists of CPUs in the format of sysfs, the CPUs that the launcher granted to this process, binding
// to fewer of them, and the NUMA nodes of CPUs and memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::ranks {

/// Numbers of CPUs (or of ranks) without duplicates, ascending unless another order is stated.
using Cpus = std::vector<int>;

/// "0-7,16-23": consecutive numbers are joined; the order is kept.
std::string list_of(const Cpus& cpus);

/// The numbers of such a list, in its order; none for empty text. Throws Error if the text is not a
/// list.
Cpus cpus_of(std::string_view list);

/// The CPUs of `these` that are also in `those`, in the order of `these`.
Cpus common(const Cpus& these, const Cpus& those);

/// The CPUs that the calling thread may run on, ascending; none if they are unknown.
Cpus granted_cpus();

/// The same as a list: "0-7,16-23".
std::string granted_cpu_list();

/// Binds the calling thread and all threads that it starts later. Returns the system's error text,
/// or "" on success.
std::string bind_to(const Cpus& cpus);

/// The number of cores with a CPU that the calling thread may run on, at least one.
int granted_cores();

/// The number of CPUs of this host that are online, at least one.
int host_cpus();

/// The number of pages of [data, data + bytes) on each NUMA node, "0:4000,1:96" for nodes 0 and 1.
/// Up to 4096 evenly spread pages are counted. Pages that were never touched are on no node.
/// "unknown" if no page is on a node or the system gives no answer (many containers forbid it).
std::string numa_nodes_of(const void* data, std::size_t bytes);

/// The NUMA nodes that have both CPUs and memory, ascending; none if they are unknown.
std::vector<int> numa_nodes();

/// The NUMA nodes of these CPUs, "0-1"; empty if unknown.
std::string numa_nodes_of_cpus(const Cpus& cpus);

}  // namespace shardstream::ranks
