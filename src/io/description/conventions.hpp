// The conventions of netCDF and HDF-EOS5: attributes of a data set that say which stored values are
// missing, and how stored values are unpacked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/description/attributes.hpp"
#include "types/stored.hpp"
#include "types/stored_value.hpp"

namespace shardstream::io {

/// The rules for the values of a data set, from its attributes.
struct Conventions {
  StoredType type = StoredType::f32;  ///< `_Unsigned` may have made it unsigned
  MissingValues missing;              ///< in bits of `type`
  Unpacking unpacking;
  /// The names of the attributes that were taken into account, in a fixed order. A factor of 1 and
  /// an offset of 0 that unpack nothing are left out. "default fill value" stands for netCDF's
  /// value, which has no attribute.
  std::vector<std::string> applied;
  /// The names of the attributes with a factor or an offset, even if they unpack nothing.
  std::vector<std::string> packed_by;
  /// Sentences about attributes that were not applied, or whose meaning is not certain.
  std::vector<std::string> warnings;
  /// The names of the attributes that were not applied, with the reason among `warnings`.
  std::vector<std::string> explained;
};

/// The names of the attributes that may apply.
inline constexpr const char* convention_attributes[] = {
    "MATLAB_empty", "_Unsigned", "_FillValue",   "missing_value", "MissingValue", "valid_range",
    "valid_min",    "valid_max", "scale_factor", "add_offset",    "ScaleFactor",  "Offset"};

/// The rules for a data set with these attributes, whose elements have the type `stored`, in any
/// byte order. They are those of netCDF4-python, and io/README.md lists them. `name` is the name of
/// the data set in messages. Throws UsageError if values cannot be unpacked, if no value is valid,
/// if there are too many missing values, if the data set is the shape of an empty MATLAB array, or
/// if its attributes are damaged.
Conventions conventions_of(const DatasetAttributes& attributes, StoredType stored,
                           const std::string& name);

/// The default fill value of netCDF's types of floats, which f32 has exactly.
inline constexpr double default_fill_value_of_floats = 0x1.ep+122;

/// The value that netCDF gives to elements that were not written. Bytes have none, since each of
/// their few values may be data; f16 has none, since netCDF has no such type.
std::optional<Number> default_fill_value(StoredType type);

/// f32 or f64, the type of unpacked elements; nothing if nothing is unpacked.
std::optional<ElementType> unpacked_type(const Unpacking& unpacking);

}  // namespace shardstream::io
