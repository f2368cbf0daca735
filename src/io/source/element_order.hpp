// The numbering of the elements that are used of a data set. Along each dimension, boxes are
// multiples of a chunk in the data set, so the position of an element follows from one division per
// dimension.
#pragma once

#include <cstdint>
#include <vector>

#include "io/description/dimension.hpp"

namespace shardstream::io {

/// The number of elements per step along each dimension of a row-major block with at least one
/// dimension.
Extents row_major_strides(const Extents& extent);

/// The indices that are used of one dimension: first, first + step, ...
struct Axis {
  std::uint64_t first = 0, step = 1, count = 0;
  bool is_index = false;  ///< a single index, which removes the dimension from the shape

  /// The index in the data set of selected index `i`.
  std::uint64_t operator[](std::uint64_t i) const { return first + i * step; }
  std::uint64_t last() const { return (*this)[count - 1]; }
  /// The number of selected indices below `index` of the data set.
  std::uint64_t count_below(std::uint64_t index) const;

  bool operator==(const Axis&) const = default;
};

/// One axis per dimension of a data set; every count >= 1.
using Selection = std::vector<Axis>;

/// The selection of all elements.
Selection whole(const Extents& shape);
/// The count of each axis.
Extents counts_of(const Selection& selection);

/// The numbering of the selected elements of a data set: box by box in row-major order of the
/// boxes, and row-major inside a box. A contiguous data set and a generator have one box; the boxes
/// of a chunked data set are its chunks. Boxes contain only their selected elements.
class ElementOrder {
 public:
  /// `selection` and `box` have the same rank >= 1. `box` has the extents of a chunk in the data
  /// set; every extent >= 1.
  ElementOrder(Selection selection, Extents box);
  /// All elements of a data set.
  ElementOrder(const Extents& shape, Extents box) : ElementOrder(whole(shape), std::move(box)) {}

  const Selection& selection() const { return selection_; }
  /// The counts of the selection.
  const Extents& shape() const { return shape_; }
  const Extents& box() const { return box_; }
  std::uint64_t count() const { return count_; }

  /// Coordinates of element `index` in the data set.
  Extents coordinates(std::uint64_t index) const;

  /// A run of consecutive elements that is a block of the selection.
  struct Block {
    Extents start, extent;  ///< in selected indices
    std::uint64_t count;
    Extents box_start, box_extent;  ///< of its box, in selected indices
  };
  /// The elements [first, first+count) as blocks, in order, with at most 2*rank-1 blocks per box.
  std::vector<Block> blocks(std::uint64_t first, std::uint64_t count) const;

 private:
  struct BoxPosition;
  BoxPosition place_of(std::uint64_t index) const;

  Selection selection_;
  Extents shape_, box_;
  std::uint64_t count_;
};

/// The order in which a source will be read.
enum class ReadOrder {
  elements,  ///< ranges of elements, chunk by chunk
  blocks,    ///< blocks, such as rectangles of a matrix, which may share chunks
};

}  // namespace shardstream::io
