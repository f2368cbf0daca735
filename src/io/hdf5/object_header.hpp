// Object headers as bytes, for objects that this version of HDF5 cannot open.
#pragma once

#include <filesystem>
#include <string>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Whether the data set at `path` has complex numbers in the form that HDF5 2.0 introduced. False
/// if its header cannot be found. Needs the lock.
bool has_native_complex_numbers(const hdf5::File& file, const std::filesystem::path& name,
                                const std::string& path);

}  // namespace shardstream::io
