// The order of the sums over K does not depend on ranks.
#include <gtest/gtest.h>

#include <string>

#include "unit/plan/problems.hpp"

namespace shardstream::workloads::product {
namespace {

/// The sums in a rank's accumulators after its last block, as terms of blocks: "((0 1) (2 3))".
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

TEST(PlanSegments, TheOrderOfASumDoesNotDependOnRanks) {
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

TEST(PlanSegments, SegmentsAreFoldedByATree) {
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
TEST(PlanSegments, OnlyLongSumsHaveSegments) {
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

}  // namespace
}  // namespace shardstream::workloads::product
