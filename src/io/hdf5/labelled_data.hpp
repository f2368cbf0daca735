// Writes data sets with named dimensions and coordinates.
#pragma once

#include <cstdint>

#include "io/description/labelled_data.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Writes dimensions as scales, and arrays, to `group`. Gives existing data sets their dimensions
/// and attributes. Texts have variable length and are in UTF-8. Throws Error. Needs the lock.
void write_labelled(hid_t group, const LabelledData& data);

/// An upper bound of the bytes of the arrays in a file.
std::uint64_t bytes_of(const LabelledData& data);

}  // namespace shardstream::io
