// The CPUs that the launcher granted to this process, and binding it to fewer of them.
#pragma once

#include <string>

#include "launch/cpus.hpp"

namespace shardstream::launch {

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
