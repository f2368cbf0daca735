// The kit of workloads that stream one source.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "workloads/stream/computation.hpp"
#include "workloads/stream/samples.hpp"

namespace shardstream::workloads::stream {
namespace {

TEST(SampledRanges, AreWholeUnitsInDifferentPartsOfTheShard) {
  constexpr std::uint64_t enough = 65536;
  for (const std::uint64_t unit : {std::uint64_t{1}, std::uint64_t{1000}, enough, 3 * enough}) {
    const std::uint64_t each = ceil_div(enough, unit) * unit;
    const Range shard{5 * unit, 100 * each};
    const SampledRanges samples(shard, unit, 1);
    ASSERT_EQ(samples.ranges().size(), SampledRanges::max);
    std::uint64_t end = shard.first;
    for (const Range range : samples.ranges()) {
      EXPECT_GE(range.first, end);
      EXPECT_EQ((range.first - shard.first) % unit, 0U);
      EXPECT_EQ(range.count, each);
      end = range.end();
    }
    EXPECT_LE(end, shard.end());
  }
  EXPECT_EQ(SampledRanges({0, 1 << 24}, 1, 4, 3).ranges().size(), 3U);
  EXPECT_TRUE(SampledRanges({0, 0}, 1, 4).ranges().empty());
  EXPECT_EQ(SampledRanges({0, 10}, 1, 4).ranges(), std::vector{(Range{0, 10})});
}

TEST(SampledRanges, KeepTheirElementsFromPiecesOfAnySize) {
  const Range shard{1000, 5 * 65536 + 17};
  SampledRanges samples(shard, 1, sizeof(std::uint32_t));
  std::uint64_t visited = 0;
  for (std::uint64_t first = shard.first; first < shard.end(); first += 10'007) {
    const Range piece = intersection(shard, {first, 10'007});
    std::vector<std::uint32_t> data;
    for (std::uint64_t i = piece.first; i < piece.end(); ++i) {
      data.push_back(static_cast<std::uint32_t>(i));
    }
    samples.keep(piece, reinterpret_cast<const std::byte*>(data.data()));
    samples.visit(piece, [&](std::size_t, Range common) { visited += common.count; });
  }
  for (std::size_t sample = 0; sample < samples.ranges().size(); ++sample) {
    const Range range = samples.ranges()[sample];
    visited -= range.count;
    const auto* const kept = reinterpret_cast<const std::uint32_t*>(samples.data(sample));
    for (std::uint64_t i = 0; i < range.count; ++i) ASSERT_EQ(kept[i], range.first + i);
  }
  EXPECT_EQ(visited, 0U);
}

TEST(SampledRanges, ConvertTheirElements) {
  const Range shard{1000, 20 * 65536 + 17};
  SampledRanges samples(shard, 1, sizeof(std::int16_t));
  std::vector<std::int16_t> data;
  for (std::uint64_t i = shard.first; i < shard.end(); ++i) {
    data.push_back(static_cast<std::int16_t>(i % 10'007));
  }
  samples.keep(shard, reinterpret_cast<const std::byte*>(data.data()));
  const Conversion how{.from = StoredType::i16,
                       .to = ElementType::f64,
                       .missing = {.value = {77}, .count = 1},
                       .unpacking = {.scale = 0.5, .multiplies = true}};
  io::Conversions all;
  all.add(shard.end(), how);
  for (int repetition = 0; repetition < 2; ++repetition) {
    samples.convert(all);
    ASSERT_EQ(samples.ranges().size(), SampledRanges::max);
    for (std::size_t sample = 0; sample < samples.ranges().size(); ++sample) {
      const Range range = samples.ranges()[sample];
      const auto* const elements = reinterpret_cast<const double*>(samples.data(sample));
      for (std::uint64_t i = 0; i < range.count; ++i) {
        const std::uint64_t stored = (range.first + i) % 10'007;
        if (stored == 77) {
          ASSERT_TRUE(std::isnan(elements[i]));
        } else {
          ASSERT_EQ(elements[i], 0.5 * static_cast<double>(stored));
        }
      }
    }
  }
}

TEST(Digest, DiffersByBitsButNotByKindsOfNaN) {
  const auto digest_of = [](const std::vector<double>& values) {
    Digest digest;
    for (const double value : values) digest.add(value);
    return digest;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(digest_of({1, nan}), digest_of({1, -nan}));
  EXPECT_FALSE(digest_of({1, 2}) == digest_of({2, 1}));
  EXPECT_FALSE(digest_of({0.0}) == digest_of({-0.0}));
  EXPECT_FALSE(digest_of({1}) == digest_of({std::nextafter(1, 2)}));
}

}  // namespace
}  // namespace shardstream::workloads::stream
