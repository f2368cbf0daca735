// Labels of the elements that a source uses: for each dimension, its name and its coordinates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/source/source.hpp"

namespace shardstream::io {

/// The labels of the indices that a source uses of one dimension.
struct Labels {
  std::string name;            ///< of the dimension; "dim_1" if it has none
  ElementType type;            ///< of the coordinates in the file; i64 for positions
  std::vector<double> values;  ///< one per index
  /// The attributes of the coordinates, such as units.
  std::vector<std::pair<std::string, std::string>> attributes;
  bool are_coordinates;  ///< false: positions in the data set
};

/// The name of a dimension, an index into Source::dimensions(); "dim_1" if it has none.
std::string name_of_dimension(const Source& source, std::size_t dimension);

/// The coordinates of the used indices of a dimension; nothing if it has none. They are read from
/// the first file of the source, or from all that are joined along the dimension. If that fails,
/// there are none, and a sentence in `warnings` states the reason.
std::optional<Labels> coordinates_of(const Source& source, std::size_t dimension,
                                     std::vector<std::string>& warnings);

/// The positions in the data set of the used indices of a dimension.
Labels positions_of(const Source& source, std::size_t dimension);

/// The labels of some dimensions, as indices into Source::dimensions(). A dimension without
/// coordinates has the positions in the data set as labels. A generator has no labels, and neither
/// has a single dimension without name and coordinates that is used as a whole, since its labels
/// would be 0, 1, 2, ... The coordinates are those of coordinates_of().
std::vector<Labels> labels_of(const Source& source, std::span<const std::size_t> dimensions,
                              std::vector<std::string>& warnings);

/// "lat=-30, lon=120.5": the labels of element `index` of dimensions that are flattened row by row.
std::string text_of(std::span<const Labels> labels, std::uint64_t index);

/// The values of labels[which] for all elements of the flattened dimensions.
std::vector<double> flattened(std::span<const Labels> labels, std::size_t which);

/// "time=30, lat=-10": the coordinates of the elements at these positions in the data set, in the
/// dimensions that have coordinates. Like labels_of() otherwise.
std::vector<std::string> coordinates_at(const Source& source, std::span<const Extents> positions,
                                        std::vector<std::string>& warnings);

/// The text of the attribute `key` of the source's data set, such as its units; empty if it has
/// none, or if the source is a generator.
std::string attribute_of(const Source& source, const std::string& key);

}  // namespace shardstream::io
