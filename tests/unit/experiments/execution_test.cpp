// Arithmetic of the experiments on threads, warps and kernels.
#include <gtest/gtest.h>

#include <vector>

#include "experiments/execution/carveouts.hpp"
#include "experiments/memory/walk.hpp"

namespace shardstream::experiments {
namespace {

constexpr std::uint64_t kib = 1024;

/// Compute capability 9.0: 256 KiB, of which at most 228 are shared memory.
TEST(Carveouts, LeaveTheRestToL1) {
  EXPECT_EQ(execution::l1_beside(0, 228 * kib), 256 * kib);
  EXPECT_EQ(execution::l1_beside(100 * kib, 228 * kib), 156 * kib);
  EXPECT_EQ(execution::l1_beside(228 * kib, 228 * kib), 28 * kib);
}

TEST(Carveouts, HoldAtLeastOneBlockAndNoMoreThanOtherLimitsAllow) {
  const auto blocks = [](std::uint64_t carveout, std::uint64_t block) {
    return execution::blocks_in(carveout * kib, block * kib, 8);
  };
  EXPECT_EQ(blocks(0, 32), 1U);
  EXPECT_EQ(blocks(8, 32), 1U);
  EXPECT_EQ(blocks(64, 32), 2U);
  EXPECT_EQ(blocks(100, 32), 3U);
  EXPECT_EQ(blocks(228, 32), 7U);
  EXPECT_EQ(blocks(228, 8), 8U);
}

TEST(Walks, VisitEachPlaceOnce) {
  for (const std::uint64_t count : {1U, 2U, 32U, 4096U}) {
    const memory::Walk walk{count};
    std::vector<int> visits(count);
    for (std::uint64_t x = 0; x < count; ++x) ++visits.at(walk.place(x));
    EXPECT_EQ(visits, std::vector<int>(count, 1)) << count;
    EXPECT_EQ(memory::end_of(walk, count), walk.place(0)) << count;
  }
}

}  // namespace
}  // namespace shardstream::experiments
