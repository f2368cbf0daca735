// The numbering of the elements of a data set. Only the last box along a dimension can be clipped,
// so all boxes before a box are full, and its position follows from one division per dimension.
#pragma once

#include <cstdint>
#include <vector>

namespace shardstream::io {

/// One number per dimension of a data set: a shape, coordinates or pitches, in elements.
using Extents = std::vector<std::uint64_t>;

/// The number of elements per step along each dimension of a row-major block with at least one
/// dimension.
Extents row_major_strides(const Extents& extent);

/// The numbering of the elements of a data set: box by box in row-major order of the boxes, and
/// row-major inside a box. Boxes at the upper edges are clipped. A contiguous data set and a
/// generator have one box; the boxes of a chunked data set are its chunks.
class ElementOrder {
 public:
  /// `shape` and `box` have the same rank >= 1; every extent >= 1.
  ElementOrder(Extents shape, Extents box);

  const Extents& shape() const { return shape_; }
  const Extents& box() const { return box_; }
  std::uint64_t count() const { return count_; }

  /// Coordinates of element `index` in the data set's shape.
  Extents coordinates(std::uint64_t index) const;

  /// A run of consecutive elements that is a block of the data set.
  struct Block {
    Extents start, extent;
    std::uint64_t count;
  };
  /// The elements [first, first+count) as blocks, in order, with at most 2*rank-1 blocks per box.
  std::vector<Block> blocks(std::uint64_t first, std::uint64_t count) const;

 private:
  Extents shape_, box_;
  std::uint64_t count_;
};

/// The order in which a source will be read.
enum class ReadOrder {
  elements,    ///< ranges of elements, chunk by chunk
  rectangles,  ///< rectangles, which may share chunks
};

}  // namespace shardstream::io
