// Attributes that change what the stored values of a data set mean, or look as if they did: missing
// values, valid ranges, packing, signs. Those that are not applied (conventions.hpp) are listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/description/attributes.hpp"

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

/// Whether stored numbers are integers with or without a sign, or others.
enum class Signedness : std::uint8_t { with_sign, without_sign, others };

/// Whether an attribute with this name and content changes what the values of a data set mean, or
/// may do so. Those that certainly change nothing do not, such as a factor of 1 and a marker NaN.
bool may_change_values(std::string_view name, const AttributeContent& content, Signedness stored);

}  // namespace shardstream::io
