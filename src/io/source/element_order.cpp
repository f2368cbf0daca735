#include "io/source/element_order.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/shard.hpp"

namespace shardstream::io {
namespace {

std::uint64_t elements_of(const Extents& shape) {
  const std::uint64_t count = saturating_product(shape);
  expect(count > 0, "every extent of a data set is at least 1");
  expect(count <= std::numeric_limits<std::int64_t>::max(),
         "a data set has fewer than 2^63 elements");
  return count;
}

}  // namespace

Extents row_major_strides(const Extents& extent) {
  Extents stride(extent.size(), 1);
  for (std::size_t d = extent.size() - 1; d > 0; --d) stride[d - 1] = stride[d] * extent[d];
  return stride;
}

std::uint64_t Axis::count_below(std::uint64_t index) const {
  return index <= first ? 0 : std::min(count, ceil_div(index - first, step));
}

Selection whole(const Extents& shape) {
  Selection selection;
  for (const std::uint64_t extent : shape) selection.push_back({.count = extent});
  return selection;
}

Extents counts_of(const Selection& selection) {
  Extents counts;
  for (const Axis& axis : selection) counts.push_back(axis.count);
  return counts;
}

/// A box with at least one selected element, and the row-major position of an element inside it.
struct ElementOrder::BoxPosition {
  Extents start, extent;  // in selected indices
  std::uint64_t offset;

  /// The largest block that starts at `offset` and has at most `max` elements. `stride` has the
  /// strides of this box.
  Block block(const Extents& stride, std::uint64_t max) const;
};

ElementOrder::ElementOrder(Selection selection, Extents box)
    : selection_(std::move(selection)),
      shape_(counts_of(selection_)),
      box_(std::move(box)),
      count_(elements_of(shape_)) {
  expect(!shape_.empty() && shape_.size() == box_.size(), "shape and box have the same rank >= 1");
  for (std::size_t d = 0; d < box_.size(); ++d) {
    expect(box_[d] > 0, "every extent of a box is at least 1");
    box_[d] = std::min(box_[d], selection_[d].last() + 1);
  }
}

/// All boxes before a box along a dimension have as many selected indices as there are below its
/// first index, and boxes of the outer dimensions limit the extents found so far.
ElementOrder::BoxPosition ElementOrder::place_of(std::uint64_t index) const {
  const Extents stride = row_major_strides(shape_);
  BoxPosition place{Extents(shape_.size()), Extents(shape_.size()), index};
  std::uint64_t height = 1;  // product of the extents found so far
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    const std::uint64_t layer = height * stride[d];  // elements for each selected index
    const Axis& axis = selection_[d];
    const std::uint64_t box = axis[place.offset / layer] / box_[d];
    place.start[d] = axis.count_below(box * box_[d]);
    place.extent[d] = axis.count_below((box + 1) * box_[d]) - place.start[d];
    place.offset -= place.start[d] * layer;
    height *= place.extent[d];
  }
  return place;
}

ElementOrder::Block ElementOrder::BoxPosition::block(const Extents& stride,
                                                     std::uint64_t max) const {
  const std::size_t rank = stride.size();
  Block block{start, Extents(rank, 1), 0, start, extent};
  Extents inside(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    inside[d] = offset / stride[d] % extent[d];
    block.start[d] += inside[d];
  }
  // The outermost dimension along which whole steps fit from here.
  std::size_t d = 0;
  while (offset % stride[d] != 0 || stride[d] > max) ++d;
  block.extent[d] = std::min(extent[d] - inside[d], max / stride[d]);
  block.count = block.extent[d] * stride[d];
  std::copy(extent.begin() + static_cast<std::ptrdiff_t>(d) + 1, extent.end(),
            block.extent.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  return block;
}

Extents ElementOrder::coordinates(std::uint64_t index) const {
  expect(index < count_, "an element's index is below the count");
  BoxPosition place = place_of(index);
  const Extents stride = row_major_strides(place.extent);
  for (std::size_t d = 0; d < stride.size(); ++d) {
    place.start[d] = selection_[d][place.start[d] + place.offset / stride[d] % place.extent[d]];
  }
  return place.start;
}

std::vector<ElementOrder::Block> ElementOrder::blocks(std::uint64_t first,
                                                      std::uint64_t count) const {
  expect(first <= count_ && count <= count_ - first, "a range of elements ends inside its source");
  std::vector<Block> blocks;
  while (count > 0) {
    BoxPosition place = place_of(first);
    const Extents stride = row_major_strides(place.extent);
    const std::uint64_t in_box = std::min(count, stride[0] * place.extent[0] - place.offset);
    for (const std::uint64_t end = place.offset + in_box; place.offset < end;) {
      blocks.push_back(place.block(stride, end - place.offset));
      place.offset += blocks.back().count;
    }
    first += in_box;
    count -= in_box;
  }
  return blocks;
}

}  // namespace shardstream::io
