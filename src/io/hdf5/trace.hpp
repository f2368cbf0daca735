// Finds the files that contain the bytes of a data set: the named file, targets of external links,
// sources of virtual data sets, and external storage, recursively.
#pragma once

#include <filesystem>
#include <string>

#include "io/description/origin.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Finds all files of the data set `path` of `file`, which is open as `opened`. Throws UsageError
/// if a required file is missing, too short, or a FIFO, device or socket; if virtual data sets form
/// a cycle; and, with Unwritten::reject, if elements were never written. Takes HDF5's lock.
Origin trace_origin(const hdf5::File& opened, const std::filesystem::path& file,
                    const std::string& path, Unwritten unwritten);

}  // namespace shardstream::io
