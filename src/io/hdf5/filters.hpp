// The filters of a data set, and those that this HDF5 lacks. The caller must hold the lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/description/description.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The filters in the order in which they were applied. Throws UsageError with `name`, the name of
/// the data set, for a filter that HDF5 cannot decode. Otherwise, reading would only fail at the
/// first chunk.
std::vector<Filter> filters_of(hid_t creation, const std::string& name);

/// The first filter that HDF5 cannot decode: "32001 (blosc)"; nothing if it can decode all.
std::optional<std::string> missing_filter(hid_t creation);

}  // namespace shardstream::io
