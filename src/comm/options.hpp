// The [comm] options.
#pragma once

#include <span>

#include "core/options.hpp"

namespace shardstream::comm {

/// The rows of [comm]: transport, timeout.
std::span<const OptionRow> comm_options();

}  // namespace shardstream::comm
