// The input of a run, opened by all ranks alike.
#pragma once

#include <memory>

#include "core/options.hpp"
#include "io/source.hpp"
#include "launch/session.hpp"

namespace shardstream::cli {

/// Opens what `input.data` names. Throws AgreedError where a rank cannot, and where it is not the
/// same data on all ranks. Collective.
std::unique_ptr<io::Source> open_input(const launch::Session& session, const Options& options);

}  // namespace shardstream::cli
