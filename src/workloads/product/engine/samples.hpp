// Leaves whose elements are kept in passing, so that the result can be verified without reading
// the data again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"

namespace shardstream::workloads {

/// One leaf out of each of up to `most` equal stretches of a shard, chosen by a fixed hash.
class LeafSamples {
 public:
  static constexpr std::uint64_t most = 16;

  /// `shard` begins at a multiple of `leaf` elements; `element` bytes each.
  LeafSamples(Range shard, std::uint64_t leaf, std::uint64_t element);

  /// Copies what `elements` has of the sampled leaves. Several threads may call it at once, with
  /// ranges that do not overlap.
  void keep(Range elements, const std::byte* data);

  /// The elements of each sample, in order, and where they are kept.
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::byte* data(std::size_t sample) const { return kept_.data() + sample * leaf_bytes_; }

 private:
  std::uint64_t element_, leaf_bytes_;
  std::vector<Range> ranges_;
  std::vector<std::byte> kept_;
};

}  // namespace shardstream::workloads
