// Fills the description of a data set of an HDF5 file. The caller must hold the lock.
#pragma once

#include <string>

#include "io/description/description.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/member.hpp"

namespace shardstream::io {

/// OpenDataset::describe() of a data set that is called `name` in messages. Throws UsageError.
Description describe(const hdf5::Dataset& dataset, const std::string& name,
                     const std::string& member, bool with_attributes);

/// The elements that `member` names in the stored type, or all of it if it is empty.
Member element_of(hid_t stored, const std::string& member, const std::string& name);

}  // namespace shardstream::io
