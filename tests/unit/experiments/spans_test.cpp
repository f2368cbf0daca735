// Arithmetic of the experiments on execution: times of kernels, and how processes can share a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/execution/sharing_ways.hpp"
#include "experiments/execution/spans.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::experiments::execution {
namespace {

TEST(Spans, OverlapIfTheyCoverTheSameMoment) {
  EXPECT_EQ(largest_overlap({}), 0U);
  EXPECT_EQ(largest_overlap({{1, 5}}), 1U);
  EXPECT_EQ(largest_overlap({{1, 5}, {5, 9}, {9, 12}}), 1U);  // one after the other
  EXPECT_EQ(largest_overlap({{4, 9}, {1, 5}}), 2U);
  EXPECT_EQ(largest_overlap({{1, 9}, {2, 3}, {4, 5}, {4, 8}}), 3U);
  EXPECT_EQ(largest_overlap({{1, 9}, {1, 9}, {1, 9}}), 3U);
}

TEST(Spans, ShareATimeOrNone) {
  const Span all = hull({{5, 9}, {1, 3}});
  EXPECT_EQ(all.begin, 1U);
  EXPECT_EQ(all.end, 9U);
  const Span shared = common({{1, 9}, {3, 12}, {2, 8}});
  EXPECT_EQ(shared.begin, 3U);
  EXPECT_EQ(shared.end, 8U);
  const Span none = common({{1, 3}, {5, 9}});
  EXPECT_EQ(none.begin, none.end);
}

TEST(Spans, CountWithTheirPartInsideAWindow) {
  EXPECT_DOUBLE_EQ(count_inside({{0, 10}, {10, 20}, {20, 40}, {50, 60}}, {5, 25}), 0.5 + 1 + 0.25);
  EXPECT_DOUBLE_EQ(count_inside({{0, 10}}, {10, 20}), 0);
  EXPECT_DOUBLE_EQ(count_inside({{5, 5}}, {0, 20}), 0);
}

TEST(Spans, HaveAMedianLengthWithoutTheFirstAndTheLast) {
  EXPECT_DOUBLE_EQ(median_length({{0, 1}, {2, 5}, {6, 11}, {12, 19}, {20, 21}}), 5);
  EXPECT_TRUE(std::isnan(median_length({{0, 1}, {2, 5}})));
}

TEST(ResidentGrids, AreThoseOfTheProgrammingGuide) {
  EXPECT_EQ(max_resident_grids(52), 32U);
  EXPECT_EQ(max_resident_grids(62), 16U);
  for (const int capability : {60, 70, 75, 80, 86, 89, 90, 100, 120}) {
    EXPECT_EQ(max_resident_grids(capability), 128U) << capability;
  }
}

TEST(Sharing, NeedsAModeThatAllowsSeveralProcessesOrMps) {
  using Ways = std::vector<SharingWay>;
  const auto ways = [](ComputeMode mode, bool has_mps) {
    return ways_to_share({.mode = mode, .has_mps = has_mps});
  };
  EXPECT_EQ(ways(ComputeMode::shared, false), (Ways{SharingWay::without_mps}));
  EXPECT_EQ(ways(ComputeMode::shared, true), (Ways{SharingWay::without_mps, SharingWay::with_mps}));
  EXPECT_EQ(ways(ComputeMode::exclusive, true), (Ways{SharingWay::with_mps}));
  EXPECT_THROW((void)ways(ComputeMode::exclusive, false), NotAvailable);
  for (const bool has_mps : {false, true}) {
    EXPECT_THROW((void)ways(ComputeMode::prohibited, has_mps), NotAvailable);
  }
}

TEST(Sharing, FindsTheControlPipeOfMps) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(has_control_pipe(folder.path().c_str()));
  std::ofstream(folder.path() / "control");
  EXPECT_TRUE(has_control_pipe(folder.path().c_str()));
  EXPECT_FALSE(has_control_pipe("/dev/null"));
}

}  // namespace
}  // namespace shardstream::experiments::execution
