// Device memory: buffers hold every super-tile and fit, and errors name the memory that does.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "kernels/gemm/check.hpp"
#include "unit/plan/problems.hpp"
#include "workloads/product/plan/tile_report.hpp"

namespace shardstream::workloads::product {
namespace {

using test::names;

/// Largest bytes of what super-tiles need, counted tile by tile, on all ranks.
TEST(PlanBuffers, BuffersHoldTheLargestSuperTileAndFit) {
  for (const auto& [problem, plans] : many_planned()) {
    const Plan& plan = plans[0];
    const Buffers& has = plan.buffers;
    EXPECT_LE(plan.device_bytes, problem.ranks.device_memory) << text_of(plan);
    constexpr std::uint64_t panel = 4, tile = 16;
    const std::uint64_t depth = problem.tile.k, b_part = ceil_div(depth, plan.shape.box.rows);
    const bool splits = problem.precision == gemm::Precision::fp32x3;
    std::uint64_t max_z = 0;
    for (const Plan& each : plans) {
      std::uint64_t all_tiles = 0;
      EXPECT_GE(has.check.verdicts,
                each.numbered_tiles() * sizeof(TileReport) +
                    each.batches() * sizeof(std::uint64_t) * each.shape.batch_checksums());
      for (std::uint64_t number = 0; number < each.super_tiles(); ++number) {
        const SuperTile tiles = each.super_tile(number);
        const std::uint64_t rows = tiles.rows.count * tile, columns = tiles.columns.count * tile;
        EXPECT_LE(tiles.rows.count, plan.schedule.sizes.rows);
        EXPECT_LE(tiles.columns.count, plan.schedule.sizes.columns);
        const std::uint64_t part = each.a_part(tiles).rows.count;
        EXPECT_GE(has.batch.a_panel, std::max(rows, part * plan.shape.box.columns) * depth * panel);
        EXPECT_GE(has.batch.b_panel, b_part * plan.shape.box.rows * columns * panel);
        EXPECT_GE(has.batch.raw_a, problem.a.raw ? part * depth * 8 : 0);
        EXPECT_GE(has.batch.raw_b, problem.b.raw ? b_part * columns : 0);
        EXPECT_GE(has.batch.a_factor, splits ? 3 * rows * depth * panel : 0);
        EXPECT_GE(has.batch.b_factor, splits ? 3 * depth * columns * panel : 0);
        EXPECT_GE(has.batch.y, b_part * plan.shape.box.rows * tiles.columns.count * 16);
        EXPECT_GE(has.check.z, rows * tiles.columns.count * 8);
        EXPECT_GE(has.check.row_squares, rows * 8);
        EXPECT_GE(has.check.column_squares, tiles.columns.count * 8);
        all_tiles = (plan.schedule.cut.keeps_b ? all_tiles : 0) + each.shape.count_tiles(tiles);
        EXPECT_GE(plan.schedule.sizes.held_tiles, all_tiles);
        EXPECT_GE(has.accumulators, plan.shape.levels * all_tiles * tile * tile * 4);
        EXPECT_GE(has.lanes,
                  problem.tile.lanes > 1
                      ? problem.tile.lanes * each.shape.count_tiles(tiles) * tile * tile * 4
                      : 0);
        max_z = std::max(max_z, rows * tiles.columns.count * 8);
      }
    }
    EXPECT_EQ(has.batch.a_factor + has.batch.b_factor > 0, splits);
    EXPECT_EQ(has.c_tile, problem.reads_c ? 16 * 16 * 4U : 0);
    EXPECT_EQ(has.mirrors > 0, problem.symmetric && problem.stores_c && plan.shape.tile_rows > 1);
    if (plan.shape.box.depth > 1) {
      EXPECT_GE(has.check.gathered_z, plan.shape.box.depth * max_z);
      EXPECT_GE(has.send,
                plan.shape.box.depth * plan.shape.max_nodes * plan.shape.exchange_rows * tile * 4);
      EXPECT_EQ(has.send, has.receive);
      EXPECT_GT(plan.shape.exchange_rows, 0U);
    } else {
      EXPECT_EQ(has.check.gathered_z + has.send + has.receive, 0U);
    }
    EXPECT_EQ(has.check.slices, gemm::check_slices(problem.tile, problem.m));
    EXPECT_EQ(has.kept_b, plan.schedule.cut.keeps_b
                              ? plan.shape.blocks * (has.batch.b_panel + has.batch.y)
                              : 0);
    std::uint64_t total =
        problem.ranks.other_bytes + has.c_tile + has.accumulators + has.lanes + has.kept_b +
        has.check.slices * (has.check.z + has.check.row_squares + has.check.column_squares) +
        has.check.gathered_z + has.check.verdicts + has.mirrors + has.send + has.receive;
    total += plan.schedule.ring_batches *
             (has.batch.raw_a + has.batch.raw_b + has.batch.a_panel + has.batch.b_panel +
              has.batch.a_factor + has.batch.b_factor + has.batch.y);
    EXPECT_EQ(plan.device_bytes, total);
  }
}

TEST(PlanBuffers, WindowsFitIntoTheRing) {
  for (const auto& [problem, plans] : many_planned()) {
    std::uint64_t batches = 0;
    for (const Plan& plan : plans) batches = std::max(batches, plan.batches());
    const Plan& plan = plans.back();
    EXPECT_GE(plan.schedule.ring_batches, std::min<std::uint64_t>(2, batches));
    EXPECT_LE(plan.schedule.ring_batches, std::min<std::uint64_t>(8, batches));
    EXPECT_GE(plan.schedule.window, 1U);
    EXPECT_LE(plan.schedule.window, plan.schedule.ring_batches);
    const std::uint64_t last = plan.part.blocks.end() - 1;
    for (std::uint64_t i = 0; i + 1 < plan.schedule.window; ++i) {
      EXPECT_FALSE(plan.step(last - i).begins) << text_of(plan);  // one segment
    }
  }
}

/// Int8's B is transposed on a GPU, and A's panel stands in that.
TEST(PlanBuffers, FactorsAreCounted) {
  Problem problem =
      problem_of(16384, 16384, 65536, gemm::Precision::int8, Backend::cuda, 1, 60 * GiB);
  Plan plan = make_plan(problem, rates, 0);
  EXPECT_EQ(plan.buffers.batch.a_factor, 0U);
  EXPECT_EQ(plan.buffers.batch.b_factor,
            plan.schedule.sizes.columns * problem.tile.n * problem.tile.k);
  EXPECT_GT(plan.buffers.batch.a_panel, 0U);
  problem.symmetric = true;
  problem.tile.m = problem.tile.n;
  plan = make_plan(problem, rates, 0);
  ASSERT_TRUE(plan.shape.a_from_b(plan.super_tile(0)));
  EXPECT_EQ(plan.buffers.batch.a_panel, 0U) << text_of(plan);
  EXPECT_GT(plan.buffers.batch.b_factor, 0U);
  problem.ranks.backend = Backend::host;
  problem.a = problem.b = {4};
  EXPECT_EQ(make_plan(problem, rates, 0).buffers.batch.b_factor, 0U);
}

/// Less memory never fits where more does not; what the refusal names does, and a byte less not.
/// The link carries the data once, whatever the moments; panels have planes, and tiles moments.
TEST(PlanBuffers, PairwiseProductsUploadNoMoreThanOthers) {
  Problem problem = small_tiles(100, 100, 3000, 2);
  problem.symmetric = problem.a.raw = problem.b.raw = problem.sums_variables = true;
  problem.requested.decomposition = Decomposition::rows;
  const Plan plain = make_plan(problem, rates, 0);
  problem.moments = gemm::pair_moments(true, true);
  const Plan pairwise = make_plan(problem, rates, 0);
  EXPECT_EQ(pairwise.shape.tile_rows, plain.shape.tile_rows);
  const CutSizes sizes = plain.schedule.sizes;
  const Buffers a = buffers_of(plain.shape, sizes), b = buffers_of(pairwise.shape, sizes);
  EXPECT_EQ(b.accumulators, 6 * a.accumulators);
  EXPECT_EQ(b.batch.b_panel, 3 * a.batch.b_panel);
  EXPECT_EQ(b.batch.a_panel, 3 * a.batch.a_panel);
  EXPECT_EQ(b.batch.raw_b, a.batch.raw_b);
  EXPECT_EQ(b.batch.y, 3 * a.batch.y);
  EXPECT_EQ(b.check.z, 9 * a.check.z);
  EXPECT_EQ(b.mirrors, 2 * a.mirrors);
  EXPECT_EQ(pairwise.traffic.flops, 6 * plain.traffic.flops);
  EXPECT_EQ(upload_bytes(pairwise.shape, {.columns = 5}, 32),
            upload_bytes(plain.shape, {.columns = 5}, 32));
  EXPECT_EQ(gather_bytes(pairwise.shape, {.columns = 5}, 32),
            3 * gather_bytes(plain.shape, {.columns = 5}, 32));
}

TEST(PlanBuffers, ErrorsNameTheMemoryThatFits) {
  for (const auto& [roomy, plans] : many_planned()) {
    Problem problem = roomy;
    problem.ranks.device_memory = 1;
    const std::uint64_t enough = demanded(problem).value();
    problem.ranks.device_memory = enough;
    EXPECT_EQ(make_plan(problem, rates, 0).device_bytes, enough);
    for (const std::uint64_t less : {enough - 1, enough / 2, std::uint64_t{0}}) {
      problem.ranks.device_memory = less;
      EXPECT_EQ(demanded(problem, problem.ranks.count - 1), enough);
    }
    problem.ranks.device_memory = enough + KiB;
    EXPECT_EQ(demanded(problem), std::nullopt);
  }
}

TEST(PlanBuffers, ErrorsNameTileAndMemory) {
  const Problem problem =
      problem_of(9000, 9000, 9000, gemm::Precision::fp64, Backend::cuda, 1, MiB);
  EXPECT_TRUE(
      names(error_of_plan(problem), "1536 x 3072", "fp64", "1 MiB", "--pipeline.gpu-memory"));
}

TEST(PlanBuffers, RejectsSizesBeyondAllMemory) {
  Problem problem = small_tiles(UINT64_MAX / 2, 1, UINT64_MAX / 2, 1);
  problem.tile = {std::uint64_t{1} << 40, 16, std::uint64_t{1} << 40};
  EXPECT_THROW(make_plan(problem, rates, 0), UsageError);
}

}  // namespace
}  // namespace shardstream::workloads::product
