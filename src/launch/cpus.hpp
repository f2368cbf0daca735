// Lists of CPUs, as masks and sysfs write them; those that the launcher granted to this process,
// and binding it to fewer of them.
#pragma once

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

}  // namespace shardstream::launch
