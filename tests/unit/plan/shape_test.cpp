// The parts of C and K: all tiles are computed once, and ranks agree.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "unit/plan/problems.hpp"

namespace shardstream::workloads::product {
namespace {

TEST(PlanShape, EachTileIsComputedOnceInEachBlock) {
  for (const auto& [problem, plans] : many_planned()) {
    std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, int> computed;
    for (const Plan& plan : plans) {
      for (std::uint64_t number = 0; number < plan.batches(); ++number) {
        const auto [super_tile, block] = plan.batch(number);
        for (const TileIndex& tile : plan.shape.tiles(plan.super_tile(super_tile))) {
          ++computed[{tile.row, tile.column, block}];
        }
      }
    }
    const Plan& plan = plans[0];
    std::size_t expected = 0;
    for (std::uint64_t i = 0; i < plan.shape.tile_rows; ++i) {
      for (std::uint64_t j = 0; j < plan.shape.tile_columns; ++j) {
        const bool mirrored = problem.symmetric && i != j;
        EXPECT_EQ(plan.shape.computed({i, j}), !mirrored || !plan.shape.computed({j, i}));
        for (std::uint64_t block = 0; plan.shape.computed({i, j}) && block < plan.shape.blocks;
             ++block) {
          EXPECT_EQ((computed[{i, j, block}]), 1) << text_of(plan);
          ++expected;
        }
      }
    }
    EXPECT_EQ(computed.size(), expected) << text_of(plan);
  }
}

TEST(PlanShape, TilesFollowTheirRuns) {
  for (const auto& [problem, plans] : many_planned()) {
    for (const Plan& plan : plans) {
      for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
        const SuperTile super_tile = plan.super_tile(number);
        EXPECT_EQ(intersection(super_tile.rows, plan.part.rows).count, super_tile.rows.count);
        EXPECT_EQ(intersection(super_tile.columns, plan.part.columns).count,
                  super_tile.columns.count);
        std::vector<TileIndex> expected;
        for (std::uint64_t i = super_tile.rows.first; i < super_tile.rows.end(); ++i) {
          for (std::uint64_t j = super_tile.columns.first; j < super_tile.columns.end(); ++j) {
            if (plan.shape.computed({i, j})) expected.push_back({i, j});
          }
        }
        const std::vector<TileIndex> tiles = plan.shape.tiles(super_tile);
        EXPECT_EQ(tiles, expected);
        EXPECT_EQ(plan.shape.count_tiles(super_tile), tiles.size());
        EXPECT_LE(tiles.size(), plan.schedule.sizes.tiles);
        std::uint64_t next = 0;
        for (const TileRun& run : plan.shape.runs(super_tile)) {
          EXPECT_EQ(run.first, next);
          EXPECT_GT(run.columns.count, 0U);
          EXPECT_EQ(tiles.at(next), (TileIndex{run.row, run.columns.first}));
          next += run.columns.count;
        }
        EXPECT_EQ(next, tiles.size());
        for (const TileIndex& tile : tiles) {
          EXPECT_LT(plan.number_of(tile), plan.numbered_tiles());
        }
      }
    }
  }
}

/// Every row of a panel comes from one rank of those that gather it, to its place in the panel.
TEST(PlanShape, PartsCoverThePanels) {
  for (const auto& [problem, plans] : many_planned()) {
    const gemm::Tile& tile = problem.tile;
    const Box box = plans[0].shape.box;
    for (const Plan& one : plans) {
      if (one.part.idle) continue;
      for (std::uint64_t block = 0; block < one.shape.blocks; ++block) {
        const Range panel = one.shape.depth({block, 1});
        std::vector<int> times(panel.count);
        for (const Plan& other : plans) {
          if (other.part.idle || other.part.column != one.part.column ||
              other.part.layer != one.part.layer)
            continue;
          const auto [rows, valid] = other.b_part(block);
          EXPECT_EQ(rows.count, one.shape.b_part_rows(panel.count));
          EXPECT_EQ(rows.first - panel.first, other.part.row * one.shape.b_part_rows(panel.count));
          EXPECT_TRUE(valid.count == 0 || valid.first == rows.first);
          for (std::uint64_t i = valid.first; i < valid.end(); ++i) ++times.at(i - panel.first);
        }
        for (std::uint64_t i = 0; i < panel.count; ++i) {
          EXPECT_EQ(times[i], panel.first + i < problem.k ? 1 : 0);
        }
        EXPECT_GE(box.rows * one.shape.b_part_rows(panel.count), panel.count);
      }
      for (std::uint64_t number = 0; number < one.super_tiles(); ++number) {
        const SuperTile super_tile = one.super_tile(number);
        const std::uint64_t first = super_tile.rows.first * tile.m;
        std::vector<int> times(super_tile.rows.count * tile.m);
        for (const Plan& other : plans) {
          if (other.part.idle || other.part.row != one.part.row ||
              other.part.layer != one.part.layer)
            continue;
          const auto [rows, valid] = other.a_part(super_tile);
          if (one.shape.a_from_b(super_tile)) {
            EXPECT_EQ(rows.count, 0U);
            EXPECT_EQ(intersection(super_tile.rows, super_tile.columns), super_tile.rows);
            continue;
          }
          EXPECT_EQ(rows.count, one.shape.a_part_rows(super_tile.rows.count));
          EXPECT_EQ(rows.first - first, other.part.column * rows.count);
          EXPECT_TRUE(valid.count == 0 || valid.first == rows.first);
          for (std::uint64_t i = valid.first; i < valid.end(); ++i) ++times.at(i - first);
        }
        for (std::uint64_t i = 0; i < times.size(); ++i) {
          const bool needed = first + i < problem.m && !one.shape.a_from_b(super_tile);
          EXPECT_EQ(times[i], needed ? 1 : 0) << text_of(one);
        }
      }
    }
  }
}

TEST(PlanShape, RanksAgreeOnSharedSteps) {
  for (const auto& [problem, plans] : many_planned()) {
    const Plan& first = plans[0];
    EXPECT_LE(first.shape.box.ranks(), problem.ranks.count);
    if (problem.requested.box) {
      EXPECT_EQ(first.shape.box, *problem.requested.box);
    } else if (first.decision.decomposition != Decomposition::split_k) {
      EXPECT_EQ(first.shape.box.ranks(), problem.ranks.count);
    }
    for (const Plan& plan : plans) {
      EXPECT_EQ(plan.decision.decomposition, first.decision.decomposition);
      EXPECT_EQ(plan.shape.box, first.shape.box);
      EXPECT_EQ(plan.decision.why, first.decision.why);
      EXPECT_EQ(plan.part.idle, plan.part.rank >= plan.shape.box.ranks());
      if (!plan.part.idle) {
        EXPECT_EQ(plan.part.rank,
                  (plan.part.layer * plan.shape.box.rows + plan.part.row) * plan.shape.box.columns +
                      plan.part.column);
      }
      EXPECT_EQ(plan.schedule.passes, first.schedule.passes);
      EXPECT_EQ(plan.schedule.ring_batches, first.schedule.ring_batches);
      EXPECT_EQ(plan.schedule.window, first.schedule.window);
      EXPECT_EQ(plan.shape.levels, first.shape.levels);
      EXPECT_EQ(plan.schedule.sizes.tiles, first.schedule.sizes.tiles);
      EXPECT_EQ(plan.schedule.sizes.held_tiles, first.schedule.sizes.held_tiles);
      EXPECT_EQ(plan.schedule.cut.keeps_b, first.schedule.cut.keeps_b);
      EXPECT_EQ(plan.shape.max_nodes, first.shape.max_nodes);
      EXPECT_EQ(plan.shape.exchange_rows, first.shape.exchange_rows);
      EXPECT_EQ(plan.prediction.seconds, first.prediction.seconds);
      EXPECT_EQ(plan.part.blocks.count == 0, plan.part.idle);
      EXPECT_EQ(plan.device_bytes, plan.part.idle ? problem.ranks.other_bytes : first.device_bytes);
      EXPECT_EQ(plan.buffers.batch.b_panel, plan.part.idle ? 0 : first.buffers.batch.b_panel);
      for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
        const SuperTile tiles = plan.super_tile(number);
        if (plan.part.idle) {
          EXPECT_EQ(tiles, SuperTile{});
          continue;
        }
        for (const Plan& other : plans) {
          if (!other.part.idle && other.part.row == plan.part.row) {
            EXPECT_EQ(other.super_tile(number).rows, tiles.rows);
          }
          if (!other.part.idle && other.part.column == plan.part.column) {
            EXPECT_EQ(other.super_tile(number).columns, tiles.columns);
          }
        }
      }
      if (plan.part.idle) continue;
      if (plan.shape.box.depth == 1) {
        EXPECT_EQ(plan.part.blocks, (Range{0, plan.shape.blocks}));
      }
      const Plan& corner = plans[plan.part.layer * plan.shape.box.layer()];  // of its layer
      EXPECT_EQ(plan.part.blocks, corner.part.blocks);
      EXPECT_EQ(plan.part.nodes, corner.part.nodes);
    }
  }
}

TEST(PlanShape, KBeginsWithShallowBlocks) {
  Problem problem = small_tiles(100, 100, 700, 3);
  problem.tile.k = 128;
  const auto depths = [&] {
    const Plan plan = make_plan(problem, rates, 0);
    std::vector<std::uint64_t> all;
    std::uint64_t next = 0;
    for (std::uint64_t block = 0; block < plan.shape.blocks; ++block) {
      const Range depth = plan.shape.depth({block, 1});
      EXPECT_EQ(depth.first, next);
      next = depth.end();
      all.push_back(depth.count);
    }
    EXPECT_EQ(plan.shape.depth({0, plan.shape.blocks}), (Range{0, next}));
    EXPECT_GE(next, problem.k);
    return all;
  };
  using Depths = std::vector<std::uint64_t>;
  EXPECT_EQ(depths(), (Depths{32, 32, 64, 128, 128, 128, 128, 128}));
  problem.precision = gemm::Precision::fp32x3;
  EXPECT_EQ(depths(), Depths(6, 128));
  problem.precision = gemm::Precision::fp32;
  problem.k = 128;  // all of it in one block
  EXPECT_EQ(depths(), Depths(1, 128));
  problem.k = 129;
  EXPECT_EQ(depths(), (Depths{32, 32, 64, 128}));
  problem.k = 2000;  // in segments, which are as deep as one another
  EXPECT_EQ(depths(), Depths(16, 128));
}

TEST(PlanShape, RowsOfASymmetricProductHaveEquallyManyTiles) {
  for (std::uint64_t edge = 1; edge <= 12; ++edge) {
    Problem problem = small_tiles(16 * edge, 16 * edge, 64, 1);
    problem.symmetric = true;
    const Plan plan = make_plan(problem, rates, 0);
    std::vector<std::uint64_t> two_rows;
    for (std::uint64_t i = 0; i < edge; ++i) {
      std::uint64_t tiles = 0;
      for (std::uint64_t j = 0; j < edge; ++j) tiles += plan.shape.computed({i, j}) ? 1 : 0;
      EXPECT_EQ(plan.shape.computed({i, i}), true);
      EXPECT_TRUE(tiles == (edge + 1) / 2 || (edge % 2 == 0 && tiles == edge / 2 + 1));
      two_rows.push_back(tiles);
      const auto before = two_rows.size() >= 2 ? two_rows[two_rows.size() - 2] : 0;
      // Every other row has one tile more than its neighbour, except where the halves meet.
      const bool has_neighbour = edge % 2 == 0 && i > 0 && i != edge / 2;
      EXPECT_EQ(has_neighbour ? tiles + before : edge + 1, edge + 1);
    }
  }
}

TEST(PlanShape, ASymmetricProductTakesHalfTheWork) {
  for (const gemm::Precision precision : {gemm::Precision::fp32, gemm::Precision::fp64}) {
    const std::uint64_t element = gemm::panel_element_bytes(precision, Backend::cuda);
    Problem problem =
        problem_of(65536, 65536, 65536, precision, Backend::cuda, 4, 6 * element * GiB);
    const Plan whole = make_plan(problem, rates, 0);
    problem.symmetric = true;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      const Plan plan = make_plan(problem, rates, rank);
      EXPECT_NEAR(plan.prediction.compute_seconds / whole.prediction.compute_seconds, 0.5, 0.04)
          << text_of(plan);
      EXPECT_EQ(plan.super_tiles(), 1U) << text_of(plan);
      EXPECT_TRUE(plan.shape.a_from_b(plan.super_tile(0)));
      // The last block of K is padded.
      const Range depth = plan.shape.depth({0, plan.shape.blocks});
      EXPECT_EQ(plan.traffic.uploads, problem.m / 4 * depth.count * element) << text_of(plan);
      EXPECT_EQ(plan.traffic.min_uploads, problem.m / 4 * problem.k * element) << text_of(plan);
      EXPECT_LT(plan.buffers.accumulators, 6 * whole.buffers.accumulators / 10);
    }
  }
  Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, 4, 48 * GiB);
  problem.symmetric = true;
  problem.ranks.count = 1;
  problem.m = problem.n = problem.k = 131072;
  const Plan large = make_plan(problem, rates, 0);  // out of core
  EXPECT_GT(large.super_tiles(), 1U);
  EXPECT_LT(static_cast<double>(large.traffic.uploads),
            1.02 * static_cast<double>(large.traffic.min_uploads))
      << text_of(large);
  EXPECT_LT(large.prediction.seconds, 1.06 * large.prediction.compute_seconds) << text_of(large);
}

}  // namespace
}  // namespace shardstream::workloads::product
