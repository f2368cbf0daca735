// What every command that starts MPI shares: options first, then MPI, then the work; and how it
// ends.
#pragma once

#include <functional>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options.hpp"
#include "launch/session.hpp"

namespace shardstream::cli {

using Body = std::function<ExitCode(const launch::Session&, const Options&, Log&)>;

/// Calls `parse` and then, inside an MPI session, `body`; returns what the process returns. The
/// warnings of the options and an error are printed once. An error in `parse` starts MPI only under
/// a launcher, where the ranks must agree on who speaks. An error that one rank alone knows of ends
/// all ranks at once.
int in_session(const std::function<Options()>& parse, const Body& body);

}  // namespace shardstream::cli
