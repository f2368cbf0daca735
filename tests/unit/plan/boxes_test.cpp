// The choice of a decomposition, and errors of impossible ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/plan/problems.hpp"

namespace shardstream::workloads::product {
namespace {

using test::names;

TEST(PlanBoxes, LongSumsOfFewTilesAreSplit) {
  Problem problem =
      problem_of(8192, 8192, 1 << 22, gemm::Precision::fp64, Backend::cuda, 8, 48 * GiB);
  const Plan plan = make_plan(problem, rates, 3);
  EXPECT_EQ(plan.decision.decomposition, Decomposition::split_k) << text_of(plan);
  EXPECT_EQ(plan.shape.box, (Box{1, 1, 8}));
  EXPECT_EQ(plan.part.layer, 3U);
  EXPECT_EQ(plan.part.segments, (Range{24, 8}));
  ASSERT_NE(alternative(plan, Decomposition::rows), nullptr);
  EXPECT_GT(alternative(plan, Decomposition::rows)->seconds, 1.04 * plan.prediction.seconds);
  EXPECT_EQ(plan.traffic.a_gathered + plan.traffic.b_gathered, 0U);
  EXPECT_GT(plan.traffic.exchanged, 0U);
  problem.requested.decomposition = Decomposition::rows;
  EXPECT_EQ(make_plan(problem, rates, 3).decision.decomposition, Decomposition::rows);
}

/// 1 to 64 ranks: tiles and segments are shared by all that have something to do.
TEST(PlanBoxes, ABoxSuitsTheProductAndTheRanks) {
  struct Sizes {
    std::uint64_t m, n, k;
    bool symmetric;
  };
  constexpr std::uint64_t edge = 4096;
  for (const auto& [m, n, k, symmetric] : {Sizes{8 * edge, edge, 512 * edge, false},
                                           {edge, 8 * edge, 512 * edge, false},
                                           {2 * edge, 2 * edge, 512 * edge, false},
                                           {3 * edge, 3 * edge, 512 * edge, true}}) {
    Problem problem = problem_of(m, n, k, gemm::Precision::fp32, Backend::cuda, 1, 100 * GiB);
    problem.symmetric = symmetric;
    const Plan alone = make_plan(problem, rates, 0);
    const std::uint64_t tiles = alone.shape.count_tiles(alone.super_tile(0));
    double before = alone.prediction.seconds;
    for (problem.ranks.count = 1; problem.ranks.count <= 64; ++problem.ranks.count) {
      const Plan plan = make_plan(problem, rates, 0);
      const Box& box = plan.shape.box;
      // Work for all ranks may take 20 % longer, and then the smallest layers another 8 %.
      EXPECT_LE(plan.prediction.seconds, 1.2 * 1.08 * before) << text_of(plan);
      before = std::min(before, plan.prediction.seconds);
      EXPECT_LE(box.depth, plan.shape.segments);
      EXPECT_LE(box.ranks(), problem.ranks.count);
      const bool has_columns = problem.ranks.count >= 8 || problem.ranks.count > m / edge;
      EXPECT_LE(box.columns, has_columns && !symmetric ? problem.ranks.count : 1) << text_of(plan);
      // A share's time is that of whole tiles and segments: at least half of the ranks are busy.
      const auto shares =
          static_cast<double>(std::min(problem.ranks.count, tiles * plan.shape.segments));
      EXPECT_LE(plan.prediction.compute_seconds, 2 * alone.prediction.compute_seconds / shares)
          << text_of(plan);
      const std::string text = text_of(plan);
      EXPECT_EQ(names(text, "ranks idle").operator bool(), box.ranks() < problem.ranks.count)
          << text;
      if (plan.decision.decomposition != Decomposition::split_k) continue;
      EXPECT_TRUE(
          names(text, fmt::format("split-k {} x {} x {}", box.rows, box.columns, box.depth)));
    }
  }
}

TEST(PlanBoxes, NoRankIsIdleIfAllCanWorkInAboutTheSameTime) {
  // A covariance with a single tile: on two ranks it is bound by uploads in rows and in split-k.
  Problem problem = problem_of(1024, 1024, 1 << 22, gemm::Precision::fp32, Backend::cuda, 2, GiB);
  problem.symmetric = true;
  Rates with = rates;
  with.flops = 500e12;
  const Plan plan = make_plan(problem, with, 1);
  EXPECT_EQ(plan.shape.box, (Box{1, 1, 2})) << text_of(plan);
  EXPECT_EQ(plan.shape.busy_ranks(), 2U);
  EXPECT_TRUE(names(text_of(plan), "split-k 1 x 1 x 2", "all ranks at work"));
  EXPECT_LT(alternative(plan, Decomposition::rows)->seconds, 1.2 * plan.prediction.seconds);
}

TEST(PlanBoxes, FewerRowsOfTilesThanRanksMayHaveAGrid) {
  Problem problem = problem_of(512, 65536, 4096, gemm::Precision::fp32, Backend::cuda, 3, 8 * GiB);
  const Plan plan = make_plan(problem, rates, 2);
  EXPECT_EQ(plan.shape.tile_rows, 1U);
  EXPECT_EQ(plan.shape.box, (Box{1, 3, 1})) << text_of(plan);
  EXPECT_GT(plan.part.columns.count, 0U);
}

TEST(PlanBoxes, MoreRanksThanSegmentsAlsoShareTiles) {
  constexpr std::uint64_t k = 1 << 27;
  Problem problem = problem_of(8192, 8192, k, gemm::Precision::fp32, Backend::cuda, 128, 24 * GiB);
  const Plan plan = make_plan(problem, rates, 71);
  EXPECT_EQ(plan.shape.segments, 64U);
  EXPECT_EQ(plan.shape.box.depth, 64U) << text_of(plan);
  EXPECT_EQ(plan.shape.box.layer(), 2U);
  EXPECT_EQ(plan.part.layer, 35U);
  EXPECT_EQ(plan.part.row + plan.part.column, 1U);
  problem.m = problem.n = 4096;  // one tile: no more than 64 have something to do
  problem.tile = gemm::tile_for(4096, 4096, k, gemm::Precision::fp32, Backend::cuda);
  Rates quick_link = rates;  // else more ranks gain from uploading less each
  quick_link.link_up = 500e9;
  const Plan one = make_plan(problem, quick_link, 100);
  EXPECT_EQ(one.shape.box, (Box{1, 1, 64})) << text_of(one);
  EXPECT_TRUE(one.part.idle);
  EXPECT_EQ(one.traffic.uploads + one.traffic.received(), 0U);
  EXPECT_EQ(one.numbered_tiles() + one.batches(), 0U);
  EXPECT_TRUE(names(text_of(one), "64 of 128 ranks idle", "1 x 1 tiles", "64 segments",
                    "rank 100 of 128: idle", "accumulators 0 B", "batches 0 B"));
  EXPECT_TRUE(names(text_of(make_plan(problem, quick_link, 0)), "rank 0 of 128", "idle rank"));
}

TEST(PlanBoxes, OneRankNeverSplitsK) {
  Problem problem = small_tiles(16, 16, 4 * 32, 1);
  problem.requested.decomposition = Decomposition::split_k;
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_EQ(plan.decision.decomposition, Decomposition::rows);
  EXPECT_EQ(plan.shape.segments, 4U);
  EXPECT_TRUE(names(text_of(plan), "decomposition: rows", "split-k"));
  problem = small_tiles(400, 400, 400, 1);  // a mistake on any number of ranks
  problem.requested.decomposition = Decomposition::split_k;
  EXPECT_THROW(make_plan(problem, rates, 0), UsageError);
}

TEST(PlanBoxes, RejectsSplitKWithoutSegments) {
  Problem problem = small_tiles(400, 400, 400, 2);
  problem.requested.decomposition = Decomposition::split_k;
  EXPECT_TRUE(names(error_of_plan(problem), "split-k", "auto", "rows", "grid"));
  problem = small_tiles(16, 16, 4 * 32, 5);  // four segments for five ranks
  problem.requested.decomposition = Decomposition::split_k;
  EXPECT_EQ(make_plan(problem, rates, 4).shape.box, (Box{1, 1, 4}));
  EXPECT_TRUE(make_plan(problem, rates, 4).part.idle);
}

TEST(PlanBoxes, RejectsImpossibleBoxes) {
  const auto refused = [](Problem problem, const Box& box, const auto&... words) {
    problem.requested.box = box;
    EXPECT_TRUE(names(error_of_plan(problem), "--product.box", words...));
  };
  Problem problem = small_tiles(60, 60, 4 * 128, 6);
  ASSERT_EQ(make_plan(problem, rates, 0).shape.segments, 16U);
  refused(problem, {2, 2, 2}, "2x2x2", 8, 6);
  refused(problem, {UINT64_MAX, 3, 2}, 6);
  problem.requested.decomposition = Decomposition::rows;
  refused(problem, {2, 1, 3}, "2x1x3", "split-k", "--product.decomposition", "rows");
  problem.requested.decomposition = Decomposition::automatic;
  problem.symmetric = true;
  refused(problem, {1, 3, 2}, "gram");
  problem = small_tiles(16, 16, 4 * 32, 5);
  refused(problem, {1, 1, 5}, "1x1x5", 5, "4 segments");
  refused(small_tiles(400, 400, 400, 4), {1, 1, 2}, "1x1x2", "64 tiles");
}

TEST(PlanBoxes, ASymmetricProductHasNoGrid) {
  Problem problem = small_tiles(263, 263, 263, 9);
  problem.symmetric = true;
  EXPECT_EQ(alternative(make_plan(problem, rates, 0), Decomposition::grid), nullptr);
  problem.requested.decomposition = Decomposition::grid;
  EXPECT_THROW(make_plan(problem, rates, 0), UsageError);
}

TEST(PlanBoxes, AGridWinsIfGathersOfManyRanksAreSlow) {
  Problem problem =
      problem_of(131072, 131072, 131072, gemm::Precision::bf16, Backend::cuda, 16, 100 * GiB);
  Rates network = rates;
  network.flops = 700e12;
  network.gather = 10e9;
  const Plan plan = make_plan(problem, network, 5);
  EXPECT_EQ(plan.decision.decomposition, Decomposition::grid) << text_of(plan);
  EXPECT_EQ(plan.shape.box, (Box{4, 4, 1})) << text_of(plan);
  EXPECT_EQ(plan.part.row, 1U);
  EXPECT_EQ(plan.part.column, 1U);
  EXPECT_LT(plan.prediction.seconds, alternative(plan, Decomposition::rows)->seconds);
  problem.ranks.count = 7;
  const Plan few = make_plan(problem, network, 5);
  EXPECT_EQ(few.decision.decomposition, Decomposition::rows);
  EXPECT_EQ(alternative(few, Decomposition::grid), nullptr);
}

}  // namespace
}  // namespace shardstream::workloads::product
