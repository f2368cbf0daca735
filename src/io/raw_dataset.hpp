// A contiguous data set whose storage is in the file from the start and is never filled: HDF5 lays
// it out on one rank, then any number of ranks write its bytes without HDF5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// Bytes that a data set of `shape` has. ContractError unless they are between 1 and 2^63 - 1.
std::uint64_t bytes_of(ElementType type, const std::vector<std::uint64_t>& shape);

/// How a file with such data sets is made: they begin at a multiple of 4096, so that they can be
/// read past the page cache. Needs the lock.
hdf5::Properties aligned_access();

/// Makes the data set `path` in `file`; groups on the way are made. Returns where in the file its
/// bytes begin. The file is flushed, so that what HDF5 writes from now on are its own structures
/// alone. Throws Error. Needs the lock.
std::uint64_t lay_out(const hdf5::File& file, const std::string& path, ElementType type,
                      const std::vector<std::uint64_t>& shape);

}  // namespace shardstream::io
