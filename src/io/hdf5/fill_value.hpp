// The fill value of a data set: the value of elements that were never written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The fill value as it is stored; zeros if the data set defines none. Needs the lock.
std::vector<std::byte> stored_fill_value(const hdf5::Dataset& dataset);

/// Whether H5Dread writes the fill value to the memory of its caller. With the fill time NEVER, or
/// if no fill value is defined, it leaves the memory of unwritten elements as it was. Needs the
/// lock.
bool is_fill_value_read(const hdf5::Dataset& dataset);

/// Writes `value`, the bytes of one element, to each of `count` elements.
void fill_elements(std::span<const std::byte> value, std::uint64_t count, std::byte* out);

}  // namespace shardstream::io
