// The ranges of a shard whose elements are kept when they are read, as they are stored, so that a
// result can be verified without reading the data again. They are converted by other code than the
// data, so the check covers the conversion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "io/source/conversions.hpp"

namespace shardstream::workloads::stream {

/// Samples one range from each of some equal parts of a shard, chosen by a fixed hash. A
/// range is the smallest number of whole units with at least 65 536 elements; the last range of the
/// data may be shorter.
class SampledRanges {
 public:
  static constexpr std::uint64_t max = 16;

  /// `shard` begins at a multiple of `unit` elements; `stored` bytes each. Up to `most` ranges, at
  /// most `max`.
  SampledRanges(Range shard, std::uint64_t unit, std::uint64_t stored, std::uint64_t most = max);

  /// Copies the stored elements that belong to sampled ranges. Several threads may call it at once,
  /// with ranges that do not overlap.
  void keep(Range elements, const std::byte* data);

  /// Converts all samples, unless `conversions` is empty. May be repeated.
  void convert(const io::Conversions& conversions);

  /// Calls use(sample, common) for each sampled range that has elements in common with `elements`,
  /// in order.
  template <class Use>
  void visit(Range elements, const Use& use) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const Range common = intersection(elements, ranges_[i]);
      if (common.count > 0) use(i, common);
    }
  }

  /// The element range of each sample in order, and its elements after convert().
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::byte* data(std::size_t sample) const {
    return converted_.empty() ? kept_.data() + sample * bytes_
                              : converted_.data() + sample * converted_.size() / ranges_.size();
  }

 private:
  std::uint64_t stored_, bytes_;  // of one stored element, and of those of one range
  std::vector<Range> ranges_;
  std::vector<std::byte> kept_, converted_;
};

}  // namespace shardstream::workloads::stream
