// The attributes of a data set that say what its values mean, as they are in its file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "types/stored_value.hpp"

namespace shardstream::io {

/// The content of an attribute: numbers, a text, or neither.
struct AttributeContent {
  /// Integers are exact, floats rounded to f64. Numbers of an enumeration, such as h5py's booleans,
  /// count as well. Empty if the attribute has none or too many, or if they cannot be read.
  std::vector<Number> numbers = {};
  bool is_f32 = false;  ///< the type of `numbers`
  /// The text of a string, as_utf8(); empty if it is too long or one of several.
  std::optional<std::string> text = {};

  bool operator==(const AttributeContent&) const = default;
};

/// The attributes of a data set that conventions apply.
struct DatasetAttributes {
  /// Those of `convention_attributes` (conventions.hpp) that exist.
  std::map<std::string, AttributeContent, std::less<>> contents = {};
  /// Whether the netCDF library, or a library that imitates it, has written the data set.
  bool by_netcdf = false;
  std::string problem = {};  ///< "HDF5: REASON" if they cannot be read; else empty
};

}  // namespace shardstream::io
