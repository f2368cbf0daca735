#include "workloads/product/engine/samples.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/data/generate.hpp"

namespace shardstream::workloads {
LeafSamples::LeafSamples(Range shard, std::uint64_t leaf, std::uint64_t element)
    : element_(element), leaf_bytes_(leaf * element) {
  const std::uint64_t leaves = ceil_div(shard.count, leaf);
  const std::uint64_t samples = std::min(leaves, most);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const Range stretch = share(leaves, i, samples);
    const std::uint64_t chosen = stretch.first + mix(shard.first + i + 1) % stretch.count;
    ranges_.push_back(intersection(shard, {shard.first + chosen * leaf, leaf}));
  }
  kept_.resize(samples * leaf_bytes_);
}

void LeafSamples::keep(Range elements, const std::byte* data) {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const Range common = intersection(elements, ranges_[i]);
    if (common.count == 0) continue;
    std::byte* to = kept_.data() + i * leaf_bytes_ + (common.first - ranges_[i].first) * element_;
    std::memcpy(to, data + (common.first - elements.first) * element_, common.count * element_);
  }
}

}  // namespace shardstream::workloads
