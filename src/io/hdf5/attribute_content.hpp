// Reads the contents of attributes of any type, also of damaged ones. The caller must hold the
// lock.
#pragma once

#include <string>
#include <vector>

#include "io/description/attributes.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Reads an attribute of at most 4 KiB. Its content is empty if the attribute does not exist or
/// cannot be read.
AttributeContent attribute_content(hid_t object, const std::string& name);

/// The attributes that conventions apply to a data set with elements of type `stored`, in any byte
/// order. Those of a compound type describe whole rows, so there are none.
DatasetAttributes convention_attributes_of(const hdf5::Dataset& dataset, StoredType stored);

/// The names of a data set's attributes that may_change_values(), in alphabetical order and
/// printable. Throws Error if the attributes cannot be listed.
std::vector<std::string> value_attributes(const hdf5::Dataset& dataset);

}  // namespace shardstream::io
