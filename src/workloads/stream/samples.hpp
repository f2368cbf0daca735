// The ranges of a shard whose elements are kept when they are read, so that a result can be
// verified without reading the data again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"

namespace shardstream::workloads::stream {

/// Samples one range from each of up to `max` equal parts of a shard, chosen by a fixed hash. A
/// range is the smallest number of whole units with at least 65 536 elements; the last range of the
/// data may be shorter.
class SampledRanges {
 public:
  static constexpr std::uint64_t max = 16;

  /// `shard` begins at a multiple of `unit` elements; `element` bytes each.
  SampledRanges(Range shard, std::uint64_t unit, std::uint64_t element);

  /// Copies the elements that belong to sampled ranges. Several threads may call it at once, with
  /// ranges that do not overlap.
  void keep(Range elements, const std::byte* data);

  /// Calls use(sample, common) for each sampled range that has elements in common with `elements`,
  /// in order.
  template <class Use>
  void visit(Range elements, const Use& use) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const Range common = intersection(elements, ranges_[i]);
      if (common.count > 0) use(i, common);
    }
  }

  /// The element range of each sample in order, and its elements.
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::byte* data(std::size_t sample) const { return kept_.data() + sample * bytes_; }

 private:
  std::uint64_t element_, bytes_;  // of one element, and of one range
  std::vector<Range> ranges_;
  std::vector<std::byte> kept_;
};

}  // namespace shardstream::workloads::stream
