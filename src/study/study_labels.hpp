// The options that assign a run to a point of a study. `scale` sets them; they are stored with the
// run, and reports group runs by them.
#pragma once

#include <span>

#include "core/options.hpp"

namespace shardstream::study {

/// The rows of [study].
std::span<const OptionRow> label_options();

}  // namespace shardstream::study
