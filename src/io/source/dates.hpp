// The dates of the elements that a source uses, from a time coordinate of the CF conventions.
#pragma once

#include <cstddef>
#include <vector>

#include "core/calendar.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The date of each index that the source uses of a dimension, an index into Source::dimensions().
/// If several files are joined, the units and the calendar of each file apply to its coordinates,
/// so they may differ. Throws UsageError that names the file if the dimension has no coordinates,
/// if their units are no time since a date (core/calendar.hpp), or if a used coordinate is missing.
/// Takes the lock of HDF5.
std::vector<Date> dates_of(const Source& source, std::size_t dimension);

}  // namespace shardstream::io
