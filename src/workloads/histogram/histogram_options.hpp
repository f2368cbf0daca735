// The [histogram] options.
#pragma once

#include <span>

#include "core/options.hpp"
#include "workloads/histogram/bins.hpp"

namespace shardstream::workloads::histogram {

/// The rows of [histogram].
std::span<const OptionRow> histogram_options();

/// The requested bins. Throws UsageError, also if two edges are equal.
Bins bins_of(const Options& options);

}  // namespace shardstream::workloads::histogram
