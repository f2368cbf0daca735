// Records what a rank finds around it, and carries out the plan that all ranks make of it.
#pragma once

#include <vector>

#include "core/log.hpp"
#include "launch/placement.hpp"
#include "launch/session.hpp"

namespace shardstream::launch {

/// This rank's host, CPUs and environment; its GPUs are the caller's to add.
Situation observe(const Session& session);

/// Every rank's situation, in rank order, on every rank. Collective.
std::vector<Situation> gather(const Session& session, const Situation& mine);

/// The places of all ranks, the same plan on each; binds the calling thread to its rank's CPUs, so
/// it is called before other threads are started. Rank 0 prints the warnings. Collective; throws
/// AgreedError where place() throws.
Plan take_places(const Session& session, const Situation& mine, const Wishes& wishes, Log& log);

}  // namespace shardstream::launch
