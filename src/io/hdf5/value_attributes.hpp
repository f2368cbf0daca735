// Attributes that change what the stored values of a data set mean, or look as if they did: missing
// values, valid ranges, packing, signs. Those that are not applied (conventions.hpp) are listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The meaning of such an attribute.
enum class ValueMeaning : std::uint8_t {
  marker,      ///< a value that stands for "no value"
  limit,       ///< bounds of the valid values
  factor,      ///< values must be multiplied by it
  addend,      ///< it must be added to values
  signedness,  ///< whether integers have a sign, whatever their type is
  no_values    ///< the values are a shape, not data
};

/// The meaning of an attribute with this name. The names are those of netCDF, HDF-EOS, MATLAB, FITS
/// and CDF, and names that look like them, in any case and with any separators. Nothing for others.
std::optional<ValueMeaning> value_meaning(std::string_view name);

/// The names of a data set's attributes that change what its values mean, or may do so, in
/// alphabetical order and printable. Attributes that certainly change nothing are left out, such as
/// a factor of 1 and a marker NaN. Needs the lock. Throws Error if the attributes cannot be listed.
std::vector<std::string> value_attributes(const hdf5::Dataset& dataset);

}  // namespace shardstream::io
