// Counts the floats that equal netCDF's default fill value in data sets without any sign of netCDF
// and without a convention for missing values. They count as data, but may well be missing.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/options.hpp"
#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads {

/// Whether such values of a source can be missing. Those of integers are no less likely as data,
/// and generated elements, or elements that are read without conventions, are as they are.
bool may_have_default_fill(const Options& options, const io::Source& source);

/// How many of these values equal netCDF's default fill value.
std::uint64_t count_default_fill(std::span<const float> values);
std::uint64_t count_default_fill(std::span<const double> values);

/// The warning about `found` elements. With `at_least`, there may be more.
std::string default_fill_warning(const io::Source& source, std::uint64_t found,
                                 bool at_least = false);

/// Warns if elements equal the default fill value. `sampled` is their number among those that this
/// rank has looked at; if it is 0 on all ranks, nothing is read. Otherwise each rank reads its
/// elements, `own`, with `readers` threads, and counts all; if they cannot be read, the warning has
/// the sampled ones. Collective.
void count_and_warn(runtime::Runtime& runtime, const io::Source& source, Range own,
                    std::uint64_t sampled, unsigned readers);

/// The same for a source of which no elements are at hand: each rank reads up to 16 ranges of 65
/// 536 elements. Collective.
void sample_and_warn(runtime::Runtime& runtime, const io::Source& source, unsigned readers);

}  // namespace shardstream::workloads
