#include "core/shard.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "core/parallel.hpp"

namespace shardstream {
namespace {

TEST(Share, CoversAllInOrderAndSpreadsTheRemainder) {
  for (const std::uint64_t count : {0UL, 1UL, 5UL, 6UL, 7UL, 1000UL}) {
    for (const std::uint64_t parts : {1UL, 2UL, 3UL, 6UL, 9UL}) {
      std::uint64_t next = 0;
      for (std::uint64_t part = 0; part < parts; ++part) {
        const Range range = share(count, part, parts);
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.count, count / parts + 1);
        EXPECT_GE(range.count, count / parts);
        next = range.end();
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Shard, HasWholeUnitsExceptTheLast) {
  EXPECT_EQ(shard(10, 4, 0, 2), (Range{0, 8}));
  EXPECT_EQ(shard(10, 4, 1, 2), (Range{8, 2}));
  EXPECT_EQ(shard(3, 4, 0, 3), (Range{0, 3}));
  EXPECT_EQ(shard(3, 4, 1, 3), (Range{3, 0}));
  EXPECT_EQ(shard(3, 4, 2, 3), (Range{3, 0}));
}

TEST(Aligned, RoundsUpOrSaturates) {
  EXPECT_EQ(aligned(0), 0U);
  EXPECT_EQ(aligned(1), 256U);
  EXPECT_EQ(aligned(256), 256U);
  EXPECT_EQ(aligned(257), 512U);
  EXPECT_EQ(aligned(UINT64_MAX - 255), UINT64_MAX - 255);
  EXPECT_EQ(aligned(UINT64_MAX - 254), UINT64_MAX);
  EXPECT_EQ(aligned(UINT64_MAX), UINT64_MAX);
}

TEST(Shard, HoldsBeyond32Bits) {
  const std::uint64_t elements = (std::uint64_t{1} << 40) + 3;
  const Range last = shard(elements, 65536, 6, 7);
  EXPECT_EQ(last.end(), elements);
  EXPECT_EQ(last.first % 65536, 0U);
}

TEST(CeilDiv, DoesNotOverflow) {
  EXPECT_EQ(ceil_div(~std::uint64_t{0}, 2), std::uint64_t{1} << 63);
  EXPECT_EQ(ceil_div(0, 3), 0U);
  EXPECT_EQ(ceil_div(7, 7), 1U);
}

TEST(Intersection, OfRanges) {
  EXPECT_EQ(intersection({2, 5}, {4, 10}), (Range{4, 3}));
  EXPECT_EQ(intersection({2, 5}, {7, 10}).count, 0U);
  EXPECT_EQ(intersection({0, 100}, {10, 5}), (Range{10, 5}));
}

TEST(ParallelFor, CallsEachItemOnceAndThrowsTheFirstError) {
  for (const unsigned threads : {1U, 3U, 8U}) {
    std::vector<std::atomic<int>> calls(100);
    parallel_for(100, threads, [&](std::uint64_t i) { ++calls[i]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
    EXPECT_THROW(parallel_for(100, threads,
                              [](std::uint64_t i) {
                                if (i == 50) throw std::runtime_error("no");
                              }),
                 std::runtime_error);
  }
  parallel_for(0, 4, [](std::uint64_t) { FAIL(); });
}

}  // namespace
}  // namespace shardstream
