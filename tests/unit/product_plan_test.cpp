// How a matrix product is cut to fit: nothing is missed, ranks agree, memory suffices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "core/error.hpp"
#include "core/units.hpp"
#include "kernels/gemm/check.hpp"
#include "support/errors.hpp"
#include "workloads/product/plan/description.hpp"

namespace shardstream::workloads::product {
namespace {

using test::error_of;
using test::names;

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
/// About an H200's, in fp64.
constexpr Rates rates{.link_up = 50e9, .link_down = 50e9, .gather = 200e9, .flops = 60e12};

Problem problem_of(std::uint64_t m, std::uint64_t n, std::uint64_t k, gemm::Precision precision,
                   Backend backend, std::uint64_t ranks, std::uint64_t memory) {
  const std::uint64_t element = gemm::panel_element_bytes(precision, backend);
  return {.m = m,
          .n = n,
          .k = k,
          .precision = precision,
          .a = {element},
          .b = {element},
          .tile = gemm::tile_for(m, n, k, precision, backend),
          .ranks = {.count = ranks, .device_memory = memory, .backend = backend}};
}

/// Small tiles, so that small shapes have many.
Problem small_tiles(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t ranks) {
  Problem problem = problem_of(m, n, k, gemm::Precision::fp32, Backend::host, ranks, GiB);
  problem.tile = {16, 16, 32};
  return problem;
}

/// Bytes that the refusal names; none if the problem fits.
std::optional<std::uint64_t> demanded(const Problem& problem, std::uint64_t rank = 0) {
  try {
    make_plan(problem, rates, rank);
  } catch (const UsageError& error) {
    const std::string text = error.what(), before = "--pipeline.gpu-memory ";
    const auto start = text.find(before) + before.size();
    return parse_size(text.substr(start, text.find(' ', start) - start));
  }
  return std::nullopt;
}

bool can_split(Problem problem) {
  problem.requested.decomposition = Decomposition::rows;
  problem.requested.box.reset();
  problem.ranks.device_memory = UINT64_MAX;
  return make_plan(problem, rates, 0).shape.segments > 1;
}

/// With memory for everything, for a good part of it, and for hardly a tile.
std::vector<Problem> with_less_and_less_memory(Problem problem) {
  std::vector<Problem> all{problem};
  const std::uint64_t whole = make_plan(problem, rates, 0).device_bytes;
  problem.ranks.device_memory = 1;
  const std::uint64_t min = demanded(problem).value();
  for (const std::uint64_t more : {whole / 2, whole / 3, whole / 7, std::uint64_t{0}}) {
    problem.ranks.device_memory = std::max(min, more);
    all.push_back(problem);
  }
  return all;
}

/// All shapes, decompositions, kinds of panels and numbers of ranks in turn, more ranks than there
/// are rows of tiles among them.
std::vector<Problem> many_problems() {
  std::vector<Problem> all;
  const auto add = [&](Problem problem) {
    const std::uint64_t number = all.size() / 5;
    problem.a.raw = number % 3 == 1;
    problem.b.raw = number % 5 > 2;
    if (problem.a.raw) problem.a.element_bytes = 8;
    if (problem.b.raw) problem.b.element_bytes = 1;
    problem.reads_c = number % 4 == 0 && !problem.symmetric;
    problem.stores_c = number % 7 != 0;
    problem.ranks.other_bytes = number % 7 * KiB;
    if (number % 3 == 0) problem.tile.k = 64;  // K may begin with shallower blocks
    if (number % 4 == 1 && problem.precision == gemm::Precision::fp32) problem.tile.lanes = 4;
    for (const Problem& each : with_less_and_less_memory(problem)) all.push_back(each);
  };
  const std::uint64_t edges[] = {1, 13, 263, 400};
  std::uint64_t number = 0;
  for (const std::uint64_t m : edges) {
    for (const std::uint64_t n : edges) {
      for (const std::uint64_t k : {1, 13, 263, 3000}) {
        for (std::uint64_t ranks = 1 + number % 2; ranks <= 9; ranks += 2) {
          Problem problem = small_tiles(m, n, k, ranks);
          const Decomposition kinds[] = {Decomposition::rows, Decomposition::grid,
                                         Decomposition::automatic, Decomposition::split_k};
          problem.requested.decomposition = kinds[(number + ranks / 2) % 4];
          if (problem.requested.decomposition == Decomposition::split_k && !can_split(problem))
            continue;
          problem.precision = number % 3 == 0 ? gemm::Precision::fp32x3 : gemm::Precision::fp32;
          add(problem);
        }
        ++number;
      }
    }
  }
  for (const std::uint64_t m : {1, 13, 17, 33, 60, 263, 400}) {
    for (const std::uint64_t k : {13, 300, 4000}) {
      for (std::uint64_t ranks = 1; ranks <= 6; ++ranks) {
        Problem problem = small_tiles(m, m, k, ranks);
        problem.symmetric = true;
        problem.requested.decomposition =
            ranks == 3 ? Decomposition::automatic : Decomposition::rows;
        if (ranks == 2 && can_split(problem))
          problem.requested.decomposition = Decomposition::split_k;
        add(problem);
      }
    }
  }
  for (const Box& box : {Box{2, 1, 2}, {1, 2, 2}, {3, 1, 2}, {2, 2, 2}, {1, 1, 3}, {2, 3, 1}}) {
    for (const std::uint64_t ranks : {box.ranks(), box.ranks() + 2}) {  // two of them idle
      for (const auto& [m, n] : {std::pair(60, 30), {13, 100}, {90, 90}}) {
        Problem problem = small_tiles(m, n, 1000, ranks);
        problem.requested.box = box;
        add(problem);
        problem.symmetric = m == n && box.columns == 1;
        if (problem.symmetric) add(problem);
      }
    }
  }
  return all;
}

std::vector<Plan> plans_of(const Problem& problem) {
  std::vector<Plan> plans;
  for (std::uint64_t rank = 0; rank < problem.ranks.count; ++rank) {
    plans.push_back(make_plan(problem, rates, rank));
  }
  return plans;
}

/// A problem as each rank plans it.
struct Planned {
  Problem problem;
  std::vector<Plan> plans;
};

/// many_problems(), planned once for all tests.
const std::vector<Planned>& many_planned() {
  static const std::vector<Planned> all = [] {
    std::vector<Planned> planned;
    for (Problem& problem : many_problems()) {
      std::vector<Plan> plans = plans_of(problem);
      planned.push_back({std::move(problem), std::move(plans)});
    }
    return planned;
  }();
  return all;
}

std::string told(const Plan& plan) {
  std::string text;
  for (const auto& part : {answer(plan), describe(plan)}) {
    for (const std::string& line : part) text += line + "\n";
  }
  return text;
}

TEST(ProductPlan, EachTileIsComputedOnceInEachBlock) {
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
          EXPECT_EQ((computed[{i, j, block}]), 1) << told(plan);
          ++expected;
        }
      }
    }
    EXPECT_EQ(computed.size(), expected) << told(plan);
  }
}

TEST(ProductPlan, TilesStandAsTheirRunsSay) {
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
TEST(ProductPlan, PartsMakeUpThePanels) {
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
          EXPECT_EQ(times[i], needed ? 1 : 0) << told(one);
        }
      }
    }
  }
}

TEST(ProductPlan, RanksAgreeOnWhatTheyDoTogether) {
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

/// Largest bytes of what super-tiles need, counted tile by tile, on all ranks.
TEST(ProductPlan, BuffersHoldTheLargestSuperTileAndFit) {
  for (const auto& [problem, plans] : many_planned()) {
    const Plan& plan = plans[0];
    const Buffers& has = plan.buffers;
    EXPECT_LE(plan.device_bytes, problem.ranks.device_memory) << told(plan);
    constexpr std::uint64_t panel = 4, tile = 16;
    const std::uint64_t depth = problem.tile.k, b_part = ceil_div(depth, plan.shape.box.rows);
    const bool splits = problem.precision == gemm::Precision::fp32x3;
    std::uint64_t max_z = 0;
    for (const Plan& each : plans) {
      std::uint64_t all_tiles = 0;
      EXPECT_GE(has.check.verdicts,
                each.numbered_tiles() * 56 + each.batches() * 8 * each.shape.batch_checksums());
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
    EXPECT_EQ(has.check.slices, gemm::check_slices(problem.m));
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

TEST(ProductPlan, KBeginsWithShallowBlocks) {
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

TEST(ProductPlan, WindowsFitIntoTheRing) {
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
      EXPECT_FALSE(plan.step(last - i).begins) << told(plan);  // one segment
    }
  }
}

TEST(ProductPlan, TrafficIsWhatTheBatchesBring) {
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
      uploads += a_rows * panel.count * problem.a.element_bytes +
                 b_rows * columns * problem.b.element_bytes;
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
    EXPECT_EQ(plan.traffic.uploads, uploads + c) << told(plan);
    EXPECT_EQ(plan.traffic.a_gathered, of_a) << told(plan);
    EXPECT_EQ(plan.traffic.b_gathered, of_b) << told(plan);
    EXPECT_EQ(plan.traffic.exchanged, exchanged) << told(plan);
    EXPECT_EQ(plan.traffic.received(), of_a + of_b + exchanged);
    EXPECT_EQ(plan.traffic.flops, flops);
    EXPECT_GE(plan.traffic.uploads, plan.traffic.min_uploads) << told(plan);
    EXPECT_GE(plan.traffic.min_uploads, c);
  }
}

// ---------------------------------------------------------------- sums over K

/// What a rank's accumulators hold behind its last block, as terms of blocks: "((0 1) (2 3))".
std::vector<std::string> sums_of(const Plan& plan) {
  std::vector<std::string> levels(plan.shape.levels);
  std::uint64_t top = 0;
  for (std::uint64_t block = plan.part.blocks.first; block < plan.part.blocks.end(); ++block) {
    const BlockStep step = plan.step(block);
    std::string& sum = levels.at(step.level);
    sum = step.begins ? std::to_string(block) : sum + "," + std::to_string(block);
    top = step.level;
    const bool ends = block + 1 == plan.part.blocks.end() || plan.step(block + 1).begins;
    EXPECT_TRUE(ends || step.folds == 0);
    for (std::uint64_t fold = 0; fold < step.folds; ++fold, --top) {
      levels.at(top - 1) = "(" + levels.at(top - 1) + " " + levels.at(top) + ")";
    }
  }
  levels.resize(top + 1);
  return levels;
}

std::string product_of(const Problem& problem) {
  std::vector<std::vector<std::string>> sums;
  const std::vector<Plan> plans = plans_of(problem);
  for (const Plan& plan : plans) {
    if (plan.part.idle) continue;  // these come last
    sums.push_back(sums_of(plan));
    EXPECT_EQ(sums.back().size(), plan.part.nodes.size());
    EXPECT_LE(plan.part.nodes.size(), plan.shape.max_nodes);
  }
  const Box& box = plans[0].shape.box;
  for (std::uint64_t rank = 0; rank < box.ranks(); ++rank) {
    EXPECT_EQ(sums[rank], sums[plans[rank].part.layer * box.layer()]);
  }
  std::string last = sums[0].at(0);
  for (const FoldAddition& add : plans[0].shape.fold()) {
    std::string& left = sums.at(add.left_layer * box.layer()).at(add.left_node);
    left = "(" + left + " " + sums.at(add.right_layer * box.layer()).at(add.right_node) + ")";
    last = left;
  }
  EXPECT_EQ(last, sums[0][0]);
  return last;
}

TEST(ProductPlan, TheOrderOfASumDoesNotDependOnRanks) {
  for (const std::uint64_t k : {300, 1000, 3000, 20000}) {
    for (const std::uint64_t m : {13, 60}) {
      Problem problem = small_tiles(m, 30, k, 1);
      const std::string expected = product_of(problem);
      const std::uint64_t segments = make_plan(problem, rates, 0).shape.segments;
      for (std::uint64_t ranks = 1; ranks <= 9; ++ranks) {
        problem.ranks.count = ranks;
        for (const Decomposition each :
             {Decomposition::rows, Decomposition::grid, Decomposition::split_k}) {
          problem.requested.decomposition = each;
          if (each == Decomposition::split_k && !can_split(problem)) continue;
          EXPECT_EQ(product_of(problem), expected);
        }
        for (std::uint64_t depth = 2; depth <= ranks && can_split(problem); ++depth) {
          for (const Box& box : {Box{ranks / depth, 1, depth}, {1, ranks / depth, depth}}) {
            problem.requested.decomposition = Decomposition::automatic;
            problem.requested.box = box;
            if (depth > segments) continue;
            EXPECT_EQ(product_of(problem), expected);
          }
        }
        problem.requested.box.reset();
      }
    }
  }
}

TEST(ProductPlan, SegmentsAreFoldedByATree) {
  Problem problem = small_tiles(16, 16, 7 * 32, 1);
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_EQ(plan.shape.segments, 4U);
  EXPECT_EQ(plan.shape.levels, 3U);
  EXPECT_EQ(product_of(problem), "((0,1 2,3) (4,5 6))");
  problem.ranks.count = 3;
  problem.requested.box = Box{1, 1, 3};
  const Plan last = make_plan(problem, rates, 2);
  EXPECT_EQ(last.part.segments, (Range{3, 1}));
  EXPECT_EQ(last.part.blocks, (Range{6, 1}));
  EXPECT_EQ(last.part.nodes, (std::vector<TreeNode>{{0, 3}}));
  EXPECT_EQ(make_plan(problem, rates, 0).part.nodes, (std::vector<TreeNode>{{1, 0}}));
}

/// Functions of the shape alone.
TEST(ProductPlan, OnlyLongSumsHaveSegments) {
  const auto segments = [](std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    return make_plan(problem_of(m, n, k, gemm::Precision::fp64, Backend::cuda, 1, 140 * GiB), rates,
                     0)
        .shape.segments;
  };
  EXPECT_EQ(segments(65536, 65536, 65536), 1U);
  EXPECT_EQ(segments(4096, 4096, 8 * 4096 - 1), 1U);
  EXPECT_EQ(segments(4096, 4096, 8 * 4096), 8U);
  EXPECT_EQ(segments(4096, 4096, 13 * 4096), 8U);
  EXPECT_EQ(segments(4096, 4096, 512 * 4096), 64U);
  EXPECT_EQ(segments(16384, 16384, 512 * 4096), 32U);
  EXPECT_EQ(segments(32768, 32768, 512 * 4096), 8U);
  EXPECT_EQ(segments(36864, 36864, 512 * 4096), 1U);
  EXPECT_EQ(segments(1, 1, 4096), 1U);
}

// ---------------------------------------------------------------- symmetric products

TEST(ProductPlan, RowsOfASymmetricProductHaveAsManyTiles) {
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
      // Of rows side by side every other one has one more, but for where the halves meet.
      const bool has_neighbour = edge % 2 == 0 && i > 0 && i != edge / 2;
      EXPECT_EQ(has_neighbour ? tiles + before : edge + 1, edge + 1);
    }
  }
}

TEST(ProductPlan, ASymmetricProductTakesHalfOfIt) {
  for (const gemm::Precision precision : {gemm::Precision::fp32, gemm::Precision::fp64}) {
    const std::uint64_t element = gemm::panel_element_bytes(precision, Backend::cuda);
    Problem problem =
        problem_of(65536, 65536, 65536, precision, Backend::cuda, 4, 6 * element * GiB);
    const Plan whole = make_plan(problem, rates, 0);
    problem.symmetric = true;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      const Plan plan = make_plan(problem, rates, rank);
      EXPECT_NEAR(plan.prediction.compute_seconds / whole.prediction.compute_seconds, 0.5, 0.04)
          << told(plan);
      EXPECT_EQ(plan.super_tiles(), 1U) << told(plan);
      EXPECT_TRUE(plan.shape.a_from_b(plan.super_tile(0)));
      // The last block of K is padded.
      const Range depth = plan.shape.depth({0, plan.shape.blocks});
      EXPECT_EQ(plan.traffic.uploads, problem.m / 4 * depth.count * element) << told(plan);
      EXPECT_EQ(plan.traffic.min_uploads, problem.m / 4 * problem.k * element) << told(plan);
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
      << told(large);
  EXPECT_LT(large.prediction.seconds, 1.06 * large.prediction.compute_seconds) << told(large);
}

/// Int8's B is transposed on a GPU, and A's panel stands in that.
TEST(ProductPlan, FactorsAreCounted) {
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
  EXPECT_EQ(plan.buffers.batch.a_panel, 0U) << told(plan);
  EXPECT_GT(plan.buffers.batch.b_factor, 0U);
  problem.ranks.backend = Backend::host;
  problem.a = problem.b = {4};
  EXPECT_EQ(make_plan(problem, rates, 0).buffers.batch.b_factor, 0U);
}

// ---------------------------------------------------------------- which decomposition

const Alternative* alternative(const Plan& plan, Decomposition decomposition) {
  for (const Alternative& each : plan.decision.alternatives) {
    if (each.decomposition == decomposition) return &each;
  }
  return nullptr;
}

TEST(ProductPlan, LongSumsOfFewTilesAreSplit) {
  Problem problem =
      problem_of(8192, 8192, 1 << 22, gemm::Precision::fp64, Backend::cuda, 8, 48 * GiB);
  const Plan plan = make_plan(problem, rates, 3);
  EXPECT_EQ(plan.decision.decomposition, Decomposition::split_k) << told(plan);
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
TEST(ProductPlan, ABoxSuitsTheProductAndTheRanks) {
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
      // The smallest layers may take 8 % more than the fastest box.
      EXPECT_LE(plan.prediction.seconds, 1.08 * before) << told(plan);
      before = std::min(before, plan.prediction.seconds);
      EXPECT_LE(box.depth, plan.shape.segments);
      EXPECT_LE(box.ranks(), problem.ranks.count);
      EXPECT_LE(box.columns, problem.ranks.count < 8 || symmetric ? 1 : problem.ranks.count)
          << told(plan);
      // A share's time is that of whole tiles and segments: at least half of the ranks are busy.
      const auto shares =
          static_cast<double>(std::min(problem.ranks.count, tiles * plan.shape.segments));
      EXPECT_LE(plan.prediction.compute_seconds, 2 * alone.prediction.compute_seconds / shares)
          << told(plan);
      const std::string told_of = told(plan);
      EXPECT_EQ(names(told_of, "ranks idle").operator bool(), box.ranks() < problem.ranks.count)
          << told_of;
      if (plan.decision.decomposition != Decomposition::split_k) continue;
      EXPECT_TRUE(
          names(told_of, fmt::format("split-k {} x {} x {}", box.rows, box.columns, box.depth)));
    }
  }
}

TEST(ProductPlan, MoreRanksThanSegmentsShareTilesToo) {
  constexpr std::uint64_t k = 1 << 27;
  Problem problem = problem_of(8192, 8192, k, gemm::Precision::fp32, Backend::cuda, 128, 24 * GiB);
  const Plan plan = make_plan(problem, rates, 71);
  EXPECT_EQ(plan.shape.segments, 64U);
  EXPECT_EQ(plan.shape.box.depth, 64U) << told(plan);
  EXPECT_EQ(plan.shape.box.layer(), 2U);
  EXPECT_EQ(plan.part.layer, 35U);
  EXPECT_EQ(plan.part.row + plan.part.column, 1U);
  problem.m = problem.n = 4096;  // one tile: no more than 64 have something to do
  problem.tile = gemm::tile_for(4096, 4096, k, gemm::Precision::fp32, Backend::cuda);
  Rates quick_link = rates;  // else more ranks gain from uploading less each
  quick_link.link_up = 500e9;
  const Plan one = make_plan(problem, quick_link, 100);
  EXPECT_EQ(one.shape.box, (Box{1, 1, 64})) << told(one);
  EXPECT_TRUE(one.part.idle);
  EXPECT_EQ(one.traffic.uploads + one.traffic.received(), 0U);
  EXPECT_EQ(one.numbered_tiles() + one.batches(), 0U);
  EXPECT_TRUE(names(told(one), "64 of 128 ranks idle", "1 x 1 tiles", "64 segments",
                    "rank 100 of 128: idle", "accumulators 0 B", "batches 0 B"));
  EXPECT_TRUE(names(told(make_plan(problem, quick_link, 0)), "rank 0 of 128", "idle rank"));
}

std::string refusal(const Problem& problem) {
  return error_of([&] { make_plan(problem, rates, 0); });
}

TEST(ProductPlan, OneRankNeverSplitsK) {
  Problem problem = small_tiles(16, 16, 4 * 32, 1);
  problem.requested.decomposition = Decomposition::split_k;
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_EQ(plan.decision.decomposition, Decomposition::rows);
  EXPECT_EQ(plan.shape.segments, 4U);
  EXPECT_TRUE(names(told(plan), "decomposition: rows", "split-k"));
  problem = small_tiles(400, 400, 400, 1);  // a mistake on any number of ranks
  problem.requested.decomposition = Decomposition::split_k;
  EXPECT_THROW(make_plan(problem, rates, 0), UsageError);
}

TEST(ProductPlan, RejectsSplitKWithoutSegments) {
  Problem problem = small_tiles(400, 400, 400, 2);
  problem.requested.decomposition = Decomposition::split_k;
  EXPECT_TRUE(names(refusal(problem), "split-k", "auto", "rows", "grid"));
  problem = small_tiles(16, 16, 4 * 32, 5);  // four segments for five ranks
  problem.requested.decomposition = Decomposition::split_k;
  EXPECT_EQ(make_plan(problem, rates, 4).shape.box, (Box{1, 1, 4}));
  EXPECT_TRUE(make_plan(problem, rates, 4).part.idle);
}

TEST(ProductPlan, RejectsImpossibleBoxes) {
  const auto refused = [](Problem problem, const Box& box, const auto&... words) {
    problem.requested.box = box;
    EXPECT_TRUE(names(refusal(problem), "--product.box", words...));
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

TEST(ProductPlan, ASymmetricProductHasNoGrid) {
  Problem problem = small_tiles(263, 263, 263, 9);
  problem.symmetric = true;
  EXPECT_EQ(alternative(make_plan(problem, rates, 0), Decomposition::grid), nullptr);
  problem.requested.decomposition = Decomposition::grid;
  EXPECT_THROW(make_plan(problem, rates, 0), UsageError);
}

TEST(ProductPlan, SlowGathersOfManyRanksWantAGrid) {
  Problem problem =
      problem_of(131072, 131072, 131072, gemm::Precision::bf16, Backend::cuda, 16, 100 * GiB);
  Rates network = rates;
  network.flops = 700e12;
  network.gather = 10e9;
  const Plan plan = make_plan(problem, network, 5);
  EXPECT_EQ(plan.decision.decomposition, Decomposition::grid) << told(plan);
  EXPECT_EQ(plan.shape.box, (Box{4, 4, 1})) << told(plan);
  EXPECT_EQ(plan.part.row, 1U);
  EXPECT_EQ(plan.part.column, 1U);
  EXPECT_LT(plan.prediction.seconds, alternative(plan, Decomposition::rows)->seconds);
  problem.ranks.count = 7;
  const Plan few = make_plan(problem, network, 5);
  EXPECT_EQ(few.decision.decomposition, Decomposition::rows);
  EXPECT_EQ(alternative(few, Decomposition::grid), nullptr);
}

TEST(ProductPlan, ASlowDownloadHidesBehindAWindow) {
  const Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, 4, 24 * GiB);
  Rates with = rates;
  with.link_down = 25e9;  // a tile takes 5.4 ms, and 2.3 ms of computing a block
  const Plan plan = make_plan(problem, with, 0);
  EXPECT_GE(plan.schedule.window, 3U) << told(plan);
  EXPECT_GE(plan.schedule.ring_batches, plan.schedule.window);
  EXPECT_EQ(make_plan(problem, rates, 0).schedule.window, 2U);
  with.link_down = 100e9;
  EXPECT_EQ(make_plan(problem, with, 0).schedule.window, 1U);
}

TEST(ProductPlan, WhatFitsIsUploadedOnce) {
  Problem problem =
      problem_of(32768, 32768, 32768, gemm::Precision::fp64, Backend::cuda, 4, 64 * GiB);
  Rates slow_link = rates;  // else a product this small gains from a small first panel
  slow_link.link_up = 5e9;
  const Plan plan = make_plan(problem, slow_link, 1);
  const std::uint64_t operand = problem.m * problem.k * sizeof(double);
  EXPECT_TRUE(plan.super_tiles() == 1 || plan.schedule.cut.keeps_b) << told(plan);
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

TEST(ProductPlan, LargeProductsUploadNearTheMinimum) {
  for (const std::uint64_t ranks : {1, 4}) {
    for (const double flops : {55e12, 60e12, 67e12}) {
      const Problem problem =
          problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, ranks, 24 * GiB);
      Rates with = rates;
      with.flops = flops;
      const Plan plan = make_plan(problem, with, 0);
      const std::uint64_t part = problem.m * problem.k / ranks * sizeof(double);
      EXPECT_EQ(plan.traffic.min_uploads, min_of_all_cuts(problem, part, part)) << told(plan);
      EXPECT_LE(static_cast<double>(plan.traffic.uploads),
                1.02 * static_cast<double>(plan.traffic.min_uploads))
          << told(plan);
      EXPECT_LT(plan.prediction.seconds, 1.05 * plan.prediction.compute_seconds) << told(plan);
    }
  }
}

/// Less memory never fits where more does not; what the refusal names does, and a byte less not.
TEST(ProductPlan, ErrorsNameTheMemoryThatFits) {
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

TEST(ProductPlan, ErrorsNameTileAndMemory) {
  const Problem problem =
      problem_of(9000, 9000, 9000, gemm::Precision::fp64, Backend::cuda, 1, MiB);
  EXPECT_TRUE(names(refusal(problem), "1536 x 3072", "fp64", "1 MiB", "--pipeline.gpu-memory"));
}

TEST(ProductPlan, RejectsSizesBeyondAllMemory) {
  Problem problem = small_tiles(UINT64_MAX / 2, 1, UINT64_MAX / 2, 1);
  problem.tile = {std::uint64_t{1} << 40, 16, std::uint64_t{1} << 40};
  EXPECT_THROW(make_plan(problem, rates, 0), UsageError);
}

TEST(ProductPlan, PredictsWhatBinds) {
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
  EXPECT_EQ(linked.prediction.bound_by(), "host link");
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
TEST(ProductPlan, GathersThatBlockTakeLonger) {
  const Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::bf16, Backend::cuda, 4, 24 * GiB);
  Rates with = rates;
  with.flops = 700e12;
  with.link_down = 20e9;
  const Plan beside = make_plan(problem, with, 0);
  with.gathers_block = true;
  EXPECT_GT(make_plan(problem, with, 0).prediction.seconds, beside.prediction.seconds)
      << told(beside);
}

/// A product in one batch takes the sum of its parts: nothing overlaps.
TEST(ProductPlan, OneBatchOverlapsNothing) {
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
TEST(ProductPlan, MoreMemoryIsNoSlower) {
  Problem problem = problem_of(40000, 50000, 30000, gemm::Precision::bf16, Backend::cuda, 2, GiB);
  Rates with = rates;
  with.flops = 700e12;
  double before = 1e9;
  for (; problem.ranks.device_memory <= 64 * GiB; problem.ranks.device_memory *= 2) {
    const Plan plan = make_plan(problem, with, 0);
    EXPECT_LE(plan.prediction.seconds, 1.04 * before) << told(plan);
    before = plan.prediction.seconds;
  }
}

/// Tiles leave while the next rows of A come, if all of B and C fit beside one another.
TEST(ProductPlan, BIsKeptWhereTilesLeaveEarlier) {
  Problem problem =
      problem_of(16384, 16384, 16384, gemm::Precision::tf32, Backend::cuda, 1, 24 * GiB);
  Rates with = rates;
  with.flops = 380e12;
  const Plan plan = make_plan(problem, with, 0);
  EXPECT_TRUE(plan.schedule.cut.keeps_b) << told(plan);
  EXPECT_GE(plan.super_tiles(), 3U);
  EXPECT_EQ(plan.schedule.sizes.held_tiles, 32U);
  EXPECT_EQ(plan.traffic.uploads, plan.traffic.min_uploads);
  EXPECT_LT(plan.prediction.seconds,
            plan.prediction.upload_seconds + plan.prediction.drain_seconds / 2);
  problem.ranks.device_memory = 3 * GiB;
  const Plan less = make_plan(problem, with, 0);
  EXPECT_FALSE(less.schedule.cut.keeps_b) << told(less);
  EXPECT_GT(less.prediction.seconds, plan.prediction.seconds);
  problem.ranks.device_memory = 24 * GiB;
  problem.symmetric = true;
  problem.tile.m = problem.tile.n;
  EXPECT_FALSE(make_plan(problem, with, 0).schedule.cut.keeps_b);
}

TEST(ProductPlan, ManyTilesArePlannedQuickly) {
  const Problem problem = problem_of(100'000'000, 100'000'000, 4096, gemm::Precision::fp32,
                                     Backend::cuda, 1, 100 * GiB);
  const Plan plan = make_plan(problem, rates, 0);
  EXPECT_LE(plan.device_bytes, problem.ranks.device_memory);
}

TEST(ProductPlan, IsDescribed) {
  Problem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, Backend::cuda, 1, 24 * GiB);
  const std::string one = told(make_plan(problem, rates, 0));
  EXPECT_TRUE(names(one, "C: 65536 x 65536 in fp64, 16 x 16 tiles of 4096 x 4096", "rank 0 of 1",
                    "uploads of rank 0: 96 GiB, 1.000 x", "of 24 GiB", "bound by computing"));
  EXPECT_FALSE(names(one, "all-gathers"));
  problem = small_tiles(13, 13, 13, 3);
  const std::string idle = told(make_plan(problem, rates, 2));
  EXPECT_TRUE(names(idle, "rank 2 of 3", "B in all-gathers"));
}

}  // namespace
}  // namespace shardstream::workloads::product
