// The warnings about measured links.
#include "runtime/slow_links.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.hpp"

namespace shardstream::runtime {
namespace {

using test::names;

/// The link of a GPU with PCIe 5 x16, whose rate is 63.0 GB/s.
HostLink link(double rate, int ranks_on_host = 1) {
  HostLink link{.rank = 2, .rate = rate, .ranks_on_host = ranks_on_host, .gpu = {}};
  link.gpu.pci = "0000:1b:00.0";
  link.gpu.pcie_generation = link.gpu.pcie_generation_max = 5;
  link.gpu.pcie_width = link.gpu.pcie_width_max = 16;
  return link;
}

TEST(SlowLinks, AreThoseBelowFourFifths) {
  EXPECT_NEAR(share_of_link(link(63.015)), 1, 1e-4);
  EXPECT_EQ(slow_link(link(55.3), 0.88), "");
  EXPECT_EQ(slow_link(link(50.5), 0.80), "");
  EXPECT_TRUE(names(slow_link(link(24.2), 0.38), "rank 2", "0000:1b:00.0", "24.2 GB/s", "38 %",
                    "63.0", "generation 5 x16", "shardstream info"));
}

TEST(SlowLinks, ThatRunBelowTheirBestSaySo) {
  HostLink lanes = link(25), generation = link(12);
  lanes.gpu.pcie_width = 8;
  generation.gpu.pcie_generation = 3;
  EXPECT_TRUE(names(slow_link(lanes, 0.4), "generation 5 x8"));
  EXPECT_TRUE(names(slow_link(generation, 0.2), "generation 3 x16"));
}

/// Ranks of one host may share a switch or memory, which is no fault of a link.
TEST(SlowLinks, OfSeveralRanksOnlyTheOddOnesOut) {
  EXPECT_EQ(slow_link(link(31, 4), 0.5), "");
  EXPECT_EQ(slow_link(link(41, 4), 0.8), "");  // 0.65, more than 0.8 * 0.8
  const std::string odd = slow_link(link(31, 4), 0.86);
  EXPECT_TRUE(names(odd, "31.0 GB/s", "4 ranks", "49 %"));
  HostLink lanes = link(25, 4);
  lanes.gpu.pcie_width = 8;
  EXPECT_TRUE(names(slow_link(lanes, 0.4), "x8"));
}

TEST(SlowLinks, ALinkAtRestIsNoWarning) {
  HostLink fast = link(55);
  fast.gpu.pcie_generation = 1;  // idle again
  EXPECT_EQ(slow_link(fast, 0.87), "");
}

TEST(SlowLinks, UnknownCapacityIsNoWarning) {
  HostLink unknown = link(1);
  unknown.gpu = {};
  EXPECT_TRUE(std::isnan(share_of_link(unknown)));
  EXPECT_EQ(slow_link(unknown, 0.9), "");
}

}  // namespace
}  // namespace shardstream::runtime
