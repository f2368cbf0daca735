// The workload `reduce`: statistics of all elements in one pass, the same bits for any number of
// ranks, any sizes and any backend.
#pragma once

#include <span>

#include "core/options.hpp"
#include "io/source.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/outcome.hpp"

namespace shardstream::workloads {

/// The rows of [reduce]: ops, nan.
std::span<const OptionRow> reduce_options();

/// This rank's part of `elements` elements.
Range reduce_shard(const launch::Session& session, std::uint64_t elements);

/// What the pipeline takes for a shard of elements of that type. Throws UsageError where memory
/// does not suffice.
pipeline::Sizes plan_reduce(const runtime::Runtime& runtime, ElementType type, Range shard);

/// Prepares the source for this rank's shard. Called by all ranks. Throws AgreedError when options
/// and machine do not fit together, and for NaNs under reduce.nan = error; Error when a rank's data
/// cannot be read.
Outcome reduce(runtime::Runtime& runtime, io::Source& source);

}  // namespace shardstream::workloads
