// Finds the dimensions of a data set, such as weights or labels, among those of the data that it
// belongs to, and its elements that belong to those of the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/source/dimension_labels.hpp"
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

/// The elements along a dimension of another data set, such as weights, that belong to the used
/// indices of a dimension of the data.
class DimensionPairs {
 public:
  /// How the elements were found. `coordinates`: they are in the order of the data.
  enum class By : std::uint8_t { coordinates, reordered_coordinates, position };

  /// By their positions: an element for each used index, or for each index of the dimension if
  /// their number is another one.
  DimensionPairs(const Axis& axis, std::uint64_t elements, By by);
  /// The element of each used index.
  explicit DimensionPairs(std::vector<std::uint64_t> elements);

  By by() const { return by_; }
  /// The number of used indices.
  std::uint64_t count() const { return axis_.count; }
  /// The element that belongs to used index `i`.
  std::uint64_t operator[](std::uint64_t i) const {
    return elements_.empty() ? axis_[i] : elements_[i];
  }

 private:
  By by_;
  Axis axis_;  // of the elements; only its count matters if they have another order
  std::vector<std::uint64_t> elements_;
};

/// Finds the elements of the data set `name` along a dimension with the coordinates `own`. They
/// belong to the dimension `dimension` of the data, which has as many used indices or indices.
/// If both have coordinates, elements with the same meaning belong together (CommonScale), in any
/// order. Otherwise their positions decide; coordinates that cannot be read are none. Throws
/// UsageError if the units cannot be compared, or if a used coordinate of the data is missing in
/// `own`, or is there several times in another order. `option` is the key in the message. Takes the
/// lock of HDF5.
DimensionPairs pair_elements(std::string_view option, const std::string& name,
                             const std::optional<Labels>& own, std::uint64_t elements,
                             const Source& data, std::size_t dimension);
/// The same for the dimension `own` of a source.
DimensionPairs pair_elements(std::string_view option, const Source& source, std::size_t own,
                             const Source& data, std::size_t dimension);

/// The names of dimensions of the data whose elements were not simply those with the same
/// coordinates in the same order.
struct PairedDimensions {
  std::vector<std::string> by_position = {}, reordered = {};

  void add(const Source& data, std::size_t dimension, DimensionPairs::By by);
};

}  // namespace shardstream::io
