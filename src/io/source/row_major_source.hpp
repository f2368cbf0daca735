// A source whose elements are numbered row by row, all of which are used.
#pragma once

#include <vector>

#include "io/source/source.hpp"

namespace shardstream::io {

class RowMajorSource : public Source {
 public:
  /// Every extent >= 1.
  explicit RowMajorSource(const Extents& shape)
      : dimensions_(unnamed_dimensions(shape)), order_(shape, shape) {}

  const std::vector<SourceDimension>& dimensions() const override { return dimensions_; }
  const Extents& box() const override { return order_.box(); }
  Extents coordinates(std::uint64_t index) const override { return order_.coordinates(index); }
  std::vector<ElementOrder::Block> blocks(std::uint64_t first, std::uint64_t count) const override {
    return order_.blocks(first, count);
  }

 private:
  std::vector<SourceDimension> dimensions_;
  ElementOrder order_;
};

}  // namespace shardstream::io
