// The CPUs that the launcher granted to this process.
#pragma once

#include <string>

#include "launch/session.hpp"

namespace shardstream::launch {

/// How many CPUs this process may run on; never more than granted, at least one.
unsigned granted_cpus();

/// The same as a list: "0-7,16-23".
std::string granted_cpu_list();

/// CPUs for this rank alone: those granted to it, shared out where other ranks of the host were
/// granted the same. At least one. Collective.
unsigned own_cpus(const Session& session);

}  // namespace shardstream::launch
