// The [launch] options, and what they ask of a session.
#pragma once

#include <span>

#include "core/options.hpp"
#include "launch/session.hpp"

namespace shardstream::launch {

/// The rows of [launch]: expect-ranks, bind.
std::span<const OptionRow> launch_options();

/// Throws UsageError if launch.expect-ranks is a number and the session has another one.
void check_expected_ranks(const Session& session, const Options& options);

/// Whether launch.bind allows that ranks are bound to a part of their CPUs.
bool may_bind(const Options& options);

}  // namespace shardstream::launch
