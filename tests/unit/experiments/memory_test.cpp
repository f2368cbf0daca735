// Arithmetic of the experiments on device memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/memory/copy_sums.hpp"
#include "experiments/memory/ecc.hpp"
#include "experiments/memory/l2_sizes.hpp"
#include "experiments/memory/sectors.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr std::uint64_t word = 4;

Access strided(std::uint64_t stride, std::uint64_t offset = 0) {
  return access_of_warp([&](std::uint64_t lane) { return (offset + lane * stride) * word; }, word);
}

TEST(Sectors, OfAStrideGrowUpToOnePerLane) {
  for (std::uint64_t stride = 1; stride <= 8; ++stride) {
    EXPECT_EQ(strided(stride).sectors, 4 * stride) << stride;
    EXPECT_DOUBLE_EQ(strided(stride).efficiency(), 1.0 / static_cast<double>(stride)) << stride;
  }
  for (const std::uint64_t stride : {9U, 31U, 32U, 1024U}) {
    EXPECT_EQ(strided(stride).sectors, 32U) << stride;
    EXPECT_EQ(strided(stride).moved(), 1024U) << stride;
  }
}

TEST(Sectors, OfAnOffsetAreFiveUnlessItBeginsWithASector) {
  for (std::uint64_t offset = 0; offset <= 32; ++offset) {
    EXPECT_EQ(strided(1, offset).sectors, offset % 8 == 0 ? 4U : 5U) << offset;
    EXPECT_EQ(strided(1, offset).asked, 128U) << offset;
  }
}

TEST(Sectors, CountOnceForLanesThatShareAWord) {
  EXPECT_EQ(strided(0).sectors, 1U);
  EXPECT_DOUBLE_EQ(strided(0).efficiency(), 4);
}

TEST(Sectors, OfIdleLanesDoNotCount) {
  std::vector<std::uint64_t> half, every_second;
  for (std::uint64_t lane = 0; lane < 16; ++lane) {
    half.push_back(lane * word);
    every_second.push_back(2 * lane * word);
  }
  EXPECT_EQ(access_of(half, word).sectors, 2U);
  EXPECT_EQ(access_of(every_second, word).sectors, 4U);
  EXPECT_DOUBLE_EQ(access_of(every_second, word).efficiency(), 0.5);
  EXPECT_EQ(access_of({}, word).sectors, 0U);
}

TEST(Sectors, IncludeTheEndOfAWordThatCrossesABoundary) {
  EXPECT_EQ(access_of({28}, 8).sectors, 2U);
  EXPECT_EQ(access_of({28}, 4).sectors, 1U);
}

TEST(Sectors, ArePartialUnlessAllOfTheirBytesAreUsed) {
  EXPECT_EQ(strided(1).partial, 0U);
  EXPECT_EQ(strided(1, 1).partial, 2U);
  EXPECT_EQ(strided(2).partial, 8U);
  EXPECT_EQ(strided(0).partial, 1U);
  EXPECT_EQ(access_of({28}, 8).partial, 2U);
}

TEST(Sectors, ThatAreStoredInPartMoveTwice) {
  EXPECT_DOUBLE_EQ(share_of_copy(1), 1);  // 2 sectors for 2
  EXPECT_DOUBLE_EQ(share_of_copy(0.5), 1.0 / 3);
  EXPECT_DOUBLE_EQ(share_of_copy(0.125), 1.0 / 12);
}

TEST(Ecc, CostsBandwidthOnNarrowBusesOnly) {
  EXPECT_EQ(rate_with_ecc("on", 5120), 1);
  EXPECT_EQ(rate_with_ecc("on", 384), 0.8);
  EXPECT_EQ(rate_with_ecc("off", 384), 1);
  EXPECT_EQ(rate_with_ecc("", 384), 1);
  EXPECT_NE(words_on_ecc("on", 384).find("6.25 %"), std::string::npos);
  EXPECT_EQ(words_on_ecc("on", 5120).find("6.25 %"), std::string::npos);
  EXPECT_NE(words_on_ecc("on", 5120).find("5120"), std::string::npos);
}

TEST(L2Window, IsTwoThirdsOfTheSetAsidePartOrTheWholeRegion) {
  constexpr std::uint64_t mib = 1 << 20;
  const TunedWindow large = tuned_window(30 * mib, 60 * mib);  // as in the guide
  EXPECT_EQ(large.bytes, 20 * mib);
  EXPECT_DOUBLE_EQ(large.hit_ratio, 20.0 / 60);
  const TunedWindow small = tuned_window(30 * mib, 10 * mib);
  EXPECT_EQ(small.bytes, 10 * mib);
  EXPECT_DOUBLE_EQ(small.hit_ratio, 1);
}

TEST(L2Window, UpdatesEachElementAsOftenAsItsThreadReturnsToIt) {
  constexpr std::uint64_t threads = 8;
  for (const std::uint64_t hot : {8, 9, 15, 16, 20}) {
    for (const std::uint64_t count : {0, 5, 8, 100, 163}) {
      std::vector<std::uint64_t> updates(hot);
      for (std::uint64_t thread = 0; thread < threads; ++thread) {
        std::uint64_t at = thread;
        for (std::uint64_t i = thread; i < count; i += threads) {
          ++updates[at];
          at = at + threads < hot ? at + threads : thread;
        }
      }
      for (std::uint64_t element = 0; element < hot; ++element) {
        EXPECT_EQ(updates_of(element, threads, count, hot), updates[element])
            << element << ' ' << hot << ' ' << count;
      }
    }
  }
}

TEST(L2Window, NeedsAPartOfTheCacheThatIsSetAside) {
  EXPECT_EQ(reason_for_no_set_aside(100, "", 100), "");
  EXPECT_NE(reason_for_no_set_aside(0, "", 0).find("MIG"), std::string::npos);
  const std::string mps = reason_for_no_set_aside(100, "unsupported limit", 0);
  EXPECT_NE(mps.find("MPS"), std::string::npos);
  EXPECT_NE(mps.find("unsupported limit"), std::string::npos);
  EXPECT_NE(reason_for_no_set_aside(100, "", 0), "");
}

TEST(AsyncCopy, ExpectsTheSumOfReplacedWords) {
  for (const unsigned count : {0U, 1U, 7U, 64U}) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i) {
      unsigned replaced = 4000000000U + 4 * i;
      for (unsigned step = 0; step < 3; ++step) replaced = replaced * 1664525 + 1013904223;
      sum += replaced;
    }
    EXPECT_EQ(sum_of_replaced(4000000000U, 4, count, 3, 1664525, 1013904223), sum) << count;
  }
}

}  // namespace
}  // namespace shardstream::experiments::memory
