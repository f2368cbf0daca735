// The simulation of batches that pass through the stages of a rank.
#include <gtest/gtest.h>

#include "unit/plan/problems.hpp"
#include "workloads/product/plan/batch_timeline.hpp"
#include "workloads/product/plan/device_work.hpp"

namespace shardstream::workloads::product {
namespace {

double time_of(const Pipeline& pipeline, const Effort& effort, std::uint64_t super_tiles = 1) {
  Timeline timeline(pipeline);
  timeline.add(effort, super_tiles);
  return timeline.end();
}

constexpr Effort one_batch{.upload = 8,
                           .gather = 4,
                           .arrive = 2,
                           .compute = 3,
                           .finish = 0.5,
                           .drain = 7,
                           .tile_drain = 7,
                           .tiles = 1};

TEST(PlanTimeline, OneBatchPassesThroughAllStages) {
  EXPECT_DOUBLE_EQ(time_of({.first_read = 1, .last_write = 0.25}, one_batch),
                   1 + 8 + 4 + 2 + 3 + 0.5 + 7 + 0.25);
}

TEST(PlanTimeline, TheSlowestStageSetsThePace) {
  const Pipeline pipeline{.blocks = 50, .ring = 4};
  Effort effort = one_batch;
  EXPECT_DOUBLE_EQ(time_of(pipeline, effort), 49 * 8 + time_of({}, effort));
  effort.gather = 9;
  EXPECT_DOUBLE_EQ(time_of(pipeline, effort), 49 * 9 + time_of({}, effort));
  effort.arrive = effort.compute = 6;  // both on the device
  EXPECT_NEAR(time_of(pipeline, effort), 49 * 12 + time_of({}, effort), 12);
}

TEST(PlanTimeline, AShortRingMakesStagesWait) {
  const Effort effort{.upload = 1, .arrive = 0.5, .compute = 0.5, .tiles = 1};
  EXPECT_DOUBLE_EQ(time_of({.blocks = 100, .ring = 1}, effort), 200);
  EXPECT_DOUBLE_EQ(time_of({.blocks = 100, .ring = 2}, effort), 101);
  // Readers fill three batches at a time, and begin when the kernels of earlier ones are enqueued.
  EXPECT_NEAR(time_of({.blocks = 100, .ring = 2, .first_read = 3}, effort), 200, 5);
  EXPECT_DOUBLE_EQ(time_of({.blocks = 100, .ring = 4, .first_read = 3}, effort), 104);
}

TEST(PlanTimeline, EqualBatchesAndSuperTilesAreNotSimulatedOneByOne) {
  for (const bool keeps_b : {false, true}) {
    for (const double compute : {0.5, 2.0}) {
      const Effort effort{.upload = 1,
                          .arrive = 0.25,
                          .compute = compute,
                          .finish = 0.1,
                          .drain = 0.9,
                          .tile_drain = 0.3,
                          .write = 0.2,
                          .tiles = 3};
      Pipeline pipeline{.blocks = 4, .ring = 3, .window = 2, .keeps_b = keeps_b};
      Timeline each(pipeline);
      for (int i = 0; i < 40; ++i) each.add(effort, 1);
      EXPECT_NEAR(time_of(pipeline, effort, 40), each.end(), 1e-9 * each.end());
      const double period =
          time_of({.blocks = 31, .ring = 3}, effort) - time_of({.blocks = 28, .ring = 3}, effort);
      EXPECT_NEAR(time_of({.blocks = 3'000'001, .ring = 3}, effort) -
                      time_of({.blocks = 31, .ring = 3}, effort),
                  period * 2'999'970 / 3, 1e-6);
    }
  }
}

TEST(PlanTimeline, TilesLeaveWhileOthersAreMultiplied) {
  Effort effort{.upload = 1, .compute = 8, .drain = 8, .tile_drain = 1, .tiles = 8};
  EXPECT_DOUBLE_EQ(time_of({}, effort), 1 + 8 + 1);
  EXPECT_DOUBLE_EQ(time_of({.blocks = 2, .ring = 2, .window = 1}, effort), 1 + 8 + 8 + 1);
  effort.tile_drain = 3;
  effort.drain = 24;
  EXPECT_DOUBLE_EQ(time_of({}, effort), 1 + 1 + 24);
  // With split-k, tiles leave after the exchange.
  effort.exchange = 5;
  EXPECT_DOUBLE_EQ(time_of({.splits_k = true}, effort), 1 + 8 + 5 + 24);
}

TEST(PlanTimeline, TilesWaitForTheirAccumulatorsUnlessEachHasItsOwn) {
  const Effort effort{.upload = 1, .compute = 1, .drain = 6, .tile_drain = 6, .tiles = 1};
  Pipeline pipeline{.ring = 2};
  EXPECT_DOUBLE_EQ(time_of(pipeline, effort, 2), 1 + 1 + 6 + 1 + 6);
  pipeline.keeps_b = true;
  EXPECT_DOUBLE_EQ(time_of(pipeline, effort, 2), 1 + 1 + 6 + 6);
}

TEST(PlanTimeline, WritersTakeTimeFromReaders) {
  const Effort effort{.upload = 4, .compute = 1, .drain = 1, .tile_drain = 1, .tiles = 1};
  const Pipeline pipeline{.ring = 4, .keeps_b = true};
  Effort slower = effort;
  slower.write = 2;
  EXPECT_DOUBLE_EQ(time_of(pipeline, slower, 3), time_of(pipeline, effort, 3) + 2 * 2);
}

TEST(PlanDeviceWork, CountsPassesOverPanels) {
  Problem problem = problem_of(1024, 1024, 1 << 22, gemm::Precision::fp32, Backend::cuda, 1, GiB);
  problem.symmetric = true;
  problem.b.raw = true;
  const auto work_of = [&](std::uint64_t ranks) {
    problem.ranks.count = ranks;
    problem.requested.box = Box{ranks, 1, 1};
    const Shape shape(problem, *problem.requested.box);
    const Pass pass{.rows = 1, .columns = 1, .tiles = 1, .transposed_rows = 1};
    return arrival_work(shape, pass, problem.tile.k, false);
  };
  const double panel = 4.0 * 1024 * static_cast<double>(problem.tile.k);
  // Its checksum, the panel from it, the signed sums, and the transposition.
  EXPECT_DOUBLE_EQ(work_of(1).bytes, (1 + 2 + 1 + 2) * panel);
  EXPECT_DOUBLE_EQ(work_of(1).calls, 4);
  // Half of it, then the checksums of the gather, and the transposition of all of it.
  EXPECT_DOUBLE_EQ(work_of(2).bytes, (4.0 / 2 + 1.5 + 2) * panel);
}

}  // namespace
}  // namespace shardstream::workloads::product
