// The options that say which point of which study a run is. `scale` sets them; they are stored with
// the run, and reports group runs by them.
#pragma once

#include <span>

#include "core/options.hpp"

namespace shardstream::study {

/// The rows of [study]: name, mode, point, replicate.
std::span<const OptionRow> label_options();

}  // namespace shardstream::study
