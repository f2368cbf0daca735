// Records what a rank finds around it, and carries out the plan that all ranks make of it.
#pragma once

#include <string>
#include <string_view>

#include "core/log.hpp"
#include "launch/placement.hpp"
#include "launch/session.hpp"

namespace shardstream::launch {

/// This rank's host, CPUs and environment; its GPUs are the caller's to add.
Situation observe(const Session& session);

/// A situation as text, to be gathered, and back.
std::string to_text(const Situation& situation);
Situation situation_of(std::string_view text);

/// The places of all ranks, the same plan on each; binds the calling thread to its rank's CPUs, so
/// it is called before other threads are started. Rank 0 prints the warnings. Collective; throws
/// AgreedError where place() throws.
Plan take_places(const Session& session, const Situation& mine, const Wishes& wishes, Log& log);

}  // namespace shardstream::launch
