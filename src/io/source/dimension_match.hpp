// Finds the dimensions of a data set, such as weights or labels, among those of the data that it
// belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/source/labels.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// A dimension, by its name and its length.
struct NamedLength {
  std::string name;      ///< empty if it has none
  std::uint64_t count;   ///< of the used indices
  std::uint64_t extent;  ///< of the data set
};

/// The dimensions of a source with these indices.
std::vector<NamedLength> lengths_of(const Source& source, std::span<const std::size_t> dimensions);
/// "lat=3 x 12", by counts.
std::string text_of(std::span<const NamedLength> dimensions);

/// The lengths that a dimension may have to fit a dimension of the data.
enum class MatchedLength : std::uint8_t {
  used,        ///< the number of its used indices
  used_or_all  ///< or the number of all its indices
};

/// A way in which dimensions can be dimensions of the data.
struct DimensionMatch {
  std::vector<std::size_t> places = {};  ///< of each dimension among those of the data
  std::size_t equal_names = 0;           ///< pairs in which both have the same name
};

/// All ways to find the dimensions `own` among those of the data. Two dimensions fit if their
/// lengths do, and if their names are equal when both have one. Those without a name, and those
/// that have the same name, have to be in the order of the data. Some of them if they are very
/// many.
std::vector<DimensionMatch> match_dimensions(std::span<const NamedLength> own,
                                             std::span<const NamedLength> data,
                                             MatchedLength length);

/// Throws UsageError if `own`, the coordinates of a dimension of the data set `name`, differ from
/// those of the dimension `dimension` of the data that it belongs to, and both have the same units:
/// its elements are then those of other points, or in another order. Coordinates are compared as
/// f32 if one of their types is f32. `own` are those of the used indices, or of all of them.
/// `option` is the key in the message. Takes the lock of HDF5.
void expect_same_coordinates(std::string_view option, const std::string& name,
                             const std::optional<Labels>& own, const Source& data,
                             std::size_t dimension);
/// The same for the dimension `own` of a source.
void expect_same_coordinates(std::string_view option, const Source& source, std::size_t own,
                             const Source& data, std::size_t dimension);

}  // namespace shardstream::io
