// Observes the host, CPUs and environment of each rank, and carries out the placement that follows.
#pragma once

#include <vector>

#include "core/log.hpp"
#include "ranks/placement.hpp"
#include "ranks/session.hpp"

namespace shardstream::ranks {

/// This rank's host, CPUs and environment. The caller adds its GPUs.
Situation observe(const Session& session);

/// Every rank's situation, in rank order, on every rank. Collective.
std::vector<Situation> gather(const Session& session, const Situation& mine);

/// Returns the places of all ranks, the same plan on every rank, and binds the calling thread to
/// the CPUs of its rank, and new memory to the NUMA node of its GPU. Call it before other threads
/// are started. Rank 0 prints the warnings. Throws AgreedError if place() throws. Collective.
Placement take_places(const Session& session, const Situation& mine,
                      const PlacementRequest& request, Log& log);

}  // namespace shardstream::ranks
