// How a matrix product is cut to fit: nothing is missed, ranks agree, memory suffices.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.hpp"
#include "core/units.hpp"
#include "workloads/gemm_plan.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
/// About an H200's, in fp64.
constexpr GemmRates rates{.link_up = 50e9, .link_down = 50e9, .gather = 200e9, .flops = 60e12};

GemmProblem problem_of(std::uint64_t m, std::uint64_t n, std::uint64_t k, gemm::Precision precision,
                       bool on_host, std::uint64_t ranks, std::uint64_t memory) {
  const std::uint64_t element = gemm::panel_element_bytes(precision, on_host);
  return {.m = m,
          .n = n,
          .k = k,
          .precision = precision,
          .a = {element},
          .b = {element},
          .ranks = ranks,
          .device_memory = memory,
          .on_host = on_host,
          .tile = gemm::tile_for(m, n, k, precision, on_host)};
}

/// Small tiles, so that small shapes have many.
GemmProblem small_tiles(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t ranks) {
  GemmProblem problem = problem_of(m, n, k, gemm::Precision::fp32, true, ranks, GiB);
  problem.tile = {16, 16, 32};
  return problem;
}

/// Bytes that the refusal names; none if the problem fits.
std::optional<std::uint64_t> demanded(const GemmProblem& problem, std::uint64_t rank = 0) {
  try {
    plan_gemm(problem, rates, rank);
  } catch (const UsageError& error) {
    const std::string text = error.what(), before = "--pipeline.gpu-memory ";
    const auto start = text.find(before) + before.size();
    return parse_size(text.substr(start, text.find(' ', start) - start));
  }
  return std::nullopt;
}

/// With memory for everything, for a good part of it, and for hardly a tile.
std::vector<GemmProblem> with_less_and_less_memory(GemmProblem problem) {
  std::vector<GemmProblem> all{problem};
  const std::uint64_t whole = plan_gemm(problem, rates, 0).device_bytes;
  problem.device_memory = 1;
  const std::uint64_t least = demanded(problem).value();
  for (const std::uint64_t more : {whole / 2, whole / 3, whole / 7, std::uint64_t{0}}) {
    problem.device_memory = std::max(least, more);
    all.push_back(problem);
  }
  return all;
}

std::vector<GemmProblem> many_problems() {
  std::vector<GemmProblem> all;
  const std::uint64_t edges[] = {1, 13, 263, 400};
  std::uint64_t number = 0;
  for (const std::uint64_t m : edges) {
    for (const std::uint64_t n : edges) {
      for (const std::uint64_t k : edges) {
        // Each with some of 1 to 9 ranks: more than it has rows of tiles among them.
        for (std::uint64_t ranks = 1 + number % 2; ranks <= 9; ranks += 2) {
          GemmProblem problem = small_tiles(m, n, k, ranks);
          problem.a.raw = number % 3 == 1;
          problem.b.raw = number % 5 > 2;
          if (problem.a.raw) problem.a.element_bytes = 8;
          if (problem.b.raw) problem.b.element_bytes = 1;
          problem.reads_c = number % 4 == 0;
          problem.other_bytes = number % 7 * KiB;
          for (const GemmProblem& each : with_less_and_less_memory(problem)) all.push_back(each);
        }
        ++number;
      }
    }
  }
  return all;
}

std::string told(const GemmPlan& plan) {
  std::string text;
  for (const std::string& line : describe(plan)) text += line + "\n";
  return text;
}

TEST(GemmPlan, EachTileIsComputedOnce) {
  for (const GemmProblem& problem : many_problems()) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> computed;
    GemmPlan plan;
    for (std::uint64_t rank = 0; rank < problem.ranks; ++rank) {
      plan = plan_gemm(problem, rates, rank);
      for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
        const GemmSuperTile super_tile = plan.super_tile(number);
        EXPECT_LE(super_tile.rows.count, plan.most_rows) << told(plan);
        EXPECT_LE(super_tile.columns.count, plan.most_columns) << told(plan);
        EXPECT_EQ(intersection(super_tile.rows, plan.rows).count, super_tile.rows.count);
        for (std::uint64_t i = super_tile.rows.first; i < super_tile.rows.end(); ++i) {
          for (std::uint64_t j = super_tile.columns.first; j < super_tile.columns.end(); ++j) {
            ++computed[{i, j}];
          }
        }
      }
    }
    const std::uint64_t rows = ceil_div(problem.m, problem.tile.m);
    const std::uint64_t columns = ceil_div(problem.n, problem.tile.n);
    EXPECT_EQ(computed.size(), rows * columns) << told(plan);
    for (const auto& [tile, times] : computed) {
      EXPECT_LT(tile.first, rows);
      EXPECT_LT(tile.second, columns);
      EXPECT_EQ(times, 1) << told(plan);
    }
  }
}

TEST(GemmPlan, EachRowOfBIsUploadedOnceInEachPass) {
  for (const GemmProblem& problem : many_problems()) {
    std::vector<int> uploaded(problem.k);
    for (std::uint64_t rank = 0; rank < problem.ranks; ++rank) {
      const GemmPlan plan = plan_gemm(problem, rates, rank);
      for (std::uint64_t block = 0; block < plan.blocks; ++block) {
        const Range rows = plan.b_rows(block);
        ASSERT_LE(rows.count, plan.part_rows);
        for (std::uint64_t row = rows.first; row < rows.end(); ++row) {
          ++uploaded.at(row);
          // Where the gathered panel has this row:
          EXPECT_EQ(row % problem.tile.k / plan.part_rows, rank);
        }
      }
    }
    EXPECT_TRUE(std::all_of(uploaded.begin(), uploaded.end(), [](int n) { return n == 1; }));
  }
}

TEST(GemmPlan, RanksAgreeOnWhatTheyDoTogether) {
  for (const GemmProblem& problem : many_problems()) {
    const GemmPlan first = plan_gemm(problem, rates, 0);
    for (std::uint64_t rank = 1; rank < problem.ranks; ++rank) {
      const GemmPlan plan = plan_gemm(problem, rates, rank);
      EXPECT_EQ(plan.row_passes, first.row_passes);
      EXPECT_EQ(plan.column_passes, first.column_passes);
      EXPECT_EQ(plan.batches(), first.batches());
      EXPECT_EQ(plan.ring, first.ring);
      EXPECT_EQ(plan.part_rows, first.part_rows);
      EXPECT_EQ(plan.gathered, first.gathered);
      EXPECT_EQ(plan.device_bytes, first.device_bytes);
      EXPECT_EQ(plan.buffers.b_panel, first.buffers.b_panel);
      EXPECT_EQ(plan.seconds, first.seconds);
      EXPECT_LE(plan.rows.count, first.rows.count);
      for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
        EXPECT_EQ(plan.super_tile(number).columns, first.super_tile(number).columns);
      }
    }
  }
}

/// Largest bytes of what super-tiles need, counted tile by tile.
TEST(GemmPlan, BuffersHoldTheLargestSuperTileAndFit) {
  for (const GemmProblem& problem : many_problems()) {
    const GemmPlan plan = plan_gemm(problem, rates, 0);
    const GemmBuffers& has = plan.buffers;
    EXPECT_LE(plan.device_bytes, problem.device_memory) << told(plan);
    const std::uint64_t panel = 4;
    for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
      const GemmSuperTile tiles = plan.super_tile(number);
      const std::uint64_t rows = tiles.rows.count * 16, columns = tiles.columns.count * 16;
      EXPECT_GE(has.a_panel, rows * 32 * panel);
      EXPECT_GE(has.b_panel, plan.part_rows * problem.ranks * columns * panel);
      EXPECT_GE(has.raw_a, problem.a.raw ? rows * 32 * 8 : 0);
      EXPECT_GE(has.raw_b, problem.b.raw ? plan.part_rows * columns : 0);
      EXPECT_GE(has.y, plan.part_rows * problem.ranks * tiles.columns.count * 8);
      EXPECT_GE(has.z, rows * tiles.columns.count * 8);
      EXPECT_GE(has.accumulators, rows * columns * 4);
    }
    EXPECT_EQ(has.c_tile, problem.reads_c ? 16 * 16 * 4U : 0);
    std::uint64_t total = problem.other_bytes + has.c_tile + has.accumulators + has.z +
                          has.row_squares + has.column_squares + has.verdicts;
    total += plan.ring * (has.raw_a + has.raw_b + has.a_panel + has.b_panel + has.y);
    EXPECT_EQ(plan.device_bytes, total);
    EXPECT_GE(plan.ring, std::min<std::uint64_t>(2, plan.batches()));
    EXPECT_LE(plan.ring, std::min<std::uint64_t>(3, plan.batches()));
  }
}

TEST(GemmPlan, TrafficIsWhatTheBatchesBring) {
  for (const GemmProblem& problem : many_problems()) {
    const GemmPlan plan = plan_gemm(problem, rates, problem.ranks - 1);
    std::uint64_t uploads = 0, gathered = 0, rows = 0;
    for (std::uint64_t number = 0; number < plan.batches(); ++number) {
      const auto [super_tile, block] = plan.batch(number);
      ASSERT_LT(block, plan.blocks);
      const GemmSuperTile tiles = plan.super_tile(super_tile);
      const std::uint64_t columns = tiles.columns.count * 16;
      uploads += tiles.rows.count * 16 * 32 * problem.a.element_bytes +
                 plan.part_rows * columns * problem.b.element_bytes;
      gathered += (problem.ranks - 1) * plan.part_rows * (columns * 4 + tiles.columns.count * 16);
    }
    for (std::uint64_t row = plan.rows.first * 16; row < plan.rows.end() * 16; ++row) {
      rows += row < problem.m ? 1 : 0;
    }
    if (problem.reads_c) uploads += rows * problem.n * 4;
    EXPECT_EQ(plan.uploads, uploads) << told(plan);
    EXPECT_EQ(plan.gathered, gathered) << told(plan);
    EXPECT_EQ(plan.flops, 2.0 * static_cast<double>(rows * problem.n * problem.k));
    EXPECT_GE(plan.uploads, plan.least_uploads) << told(plan);
  }
}

TEST(GemmPlan, WhatFitsIsUploadedOnce) {
  GemmProblem problem = problem_of(32768, 32768, 32768, gemm::Precision::fp64, false, 4, 64 * GiB);
  GemmRates slow_link = rates;  // else a product this small gains from a small first panel
  slow_link.link_up = 5e9;
  const GemmPlan plan = plan_gemm(problem, slow_link, 1);
  const std::uint64_t operand = problem.m * problem.k * sizeof(double);
  EXPECT_EQ(plan.super_tiles(), 1U);
  EXPECT_EQ(plan.ring, 3U);
  EXPECT_EQ(plan.uploads, 2 * operand / 4);
  EXPECT_EQ(plan.least_uploads, plan.uploads);
  problem.reads_c = true;
  EXPECT_EQ(plan_gemm(problem, slow_link, 1).uploads, 3 * operand / 4);
  EXPECT_EQ(plan_gemm(problem, slow_link, 1).least_uploads, 3 * operand / 4);
}

/// All ways to cut a rank's tiles into super-tiles whose accumulators alone fit.
std::uint64_t least_of_all_cuts(const GemmProblem& problem, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t rows = ceil_div(ceil_div(problem.m, problem.tile.m), problem.ranks);
  const std::uint64_t columns = ceil_div(problem.n, problem.tile.n);
  const std::uint64_t tile =
      problem.tile.m * problem.tile.n * gemm::accumulator_bytes(problem.precision);
  std::uint64_t least = UINT64_MAX;
  for (std::uint64_t i = 1; i <= rows; ++i) {
    for (std::uint64_t j = 1; j <= columns; ++j) {
      if (i * j * tile > problem.device_memory) continue;
      least = std::min(least, ceil_div(columns, j) * a + ceil_div(rows, i) * b);
    }
  }
  return least;
}

TEST(GemmPlan, LargeProductsUploadNextToTheLeast) {
  for (const std::uint64_t ranks : {1, 4}) {
    for (const double flops : {55e12, 60e12, 67e12}) {
      const GemmProblem problem =
          problem_of(65536, 65536, 65536, gemm::Precision::fp64, false, ranks, 24 * GiB);
      GemmRates with = rates;
      with.flops = flops;
      const GemmPlan plan = plan_gemm(problem, with, 0);
      const std::uint64_t part = problem.m * problem.k / ranks * sizeof(double);
      EXPECT_EQ(plan.least_uploads, least_of_all_cuts(problem, part, part)) << told(plan);
      EXPECT_LE(static_cast<double>(plan.uploads), 1.02 * static_cast<double>(plan.least_uploads))
          << told(plan);
      EXPECT_LT(plan.seconds, 1.05 * plan.compute_seconds) << told(plan);
    }
  }
}

/// Less memory never fits where more does not; what the refusal names does, and a byte less not.
TEST(GemmPlan, RefusalsNameWhatFits) {
  for (const GemmProblem& roomy : many_problems()) {
    GemmProblem problem = roomy;
    problem.device_memory = 1;
    const std::uint64_t enough = demanded(problem).value();
    problem.device_memory = enough;
    EXPECT_EQ(plan_gemm(problem, rates, problem.ranks - 1).device_bytes, enough);
    for (const std::uint64_t less : {enough - 1, enough / 2, std::uint64_t{0}}) {
      problem.device_memory = less;
      EXPECT_EQ(demanded(problem, problem.ranks - 1), enough);
    }
    problem.device_memory = enough + KiB;
    EXPECT_EQ(demanded(problem), std::nullopt);
  }
}

TEST(GemmPlan, TheRefusalNamesTheNumbers) {
  const GemmProblem problem = problem_of(9000, 9000, 9000, gemm::Precision::fp64, false, 1, MiB);
  try {
    plan_gemm(problem, rates, 0);
    FAIL() << "1 MiB was enough";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("a tile of 3072 x 3072 in fp64"), std::string::npos) << text;
    EXPECT_NE(text.find("of which 1 MiB may be used"), std::string::npos) << text;
  }
}

TEST(GemmPlan, SizesBeyondAllMemoryAreRefused) {
  GemmProblem problem = small_tiles(UINT64_MAX / 2, 1, UINT64_MAX / 2, 1);
  problem.tile = {std::uint64_t{1} << 40, 16, std::uint64_t{1} << 40};
  EXPECT_THROW(plan_gemm(problem, rates, 0), UsageError);
}

TEST(GemmPlan, PredictsWhatBinds) {
  const GemmProblem problem =
      problem_of(65536, 65536, 65536, gemm::Precision::fp64, false, 4, 24 * GiB);
  const double computing = 2.0 * 65536 * 65536 * 65536 / 4 / rates.flops;
  const GemmPlan plan = plan_gemm(problem, rates, 0);
  EXPECT_EQ(plan.bound_by(), "computing");
  EXPECT_DOUBLE_EQ(plan.compute_seconds, computing);
  EXPECT_GT(plan.seconds, computing);
  EXPECT_LT(plan.seconds, 1.05 * computing);

  GemmRates slow_link = rates;
  slow_link.link_up = 1e9;
  const GemmPlan linked = plan_gemm(problem, slow_link, 0);
  EXPECT_EQ(linked.bound_by(), "host link");
  EXPECT_DOUBLE_EQ(linked.upload_seconds, static_cast<double>(linked.uploads) / 1e9);
  EXPECT_GT(linked.seconds, linked.upload_seconds);
  EXPECT_LT(linked.seconds, 1.05 * linked.upload_seconds);

  GemmRates slow_gather = rates;
  slow_gather.gather = 1e9;
  EXPECT_EQ(plan_gemm(problem, slow_gather, 0).bound_by(), "all-gathers");
  EXPECT_DOUBLE_EQ(plan_gemm(problem, slow_gather, 0).gather_seconds,
                   static_cast<double>(plan_gemm(problem, slow_gather, 0).gathered) / 1e9);

  GemmRates slow_down = rates;
  slow_down.link_down = 1e8;
  const GemmPlan drained = plan_gemm(problem, slow_down, 0);
  EXPECT_EQ(drained.bound_by(), "download");
  EXPECT_GT(drained.seconds, drained.drain_seconds);
}

/// A product in one batch takes the sum of its parts: nothing overlaps.
TEST(GemmPlan, OneBatchOverlapsNothing) {
  const GemmProblem problem =
      problem_of(4096, 4096, 4096, gemm::Precision::fp64, false, 1, 24 * GiB);
  const GemmPlan plan = plan_gemm(problem, rates, 0);
  EXPECT_EQ(plan.batches(), 1U);
  EXPECT_EQ(plan.ring, 1U);
  EXPECT_NEAR(plan.seconds, plan.upload_seconds + plan.compute_seconds + plan.drain_seconds,
              1e-9 * plan.seconds);
}

/// Where the link binds, more memory means less to upload and no longer time.
TEST(GemmPlan, MoreMemoryIsNoSlower) {
  GemmProblem problem = problem_of(40000, 50000, 30000, gemm::Precision::bf16, false, 2, GiB);
  GemmRates with = rates;
  with.flops = 700e12;
  double before = 1e9;
  for (; problem.device_memory <= 64 * GiB; problem.device_memory *= 2) {
    const GemmPlan plan = plan_gemm(problem, with, 0);
    EXPECT_LE(plan.seconds, 1.04 * before) << told(plan);
    before = plan.seconds;
  }
}

TEST(GemmPlan, ManyTilesArePlannedQuickly) {
  const GemmProblem problem =
      problem_of(100'000'000, 100'000'000, 4096, gemm::Precision::fp32, false, 1, 100 * GiB);
  const GemmPlan plan = plan_gemm(problem, rates, 0);
  EXPECT_LE(plan.device_bytes, problem.device_memory);
}

TEST(GemmPlan, IsDescribed) {
  GemmProblem problem = problem_of(65536, 65536, 65536, gemm::Precision::fp64, false, 1, 24 * GiB);
  const std::string one = told(plan_gemm(problem, rates, 0));
  for (const std::string_view word :
       {"C: 65536 x 65536 in fp64, 16 x 16 tiles of 4096 x 4096", "rank 0 of 1: rows of tiles 0 to",
        "uploads of rank 0: 96 GiB, 1.000 x", "of 24 GiB", "bound by computing"}) {
    EXPECT_NE(one.find(word), std::string::npos) << word << " is missing in\n" << one;
  }
  EXPECT_EQ(one.find("all-gathers: a rank"), std::string::npos) << one;
  problem = small_tiles(13, 13, 13, 3);
  const std::string idle = told(plan_gemm(problem, rates, 2));
  EXPECT_NE(idle.find("rank 2 of 3: no rows of tiles"), std::string::npos) << idle;
  EXPECT_NE(idle.find("all-gathers: a rank receives"), std::string::npos) << idle;
}

}  // namespace
}  // namespace shardstream::workloads
