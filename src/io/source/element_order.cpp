#include "io/source/element_order.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/shard.hpp"

namespace shardstream::io {
namespace {

/// The box that contains an element, and the row-major position of the element inside it.
struct Place {
  Extents start, extent;
  std::uint64_t offset;
};

Place place_of(std::uint64_t index, const Extents& shape, const Extents& box) {
  const Extents stride = row_major_strides(shape);
  Place place{Extents(shape.size()), Extents(shape.size()), index};
  std::uint64_t height = 1;  // product of the extents found so far
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::uint64_t band = height * box[d] * stride[d];
    place.start[d] = place.offset / band * box[d];
    place.offset %= band;
    place.extent[d] = std::min(box[d], shape[d] - place.start[d]);
    height *= place.extent[d];
  }
  return place;
}

std::uint64_t elements_of(const Extents& shape) {
  const std::uint64_t count = saturating_product(shape);
  expect(count > 0, "every extent of a data set is at least 1");
  expect(count <= std::numeric_limits<std::int64_t>::max(),
         "a data set has fewer than 2^63 elements");
  return count;
}

/// The largest block that starts at `offset` inside `place`'s box and has at most `max` elements.
ElementOrder::Block block_at(const Place& place, const Extents& stride, std::uint64_t max) {
  const std::size_t rank = stride.size();
  ElementOrder::Block block{place.start, Extents(rank, 1), 0};
  Extents inside(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    inside[d] = place.offset / stride[d] % place.extent[d];
    block.start[d] += inside[d];
  }
  // The outermost dimension along which whole steps fit from here.
  std::size_t d = 0;
  while (place.offset % stride[d] != 0 || stride[d] > max) ++d;
  block.extent[d] = std::min(place.extent[d] - inside[d], max / stride[d]);
  block.count = block.extent[d] * stride[d];
  std::copy(place.extent.begin() + static_cast<std::ptrdiff_t>(d) + 1, place.extent.end(),
            block.extent.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  return block;
}

}  // namespace

Extents row_major_strides(const Extents& extent) {
  Extents stride(extent.size(), 1);
  for (std::size_t d = extent.size() - 1; d > 0; --d) stride[d - 1] = stride[d] * extent[d];
  return stride;
}

ElementOrder::ElementOrder(Extents shape, Extents box)
    : shape_(std::move(shape)), box_(std::move(box)), count_(elements_of(shape_)) {
  expect(!shape_.empty() && shape_.size() == box_.size(), "shape and box have the same rank >= 1");
  for (std::size_t d = 0; d < box_.size(); ++d) {
    expect(box_[d] > 0, "every extent of a box is at least 1");
    box_[d] = std::min(box_[d], shape_[d]);
  }
}

std::vector<std::uint64_t> ElementOrder::coordinates(std::uint64_t index) const {
  expect(index < count_, "an element's index is below the count");
  Place place = place_of(index, shape_, box_);
  const Extents stride = row_major_strides(place.extent);
  for (std::size_t d = 0; d < stride.size(); ++d) {
    place.start[d] += place.offset / stride[d] % place.extent[d];
  }
  return place.start;
}

std::vector<ElementOrder::Block> ElementOrder::blocks(std::uint64_t first,
                                                      std::uint64_t count) const {
  expect(first <= count_ && count <= count_ - first, "a range of elements ends inside its source");
  std::vector<Block> blocks;
  while (count > 0) {
    Place place = place_of(first, shape_, box_);
    const Extents stride = row_major_strides(place.extent);
    const std::uint64_t in_box = std::min(count, stride[0] * place.extent[0] - place.offset);
    for (const std::uint64_t end = place.offset + in_box; place.offset < end;) {
      blocks.push_back(block_at(place, stride, end - place.offset));
      place.offset += blocks.back().count;
    }
    first += in_box;
    count -= in_box;
  }
  return blocks;
}

}  // namespace shardstream::io
