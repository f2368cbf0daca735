// The CPUs that the launcher granted to this process.
#pragma once

#include <string>

namespace shardstream::launch {

/// How many CPUs this process may run on; never more than granted, at least one.
unsigned granted_cpus();

/// The same as a list: "0-7,16-23".
std::string granted_cpu_list();

}  // namespace shardstream::launch
