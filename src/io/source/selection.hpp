// The selection of a part of a data set, FILE:/PATH[SELECTION]. Its text is parsed without a file,
// and resolved for the dimensions of a data set without further reading, besides coordinates.
//
// By position, one item per dimension, as in h5py: `5`, `-1` (the last element), `start:stop:step`
// (`stop` is excluded; each part may be omitted), `:`, and at most once `...` for any number of
// whole dimensions. Dimensions after the last item are whole. In contrast to h5py, positions beyond
// the extent are errors.
//
// By coordinate, any dimensions in any order: `lat=30` is the element with exactly this coordinate,
// `lat=-30:30` are the elements with coordinates from -30 to 30, both included; `lat=-30:` are
// those from -30 up, `lat=:30` those up to 30; a third part is a step in elements. Dimensions
// without an item are whole. If the coordinates decrease, `lat=30:-30` means the same as
// `lat=-30:30`. If they increase, it is an error. Longitudes are a circle, but a range of them ends
// at the first and at the last coordinate: if it means elements on the other side, as
// `lon=350:10` does, it is an error that names the ranges to select instead.
//
// An index and a single coordinate remove their dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/description/dimension.hpp"
#include "io/source/element_order.hpp"

namespace shardstream::io {

/// An end of a range, an index or a coordinate.
struct Bound {
  std::size_t position;         ///< in the text
  std::string text;             ///< as written
  bool is_negative = false;     ///< of a position
  std::uint64_t magnitude = 0;  ///< of a position
  double coordinate = 0;        ///< of an item by coordinate
};

/// An item of a selection.
struct SelectionItem {
  enum class Kind : std::uint8_t { single, range, ellipsis };

  std::size_t position;  ///< of its first character in the text
  Kind kind = Kind::range;
  std::string name = {};  ///< of the dimension, if it selects by coordinate; else empty
  std::optional<Bound> start = {}, stop = {};  ///< the single position or coordinate is `start`
  std::uint64_t step = 1;
};

/// A parsed selection. Without items, it selects everything.
struct SelectionText {
  std::string text;  ///< without brackets
  std::vector<SelectionItem> items;

  /// Parses the text between the brackets. Throws UsageError with the position of the first
  /// character that is wrong.
  static SelectionText parse(std::string_view text);
};

/// Returns the coordinates of a dimension, if it has any.
using CoordinatesOf = std::function<std::optional<Coordinates>(std::size_t dimension)>;

/// The elements that `text` selects from a data set with these dimensions. `coordinates` is called
/// only for dimensions that are selected by coordinate. `name` is the name of the data set in
/// messages. Throws UsageError, with the position in the text, if an item does not fit its
/// dimension: it goes beyond the extent, selects nothing, names no dimension, or there are too many
/// items; or if coordinates are not strictly monotone. Ranges that reach beyond the first or the
/// last coordinate are added to `beyond`: "lat=-90:90 (coordinates: -88 to 88)".
Selection resolve(const SelectionText& text, std::span<const Dimension> dimensions,
                  const CoordinatesOf& coordinates, const std::string& name,
                  std::vector<std::string>* beyond = nullptr);

/// Whether an axis selects every element of a dimension of `extent` elements and keeps it.
bool is_whole(const Axis& axis, std::uint64_t extent);

/// "[0:90, :, 5]", a canonical text by position, which selects the same from a data set of the
/// shape `extents`.
std::string text_of(const Selection& selection, std::span<const std::uint64_t> extents);

}  // namespace shardstream::io
