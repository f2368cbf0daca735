// Faults in a product of residues. Its blocks of K are deep, so its tests have sizes of their own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mpi/product_faults.hpp"

namespace shardstream::workloads::product {

class ResidueFaults : public ProductFaults {
 protected:
  void SetUp() override {
    multiply(few_lines);
    ASSERT_EQ(plan_.shape.blocks, 3U);
    ASSERT_EQ(plan_.shape.segments, 2U);
    ASSERT_EQ(plan_.shape.tile_rows, 2U);
    ASSERT_EQ(plan_.shape.tile_columns, 2U);
  }
};

TEST_P(ResidueFaults, RunsWithoutFaultsPass) {
  const CheckSummary verdict = run();
  EXPECT_EQ(verdict.failure, "");
  EXPECT_LT(verdict.worst, 1);
  EXPECT_EQ(verdict.unchecked, 0U);
  EXPECT_EQ(faults_.residue_panels, owned(plan_).empty() ? 3U : 6U);  // of B, then of A
}

TEST_P(ResidueFaults, ACorruptedUploadNamesBlockAndRank) {
  run();
  const auto uploaded = session().gather(std::vector{product_->uploaded()});
  for (const int where : {0, last_with_tiles_}) {
    const std::uint64_t end = uploaded[static_cast<std::size_t>(where)];
    EXPECT_TRUE(names(failure_with({.upload = Flip{0, 0}}, where), "device", "block 0",
                      fmt::format("rank {}", where)));
    EXPECT_TRUE(names(failure_with({.upload = Flip{end - 1, 0}}, where), "device", "block 2",
                      fmt::format("rank {}", where)));
  }
}

/// A bit of the first element of a line, and one of the last element of the last plane.
TEST_P(ResidueFaults, AWrongResidueMakesRowsWrong) {
  const int where = last_with_tiles_;
  const SuperTile super_tile = plan_of(where).super_tile(0);
  const std::uint64_t rows = super_tile.rows.count * problem_.tile.m,
                      columns = super_tile.columns.count * problem_.tile.n, k = problem_.tile.k;
  const TileRanges first = place_of({super_tile.rows.first, super_tile.columns.first});
  for (std::uint64_t block = 0; block < plan_.shape.blocks; ++block) {
    const auto failure_of_residue = [&](bool of_a, std::uint64_t byte, unsigned bit) {
      return failure_with({.residues = Faults::Message{2 * block + (of_a ? 1 : 0), {byte, bit}}},
                          where);
    };
    for (const std::uint64_t line : {std::uint64_t{0}, first.rows.count - 1}) {
      const std::string failure = failure_of_residue(true, line * k, 0);
      EXPECT_EQ(wrong_rows(failure), 1U) << failure;
      EXPECT_TRUE(names(failure, fmt::format("row {}", first.rows.first + line)));
    }
    const std::uint64_t last_plane = problem_.tile.moduli - 1;
    EXPECT_GE(wrong_rows(failure_of_residue(false, 0, 0)), 1U);
    EXPECT_GE(wrong_rows(failure_of_residue(false, last_plane * columns * k + k - 1, 3)), 1U);
    EXPECT_GE(wrong_rows(failure_of_residue(true, last_plane * rows * k + k - 1, 3)), 1U);
  }
}

TEST_P(ResidueFaults, AnErrorAboveTheDetectionThresholdIsCaught) {
  expect_error_to_be_caught();
}

TEST_P(ResidueFaults, ACorruptedGatherMakesRowsWrong) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  expect_gathered_b_to_be_checked(2);
}

INSTANTIATE_TEST_SUITE_P(In, ResidueFaults,
                         testing::Values(gemm::Precision::fp64_int8, gemm::Precision::fp32_int8),
                         [](const auto& tested) {
                           std::string name(gemm::word_of(tested.param));
                           name[name.find('-')] = '_';
                           return name;
                         });

}  // namespace shardstream::workloads::product
