#include "workloads/stream/samples.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/data/generate.hpp"

namespace shardstream::workloads::stream {

SampledRanges::SampledRanges(Range shard, std::uint64_t unit, std::uint64_t element)
    : element_(element) {
  constexpr std::uint64_t enough = std::uint64_t{1} << 16;
  const std::uint64_t each = ceil_div(enough, unit) * unit;
  bytes_ = each * element;
  const std::uint64_t all = ceil_div(shard.count, each);
  const std::uint64_t samples = std::min(all, max);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const Range part = share(all, i, samples);
    const std::uint64_t chosen = part.first + mix(shard.first + i + 1) % part.count;
    ranges_.push_back(intersection(shard, {shard.first + chosen * each, each}));
  }
  kept_.resize(samples * bytes_);
}

void SampledRanges::keep(Range elements, const std::byte* data) {
  visit(elements, [&](std::size_t i, Range common) {
    std::byte* const to = kept_.data() + i * bytes_ + (common.first - ranges_[i].first) * element_;
    std::memcpy(to, data + (common.first - elements.first) * element_, common.count * element_);
  });
}

}  // namespace shardstream::workloads::stream
