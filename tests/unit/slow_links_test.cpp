// Which measured links are warned of, and what is said of them.
#include "runtime/slow_links.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace shardstream::runtime {
namespace {

/// Of a GPU whose PCIe 5 x16 carries 63.0 GB/s, as it should.
HostLink link(double rate, int ranks_on_host = 1) {
  HostLink link{.rank = 2, .rate = rate, .ranks_on_host = ranks_on_host, .gpu = {}};
  link.gpu.pci = "0000:1b:00.0";
  link.gpu.pcie_generation = link.gpu.pcie_generation_max = 5;
  link.gpu.pcie_width = link.gpu.pcie_width_max = 16;
  return link;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SlowLinks, AreThoseBelowFourFifths) {
  EXPECT_NEAR(share_of_link(link(63.015)), 1, 1e-4);
  EXPECT_EQ(slow_link(link(55.3), 0.88), "");
  EXPECT_EQ(slow_link(link(50.5), 0.80), "");
  EXPECT_EQ(
      slow_link(link(24.2), 0.38),
      "uploads of rank 2 to the GPU at 0000:1b:00.0 reach 24.2 GB/s, 38 % of the 63.0 that "
      "PCIe generation 5 x16 can carry: see whether the rank's CPUs and memory are those near "
      "the GPU (shardstream info), what else uses the machine, and its IOMMU and ACS "
      "settings");
}

TEST(SlowLinks, ThatRunBelowTheirBestSaySo) {
  HostLink lanes = link(25), generation = link(12);
  lanes.gpu.pcie_width = 8;
  generation.gpu.pcie_generation = 3;
  EXPECT_TRUE(has(slow_link(lanes, 0.4), "and the link runs as generation 5 x8: see the link's"));
  EXPECT_TRUE(has(slow_link(generation, 0.2), "and the link runs as generation 3 x16"));
}

/// Ranks of one host may have to share what no link is to blame for.
TEST(SlowLinks, OfSeveralRanksOnlyTheOddOnesOut) {
  EXPECT_EQ(slow_link(link(31, 4), 0.5), "");
  EXPECT_EQ(slow_link(link(41, 4), 0.8), "");  // 0.65, more than 0.8 * 0.8
  const std::string odd = slow_link(link(31, 4), 0.86);
  EXPECT_TRUE(has(odd, "reach 31.0 GB/s with 4 ranks of the host at work, 49 % of")) << odd;
  HostLink lanes = link(25, 4);
  lanes.gpu.pcie_width = 8;
  EXPECT_TRUE(has(slow_link(lanes, 0.4), "x8"));
}

TEST(SlowLinks, OfAnIdleLinkThatWokeUpNothingIsSaid) {
  HostLink fast = link(55);
  fast.gpu.pcie_generation = 1;  // it rests again
  EXPECT_EQ(slow_link(fast, 0.87), "");
}

TEST(SlowLinks, WhatIsNotKnownIsNotHeldAgainstThem) {
  HostLink unknown = link(1);
  unknown.gpu = {};
  EXPECT_TRUE(std::isnan(share_of_link(unknown)));
  EXPECT_EQ(slow_link(unknown, 0.9), "");
}

}  // namespace
}  // namespace shardstream::runtime
