// Warnings about the state of a machine that make measured times vary: busy GPUs, automatic NUMA
// balancing.
#pragma once

#include <string>
#include <vector>

#include "runtime/topology.hpp"

namespace shardstream::runtime {

/// One sentence for each GPU of a rank that other processes keep busy, and one for the ranks whose
/// host memory NUMA balancing may move. The first four of each kind.
///
/// A GPU is busy if kernels ran in at least 10 % of the time before the observation and NVML shows
/// processes that are no ranks. If NVML hides processes, as in containers, it must be 50 %, since
/// an earlier run of the same user may have ended only just before.
std::vector<std::string> warnings_on_state(const Topology& topology);

}  // namespace shardstream::runtime
