// Predicted times, and the schedules that follow from them.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/plan/problems.hpp"

namespace shardstream::workloads::product {
namespace {

using test::names;

TEST(PlanPrediction, ASlowDownloadHidesBehindAWindow) {
  const Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, 4, 24 * GiB);
  Rates with = rates;
  with.link_down = 25e9;  // a tile takes 5.4 ms, and 2.3 ms of computing a block
  const Plan plan = make_plan(problem, with, 0);
  EXPECT_GE(plan.schedule.window, 3U) << text_of(plan);
  EXPECT_GE(plan.schedule.ring_batches, plan.schedule.window);
  EXPECT_EQ(make_plan(problem, rates, 0).schedule.window, 2U);
  with.link_down = 100e9;
  EXPECT_EQ(make_plan(problem, with, 0).schedule.window, 1U);
}

TEST(PlanPrediction, NamesTheBindingResource) {
  const Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, 4, 24 * GiB);
  const double computing = 2.0 * 65536 * 65536 * 65536 / 4 / rates.flops;
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_EQ(plan.prediction.bound_by(), "computing");
  EXPECT_DOUBLE_EQ(plan.prediction.compute_seconds, computing);
  EXPECT_GT(plan.prediction.seconds, computing);
  EXPECT_LT(plan.prediction.seconds, 1.05 * computing);

  Rates slow_link = rates;
  slow_link.link_up = 1e9;
  const Plan linked = make_plan(problem, slow_link, 0);
  EXPECT_EQ(linked.prediction.bound_by(), "uploads");
  EXPECT_DOUBLE_EQ(linked.prediction.upload_seconds,
                   static_cast<double>(linked.traffic.uploads) / 1e9);
  EXPECT_GT(linked.prediction.seconds, linked.prediction.upload_seconds);
  EXPECT_LT(linked.prediction.seconds, 1.05 * linked.prediction.upload_seconds);

  Rates slow_gather = rates;
  slow_gather.gather = 1e9;
  EXPECT_EQ(make_plan(problem, slow_gather, 0).prediction.bound_by(), "all-gathers");
  EXPECT_DOUBLE_EQ(
      make_plan(problem, slow_gather, 0).prediction.gather_seconds,
      static_cast<double>(make_plan(problem, slow_gather, 0).traffic.b_gathered) / 1e9);

  Rates slow_down = rates;
  slow_down.link_down = 1e8;
  const Plan drained = make_plan(problem, slow_down, 0);
  EXPECT_EQ(drained.prediction.bound_by(), "download");
  EXPECT_GT(drained.prediction.seconds, drained.prediction.drain_seconds);
}

/// Over MPI no tile is multiplied while the last batch of a window is gathered.
TEST(PlanPrediction, GathersThatBlockTakeLonger) {
  const Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::bf16, Backend::cuda, 4, 24 * GiB);
  Rates with = rates;
  with.flops = 700e12;
  with.link_down = 20e9;
  const Plan beside = make_plan(problem, with, 0);
  with.gathers_block = true;
  EXPECT_GT(make_plan(problem, with, 0).prediction.seconds, beside.prediction.seconds)
      << text_of(beside);
}

/// A product in one batch takes the sum of its parts: nothing overlaps.
TEST(PlanPrediction, OneBatchOverlapsNothing) {
  Problem problem = problem_of(4096, 4096, 4096, gemm::Precision::fp64, Backend::cuda, 1, 24 * GiB);
  problem.tile = {4096, 4096, 4096};
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_EQ(plan.batches(), 1U);
  EXPECT_EQ(plan.schedule.ring_batches, 1U);
  EXPECT_NEAR(plan.prediction.seconds,
              plan.prediction.upload_seconds + plan.prediction.compute_seconds +
                  plan.prediction.drain_seconds,
              1e-9 * plan.prediction.seconds);
}

/// Where the link binds, more memory means less to upload and no longer time.
TEST(PlanPrediction, MoreMemoryIsNoSlower) {
  Problem problem = problem_of(40000, 50000, 30000, gemm::Precision::bf16, Backend::cuda, 2, GiB);
  Rates with = rates;
  with.flops = 700e12;
  double before = 1e9;
  for (; problem.ranks.device_memory <= 64 * GiB; problem.ranks.device_memory *= 2) {
    const Plan plan = make_plan(problem, with, 0);
    EXPECT_LE(plan.prediction.seconds, 1.04 * before) << text_of(plan);
    before = plan.prediction.seconds;
  }
}

/// Tiles leave while the next rows of A come, if all of B and C fit beside one another.
TEST(PlanPrediction, BIsKeptIfTilesLeaveEarlier) {
  Problem problem =
      problem_of(16384, 16384, 16384, gemm::Precision::tf32, Backend::cuda, 1, 24 * GiB);
  Rates with = rates;
  with.flops = 380e12;
  const Plan plan = make_plan(problem, with, 0);
  EXPECT_TRUE(plan.schedule.cut.keeps_b) << text_of(plan);
  EXPECT_GE(plan.super_tiles(), 3U);
  EXPECT_EQ(plan.schedule.sizes.held_tiles, 32U);
  EXPECT_EQ(plan.traffic.uploads, plan.traffic.min_uploads);
  EXPECT_LT(plan.prediction.seconds,
            plan.prediction.upload_seconds + plan.prediction.drain_seconds / 2);
  problem.ranks.device_memory = 3 * GiB;
  const Plan less = make_plan(problem, with, 0);
  EXPECT_FALSE(less.schedule.cut.keeps_b) << text_of(less);
  EXPECT_GT(less.prediction.seconds, plan.prediction.seconds);
  problem.ranks.device_memory = 24 * GiB;
  problem.symmetric = true;
  problem.tile.m = problem.tile.n;
  EXPECT_FALSE(make_plan(problem, with, 0).schedule.cut.keeps_b);
}

TEST(PlanPrediction, TheRingHoldsTheBatchesThatReadersFill) {
  Problem problem = problem_of(1024, 1024, 1 << 22, gemm::Precision::fp32, Backend::cuda, 1, GiB);
  problem.symmetric = true;  // batches of 32 MiB
  EXPECT_EQ(make_plan(problem, rates, 0).schedule.ring_batches, 3U);
  problem.ranks.read_bytes = 56 * MiB;
  Rates with = rates;
  with.read = 60e9;
  const Plan plan = make_plan(problem, with, 0);
  EXPECT_EQ(plan.schedule.ring_batches, 5U) << text_of(plan);
  EXPECT_TRUE(names(text_of(plan), "5 in device memory", "readers fill 2 batches"));
  problem.ranks.device_memory = plan.device_bytes - 1;
  EXPECT_EQ(make_plan(problem, with, 0).schedule.ring_batches, 4U);
}

TEST(PlanPrediction, DeviceWorkAndCallsTakeTime) {
  const Problem problem =
      problem_of(3000, 3000, 3000, gemm::Precision::tf32, Backend::cuda, 1, 24 * GiB);
  const TimePrediction before = make_plan(problem, rates, 0).prediction;
  Rates with = rates;
  with.device = 2.5e12;
  with.call = 6e-6;
  const TimePrediction after = make_plan(problem, with, 0).prediction;
  EXPECT_GT(after.compute_seconds, before.compute_seconds + 20 * with.call);
  EXPECT_GT(after.seconds, before.seconds + 10 * with.call);
  EXPECT_DOUBLE_EQ(after.upload_seconds, before.upload_seconds);
}

TEST(PlanPrediction, ManyTilesArePlannedQuickly) {
  const Problem problem = problem_of(100'000'000, 100'000'000, 4096, gemm::Precision::fp32,
                                     Backend::cuda, 1, 100 * GiB);
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_LE(plan.device_bytes, problem.ranks.device_memory);
}

TEST(PlanPrediction, IsDescribed) {
  Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, 1, 24 * GiB);
  const std::string one = text_of(make_plan(problem, rates, 0));
  EXPECT_TRUE(names(one, "C: 65536 x 65536 in fp64, 16 x 16 tiles of 4096 x 4096", "rank 0 of 1",
                    "uploads of rank 0: 96 GiB, 1.000 x", "of 24 GiB", "bound by computing"));
  EXPECT_FALSE(names(one, "all-gathers"));
  problem = small_tiles(13, 13, 13, 3);
  const std::string idle = text_of(make_plan(problem, rates, 2));
  EXPECT_TRUE(names(idle, "rank 2 of 3", "B in all-gathers"));
}

}  // namespace
}  // namespace shardstream::workloads::product
