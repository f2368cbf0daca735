// Uploads, gathers and exchanges.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/plan/problems.hpp"

namespace shardstream::workloads::product {
namespace {

TEST(PlanTraffic, TrafficIsTheSumOverBatches) {
  for (const auto& [problem, plans] : many_planned()) {
    const Plan& plan = plans.back();
    const gemm::Tile& tile = problem.tile;
    std::uint64_t uploads = 0, of_a = 0, of_b = 0, exchanged = 0;
    double flops = 0;
    for (std::uint64_t number = 0; number < plan.batches(); ++number) {
      const auto [super_tile, block] = plan.batch(number);
      ASSERT_LT(block, plan.shape.blocks);
      const SuperTile tiles = plan.super_tile(super_tile);
      const std::uint64_t columns = tiles.columns.count * 16,
                          a_rows = plan.a_part(tiles).rows.count;
      const Range panel = plan.shape.depth({block, 1});
      const bool has_b = plan.schedule.cut.keeps_b && super_tile > 0;
      const std::uint64_t b_rows = has_b ? 0 : plan.b_part(block).rows.count;
      // Raw operands are uploaded without padding.
      const std::uint64_t valid_b = has_b ? 0 : plan.b_part(block).valid.count;
      const std::uint64_t valid_k = intersection(panel, {0, problem.k}).count;
      const std::uint64_t valid_n = elements_of(tiles.columns, 16, problem.n).count;
      uploads += (problem.a.raw ? plan.a_part(tiles).valid.count * valid_k : a_rows * panel.count) *
                     problem.a.element_bytes +
                 (problem.b.raw ? valid_b * valid_n : b_rows * columns) * problem.b.element_bytes;
      of_a += (plan.shape.box.columns - 1) * a_rows *
              gemm::a_ld(problem.precision, panel.count, Backend::host) * 4;
      of_b += (plan.shape.box.rows - 1) * b_rows * (columns * 4 + tiles.columns.count * 16);
      const std::uint64_t depth = intersection(panel, {0, problem.k}).count;
      for (const TileIndex& each : plan.shape.tiles(tiles)) {
        const std::uint64_t m = intersection({each.row * tile.m, tile.m}, {0, problem.m}).count;
        const std::uint64_t n = intersection({each.column * tile.n, tile.n}, {0, problem.n}).count;
        flops += 2 * static_cast<double>(m * n * depth);
      }
    }
    std::uint64_t c = 0;
    for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
      const SuperTile tiles = plan.super_tile(number);
      const std::vector<TileIndex> computed = plan.shape.tiles(tiles);
      const std::uint64_t rounds = ceil_div(computed.size(), plan.shape.box.depth);
      if (plan.shape.box.depth > 1) {
        const std::uint64_t rows = tiles.rows.count * 16;
        exchanged += (plan.shape.box.depth - 1) *
                     (rounds * plan.shape.max_nodes * 16 * 16 * 4 +
                      8 * (rows * tiles.columns.count + rows + tiles.columns.count));
      }
      for (std::uint64_t index = 0; problem.reads_c && index < computed.size(); ++index) {
        if (!plan.owns(index)) continue;
        c += intersection({computed[index].row * 16, 16}, {0, problem.m}).count *
             intersection({computed[index].column * 16, 16}, {0, problem.n}).count * 4;
      }
    }
    EXPECT_EQ(plan.traffic.uploads, uploads + c) << text_of(plan);
    EXPECT_EQ(plan.traffic.a_gathered, of_a) << text_of(plan);
    EXPECT_EQ(plan.traffic.b_gathered, of_b) << text_of(plan);
    EXPECT_EQ(plan.traffic.exchanged, exchanged) << text_of(plan);
    EXPECT_EQ(plan.traffic.received(), of_a + of_b + exchanged);
    EXPECT_EQ(plan.traffic.flops, flops);
    EXPECT_GE(plan.traffic.uploads, plan.traffic.min_uploads) << text_of(plan);
    EXPECT_GE(plan.traffic.min_uploads, c);
  }
}

TEST(PlanTraffic, DataThatFitAreUploadedOnce) {
  Problem problem =
      problem_of(32768, 32768, 32768, gemm::Precision::fp64, Backend::cuda, 4, 64 * GiB);
  Rates slow_link = rates;  // else a product this small gains from a small first panel
  slow_link.link_up = 5e9;
  const Plan plan = make_plan(problem, slow_link, 1);
  const std::uint64_t operand = problem.m * problem.k * sizeof(double);
  EXPECT_TRUE(plan.super_tiles() == 1 || plan.schedule.cut.keeps_b) << text_of(plan);
  EXPECT_EQ(plan.traffic.uploads, 2 * operand / 4);
  EXPECT_EQ(plan.traffic.min_uploads, plan.traffic.uploads);
  problem.reads_c = true;
  EXPECT_EQ(make_plan(problem, slow_link, 1).traffic.uploads, 3 * operand / 4);
  EXPECT_EQ(make_plan(problem, slow_link, 1).traffic.min_uploads, 3 * operand / 4);
}

/// All ways to cut a rank's tiles into super-tiles whose accumulators alone fit.
std::uint64_t min_of_all_cuts(const Problem& problem, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t rows = ceil_div(ceil_div(problem.m, problem.tile.m), problem.ranks.count);
  const std::uint64_t columns = ceil_div(problem.n, problem.tile.n);
  const std::uint64_t tile =
      problem.tile.m * problem.tile.n * gemm::accumulator_bytes(problem.precision);
  std::uint64_t min = UINT64_MAX;
  for (std::uint64_t i = 1; i <= rows; ++i) {
    for (std::uint64_t j = 1; j <= columns; ++j) {
      if (i * j * tile > problem.ranks.device_memory) continue;
      min = std::min(min, ceil_div(columns, j) * a + ceil_div(rows, i) * b);
    }
  }
  return min;
}

TEST(PlanTraffic, LargeProductsUploadNearTheMinimum) {
  for (const std::uint64_t ranks : {1, 4}) {
    for (const double flops : {55e12, 60e12, 67e12}) {
      const Problem problem =
          problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, ranks, 24 * GiB);
      Rates with = rates;
      with.flops = flops;
      const Plan plan = make_plan(problem, with, 0);
      const std::uint64_t part = problem.m * problem.k / ranks * sizeof(double);
      EXPECT_EQ(plan.traffic.min_uploads, min_of_all_cuts(problem, part, part)) << text_of(plan);
      EXPECT_LE(static_cast<double>(plan.traffic.uploads),
                1.02 * static_cast<double>(plan.traffic.min_uploads))
          << text_of(plan);
      EXPECT_LT(plan.prediction.seconds, 1.05 * plan.prediction.compute_seconds) << text_of(plan);
    }
  }
}

}  // namespace
}  // namespace shardstream::workloads::product
