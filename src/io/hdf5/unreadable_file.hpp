// Explains why a file cannot be used as HDF5, and states the remedy: formats of other programs,
// files that are being written, and formats that are newer than this HDF5.
#pragma once

#include <optional>
#include <string>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Throws UsageError unless `name` is a regular file that is not empty.
void expect_regular_file(const std::string& name);

/// Throws UsageError for a regular file that HDF5 has just failed to open. Needs the lock.
[[noreturn]] void fail_to_open(const std::string& name);

/// The reason and the remedy if HDF5 has just failed to open an object because its format is newer
/// than this HDF5; nothing if there is another reason. Needs the lock.
std::optional<std::string> newer_format(const hdf5::Reasons& reasons);

}  // namespace shardstream::io
