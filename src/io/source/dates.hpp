// The dates of the elements that a source uses, from a time coordinate of the CF conventions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/calendar.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The dates of the indices that a source uses of a dimension.
struct Dates {
  std::vector<Date> values;
  /// The data set of bounds that the dates are the middle of, as the coordinates name it; empty if
  /// there are none.
  std::string bounds;
  std::vector<std::string> warnings;  ///< sentences for the user
};

/// The dates of a dimension, an index into Source::dimensions(): the middle of the bounds of a
/// coordinate (attribute `bounds`), since the coordinate may be the end of its interval, or the
/// coordinate itself. If several files are joined along the dimension, the units, the calendar and
/// the bounds of each file apply to its coordinates, so they may differ. A warning says if bounds
/// cannot be used, and if without bounds all coordinates are at midnight of the first day of a
/// month, so that they may be the ends of the months before. Throws UsageError that names the file
/// if the dimension has no coordinates, if their units are no time (core/calendar.hpp), or if a
/// used coordinate is missing.
Dates dates_of(const Source& source, std::size_t dimension);

}  // namespace shardstream::io
