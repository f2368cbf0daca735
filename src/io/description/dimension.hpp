// The dimensions of a data set: names, extents, coordinates and the bounds of coordinates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "types/element.hpp"

namespace shardstream::io {

/// One number per dimension of a data set: a shape, coordinates or pitches, in elements.
using Extents = std::vector<std::uint64_t>;

/// The maximum number of dimensions of a data set, as in HDF5.
inline constexpr std::size_t max_dimensions = 32;

/// Dimensions with more elements have no coordinates, which are kept in memory.
inline constexpr std::uint64_t max_coordinates = std::uint64_t{1} << 24;

struct Dimension {
  /// The last part of the path of its scale, as in netCDF and xarray, or else its label; may be
  /// empty, and several dimensions may have the same name.
  std::string name;
  std::uint64_t extent;
  bool has_coordinates;    ///< whether read_coordinates() returns some
  bool is_latin1 = false;  ///< whether the name is not UTF-8 in the file, so that as_utf8() made it

  bool operator==(const Dimension&) const = default;
};

/// "time=360 x lat=180 x lon=360", or "360 x 180" without names; printable.
std::string text_of(std::span<const Dimension> dimensions);

/// The coordinates of the elements along one dimension.
struct Coordinates {
  std::string name;            ///< of the dimension
  ElementType type;            ///< of the values in the file after their unpacking
  std::vector<double> values;  ///< one per element; a missing value is NaN
  /// The texts of `units`, `calendar`, `long_name`, `standard_name` and `axis` that exist.
  std::vector<std::pair<std::string, std::string>> attributes;
  /// If files whose coordinates have different types are joined: whether each value is an f32 in
  /// its file. Otherwise empty, since `type` says it.
  std::vector<bool> are_f32 = {};
  /// Whether such files have some that are i64 or u64.
  bool hold_wide_integers = false;

  /// Whether the value at this position is an f32 in its file.
  bool is_f32(std::size_t position) const {
    return are_f32.empty() ? type == ElementType::f32 : are_f32[position];
  }
};

/// The text of one of these attributes; nothing if it does not exist.
std::optional<std::string> attribute_of(const Coordinates& coordinates, const std::string& name);

/// Whether some coordinates are integers beyond 2^53 in the file, so that they may be rounded here.
bool are_rounded(const Coordinates& coordinates);

/// Whether two coordinates are equal, as f32 if `as_f32`: if one of their types is f32. NaNs are.
bool are_same_coordinates(double a, double b, bool as_f32);

/// The bounds of coordinates, as the attribute `bounds` of the CF conventions names them.
struct Bounds {
  std::string name;            ///< of their data set
  std::string problem;         ///< why they have no values: a sentence; empty if they have some
  std::vector<double> values;  ///< two for each element of the dimension; a missing one is NaN
  /// The texts of `units` and `calendar` that their data set has. Otherwise, those of the
  /// coordinates apply.
  std::vector<std::pair<std::string, std::string>> attributes;
};

}  // namespace shardstream::io
