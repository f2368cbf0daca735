#include "workloads/samples.hpp"

#include <algorithm>
#include <cstring>

namespace shardstream::workloads {
namespace {

/// The finaliser of SplitMix64: any index to an even spread of 64 bits.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

LeafSamples::LeafSamples(Range shard, std::uint64_t leaf, std::uint64_t element)
    : element_(element), leaf_bytes_(leaf * element) {
  const std::uint64_t leaves = ceil_div(shard.count, leaf);
  const std::uint64_t samples = std::min(leaves, most);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const Range stretch = share(leaves, i, samples);
    const std::uint64_t chosen = stretch.first + mixed(shard.first + i + 1) % stretch.count;
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
