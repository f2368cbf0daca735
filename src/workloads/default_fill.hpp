// Elements that may be missing although their file does not say so: floats that equal netCDF's
// default fill value, in data of which nothing says that netCDF wrote them. They count as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/options.hpp"
#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads {

/// The number of these `count` elements of `source` that equal netCDF's default fill value.
/// Integers may well have such values, so it is 0 for them, and for elements that are in no file or
/// are read without conventions.
std::uint64_t default_fills(const Options& options, const io::Source& source,
                            const std::byte* elements, std::uint64_t count);

/// The warning that `found` elements equal the default fill value.
std::string default_fill_warning(const io::Source& source, std::uint64_t found);

/// Warns if elements of `own`, the ranges of the ranks, equal the default fill value. `sampled` is
/// their number among those that the ranks have looked at; only if there are any, the ranks read
/// their ranges once more, with `readers` threads, and count all. Collective. Throws AgreedError if
/// they cannot be read.
void warn_of_default_fills(runtime::Runtime& runtime, const io::Source& source, Range own,
                           std::uint64_t sampled, unsigned readers);

/// The same for a source of which no elements are at hand: the ranks read some.
void warn_of_default_fills(runtime::Runtime& runtime, const io::Source& source, unsigned readers);

}  // namespace shardstream::workloads
