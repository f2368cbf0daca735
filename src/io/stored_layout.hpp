// How a data set's elements are laid out in its file, and whether that can be: libhdf5 opens some
// damaged layouts, and crashes when it reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace shardstream::io {

/// The shape of a chunked data set's chunks. Throws UsageError, naming the data set as `name`, if
/// HDF5 would never have made such chunks. Needs the lock.
std::vector<std::uint64_t> chunk_of(const hdf5::Dataset& dataset, const std::string& name);

/// Throws UsageError unless the bytes of a compact data set are those of its elements. Needs the
/// lock.
void expect_compact_size(const hdf5::Dataset& dataset, const std::string& name);

}  // namespace shardstream::io
