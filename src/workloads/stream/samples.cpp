#include "workloads/stream/samples.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/data/convert.hpp"
#include "kernels/data/generate.hpp"

namespace shardstream::workloads::stream {

SampledRanges::SampledRanges(Range shard, std::uint64_t unit, std::uint64_t stored,
                             std::uint64_t most)
    : stored_(stored) {
  constexpr std::uint64_t enough = std::uint64_t{1} << 16;
  const std::uint64_t each = ceil_div(enough, unit) * unit;
  bytes_ = each * stored;
  const std::uint64_t all = ceil_div(shard.count, each);
  const std::uint64_t samples = std::min({all, most, max});
  for (std::uint64_t i = 0; i < samples; ++i) {
    const Range part = share(all, i, samples);
    const std::uint64_t chosen = part.first + mix(shard.first + i + 1) % part.count;
    ranges_.push_back(intersection(shard, {shard.first + chosen * each, each}));
  }
  kept_.resize(samples * bytes_);
}

void SampledRanges::keep(Range elements, const std::byte* data) {
  visit(elements, [&](std::size_t i, Range common) {
    std::byte* const to = kept_.data() + i * bytes_ + (common.first - ranges_[i].first) * stored_;
    std::memcpy(to, data + (common.first - elements.first) * stored_, common.count * stored_);
  });
}

void SampledRanges::convert(const io::Conversions& conversions) {
  if (conversions.empty()) return;
  const std::uint64_t element = size_of(conversions.front().to);
  const std::uint64_t each = bytes_ / stored_ * element;
  converted_.resize(ranges_.size() * each);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    conversions.visit(ranges_[i], [&](Range elements, const Conversion& conversion) {
      const std::uint64_t offset = elements.first - ranges_[i].first;
      convert_simply(conversion, kept_.data() + i * bytes_ + offset * stored_, elements.count,
                     converted_.data() + i * each + offset * element);
    });
  }
}

}  // namespace shardstream::workloads::stream
