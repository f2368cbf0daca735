// Data sets of a result with named dimensions and coordinates, as netCDF-4, xarray and h5py know
// them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "types/element.hpp"

namespace shardstream::io {

/// A scalar or a list that becomes an attribute.
using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
/// Attributes of a data set. `_FillValue`, a number, gets the type of the data set's elements, as
/// netCDF requires.
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

/// A data set of one dimension, or a scalar.
struct Array {
  std::string name;
  std::string dimension;  ///< empty for a scalar, which has one value
  ElementType type;       ///< of stored numbers, which are as near to `values` as it allows
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>> values;
  Attributes attributes = {};
};

/// Dimensions and the data sets that have them, in one group.
struct LabelledData {
  /// If an array along the dimension has its name, that array has the coordinates of the dimension.
  /// Else the dimension has an extent only.
  struct Dimension {
    std::string name;
    std::uint64_t extent;
  };
  /// A data set that already exists in the group.
  struct Existing {
    std::string name;
    std::vector<std::string> dimensions;  ///< no name twice; none for a scalar
    Attributes attributes;
  };
  std::vector<Dimension> dimensions;
  std::vector<Array> arrays;
  std::vector<Existing> existing;
};

}  // namespace shardstream::io
