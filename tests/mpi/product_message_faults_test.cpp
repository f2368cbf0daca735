// A matrix product with a fault in a message between ranks finds wrong rows, or names block and
// rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mpi/product_faults.hpp"

namespace shardstream::workloads::product {

/// Corrupts an element of B from another rank of the grid column, in the middle block.
void ProductFaults::expect_gathered_b_to_be_checked(std::uint64_t gathers_a_block) {
  const int where = last_with_tiles_;
  const Plan plan = plan_of(where);
  const SuperTile super_tile = plan.super_tile(0);
  const std::uint64_t giver_row = (plan.part.row + 1) % plan.shape.box.rows, block = 1;
  const std::uint64_t columns = super_tile.columns.count * problem_.tile.n;
  const Range given =
      plan_of(static_cast<int>(giver_row * plan.shape.box.columns + plan.part.column))
          .b_part(block)
          .valid;
  ASSERT_GT(given.count, 0U);
  const std::uint64_t row = last_of(given);
  const std::uint64_t panel_row = giver_row * plan.b_part(block).rows.count + given.count - 1;
  const TileRanges hit = place_of({super_tile.rows.first, super_tile.columns.end() - 1});
  const std::uint64_t column = last_of(hit.columns);
  const std::uint64_t panel_column = column - super_tile.columns.first * problem_.tile.n;

  const double caught = detection_threshold(where);
  std::vector<double> factors;  // of that row of B, for the rows of C in the tile
  for (std::uint64_t i = 0; i < hit.rows.count; ++i) {
    factors.push_back(std::abs(element(*operands_.a, hit.rows.first + i, row)));
  }
  const double b = element(*operands_.b, row, column);
  const auto rows_caught = [&](unsigned bit) {
    const double change = std::abs(with_flipped(b, bit) - b);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(factors, [&](double a) { return a * change > caught; }));
  };
  const auto bits = static_cast<unsigned>(8 * panel_element_);
  unsigned lowest = 0;
  while (lowest < bits && rows_caught(lowest) == 0) ++lowest;
  // The lowest bit that the check must not miss; the exponent's highest, but of whole numbers the
  // sign: on a host these stay within 32 bits
  for (const unsigned bit : {lowest, is_exact(GetParam()) ? bits - 1 : bits - 2}) {
    ASSERT_GT(rows_caught(bit), 0U) << bit << ", where " << caught << " is caught";
    const Flip flip{(panel_row * columns + panel_column) * panel_element_ + bit / 8, bit % 8};
    const std::string failure =
        failure_with({.gather = Faults::Message{gathers_a_block * block, flip}}, where);
    EXPECT_TRUE(names(failure, columns_of(hit))) << bit;
    EXPECT_GE(wrong_rows(failure), rows_caught(bit)) << failure;
    EXPECT_LE(wrong_rows(failure), hit.rows.count) << failure;
  }
}

TEST_P(ProductFaults, ACorruptedGatherMakesRowsWrong) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  multiply(usual);
  expect_gathered_b_to_be_checked(2);
}

TEST_P(ProductFaults, GathersOfBInAGridAreChecked) {
  if (session().size() < 4) GTEST_SKIP() << "a grid of rows and columns has four ranks";
  multiply(usual, Decomposition::grid);
  ASSERT_EQ(plan_.shape.box, (Box{2, 2, 1}));
  expect_gathered_b_to_be_checked(4);
}

/// Corrupts rows of A from another rank of the grid row.
void ProductFaults::expect_gathered_a_to_be_checked(int where) {
  const Plan plan = plan_of(where);
  const SuperTile super_tile = plan.super_tile(0);
  const std::uint64_t giver = (plan.part.column + 1) % plan.shape.box.columns, block = 1;
  const std::uint64_t row = giver * plan.a_part(super_tile).rows.count;
  const bool gathers_b = plan.shape.box.rows > 1;  // first, and its sums
  const std::uint64_t number = (gathers_b ? 4 : 2) * block + (gathers_b ? 2 : 0);
  const std::vector<std::string> expected{
      "A", fmt::format("block {}", block),
      fmt::format("rank {}", plan.part.row * plan.shape.box.columns + giver),
      fmt::format("rank {}", where)};
  const std::uint64_t pitch =
      gemm::a_ld(problem_.precision, plan.shape.depth({block, 1}).count, Backend::host);
  const std::uint64_t byte = row * pitch * panel_element_;
  for (const Flip flip : {Flip{byte, 0}, Flip{byte + panel_element_ - 1, 7}}) {
    EXPECT_TRUE(names(failure_with({.gather = Faults::Message{number, flip}}, where), expected));
  }
  // The sum of the part, which is sent behind it
  const Flip of_sum{giver * sizeof(std::uint64_t), 0};
  EXPECT_TRUE(
      names(failure_with({.gather = Faults::Message{number + 1, of_sum}}, where), expected));
}

/// Both sides of C's check are computed from the gathered rows of A, so the rows have their own
/// check. The first rank gets the last part of its row, and the last one the first.
TEST_P(ProductFaults, GathersOfAInAGridAreChecked) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  multiply(usual, Decomposition::grid);
  expect_gathered_a_to_be_checked(0);
  expect_gathered_a_to_be_checked(last_with_tiles_);
}

/// The values that C is compared with are gathered, too: for each row of B, a sum for every column
/// of tiles, then the squares for the bound.
TEST_P(ProductFaults, GathersOfCheckVectorsAreChecked) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  multiply(usual);
  const int where = last_with_tiles_, giver = (where + 1) % session().size();
  const std::uint64_t block = 1, tiles = plan_.shape.tile_columns;
  const std::uint64_t of_row =
      static_cast<std::uint64_t>(giver) * plan_.b_part(block).rows.count * 2 * tiles;
  const auto fault = [&](std::uint64_t index, unsigned bit) {
    return Faults{.gather = Faults::Message{
                      2 * block + 1, {(of_row + index) * sizeof(double) + bit / 8, bit % 8}}};
  };
  const TileRanges hit = place_of(owned(plan_of(where)).front());
  const std::string failure = failure_with(fault(0, 63), where);
  EXPECT_TRUE(names(failure, columns_of(hit)));
  EXPECT_GE(wrong_rows(failure), 1U) << failure;

  // Squares that are 2^64 times too large: C is right, but the check is worth little and says so.
  // That of whole numbers goes by no squares.
  const double caught = session().max(run().detection_threshold);
  const CheckSummary blind = run(fault(tiles, 58), where);
  EXPECT_EQ(failure_of(blind, where), "");
  if (is_exact(GetParam())) {
    EXPECT_EQ(session().max(blind.detection_threshold), caught);
  } else {
    EXPECT_GT(session().max(blind.detection_threshold), 1e5 * caught);
  }
}

/// Corrupts an element of another layer's sum over its part of K.
void ProductFaults::expect_exchanged_to_be_checked(int where) {
  const Plan plan = plan_of(where);
  if (owned(plan).empty()) return;
  const Box& box = plan.shape.box;
  const std::uint64_t giver = (plan.part.layer + box.depth - 1) % box.depth;
  const TreeNode node = plan_of(static_cast<int>(giver * box.layer())).part.nodes[0];
  const TileRanges hit = place_of(owned(plan).front());
  const std::uint64_t row = last_of(hit.rows), column = last_of(hit.columns);
  const std::uint64_t tile_row = row - hit.rows.first, tile_column = column - hit.columns.first;
  ASSERT_LT(tile_row, plan.shape.exchange_rows);

  double partial = 0;
  for (std::uint64_t i = node.index << node.height; i < (node.index + 1) << node.height; ++i) {
    const Range blocks = share(plan.shape.blocks, i, plan.shape.segments);
    const Range depth = intersection(
        {blocks.first * problem_.tile.k, blocks.count * problem_.tile.k}, {0, problem_.k});
    for (std::uint64_t k = depth.first; k < depth.end(); ++k) {
      partial += element(*operands_.a, row, k) * (operands_.transpose_b
                                                      ? element(*operands_.b, column, k)
                                                      : element(*operands_.b, k, column));
    }
  }
  const double caught = detection_threshold(where);
  const auto bits = static_cast<unsigned>(8 * c_element_);
  std::vector<unsigned> flipped = {0, 20};  // of whole numbers every one
  if (!is_exact(GetParam())) {
    unsigned lowest = 0;
    const auto change = [&](unsigned bit) {
      return std::abs(with_flipped(partial, bit) - partial);
    };
    while (lowest < bits && change(lowest) < 1.01 * caught) ++lowest;
    ASSERT_LT(lowest, GetParam() == gemm::Precision::fp64 ? 52U : 23U);
    flipped = {lowest, bits - 1};
  }
  const std::uint64_t rows = std::min(plan.shape.exchange_rows, problem_.tile.m);
  const std::uint64_t start = giver * plan.shape.max_nodes * rows * problem_.tile.n;
  for (const unsigned bit : flipped) {
    const std::uint64_t index = start + tile_row * problem_.tile.n + tile_column;
    const Flip flip{index * c_element_ + bit / 8, bit % 8};
    const std::string failure = failure_with({.exchange = Faults::Message{0, flip}}, where);
    expect_wrong_row(failure, hit, row);
  }
}

TEST_P(ProductFaults, ACorruptedExchangeMakesARowWrong) {
  if (session().size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  const auto expect_checked = [&] {
    for (int where = 0; where <= last_with_tiles_; ++where) expect_exchanged_to_be_checked(where);

    // What C is checked by is a sum of all layers' too, gathered behind all panels.
    const int where = last_with_tiles_;
    const Plan plan = plan_of(where);
    const TileIndex tile = owned(plan).front();
    const SuperTile super_tile = plan.super_tile(0);
    const TileRanges hit = place_of(tile);
    const std::uint64_t giver = (plan.part.layer + 1) % plan.shape.box.depth;
    const std::uint64_t check = plan.buffers.check.gathered_z / plan.shape.box.depth;
    const std::uint64_t row = (tile.row - super_tile.rows.first) * problem_.tile.m;
    const std::uint64_t z =
        giver * check +
        (row * super_tile.columns.count + tile.column - super_tile.columns.first) * sizeof(double);
    const std::uint64_t number = plan.part.blocks.count * gathers_a_batch(plan);
    const std::string failure =
        failure_with({.gather = Faults::Message{number, {z + sizeof(double) - 1, 6}}}, where);
    expect_wrong_row(failure, hit, hit.rows.first);
  };
  multiply_in(layers_alone(), deep);
  expect_checked();
  if (session().size() < 4) return;
  multiply_in({2, 1, 2}, deep);
  expect_checked();
  multiply_in({1, 2, 2}, deep_flat);
  expect_checked();
  multiply_in({2, 1, 2}, deep_square, true);
  expect_checked();
}

/// A symmetric product makes A from the gathered B, so a wrong element is on both sides of C's
/// check. The error has the smallest size that must be caught.
TEST_P(ProductFaults, GathersOfASymmetricProductAreChecked) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  multiply(square, Decomposition::rows, true);
  const int where = last_with_tiles_;
  const Plan plan = plan_of(where);
  const std::uint64_t columns = plan.super_tile(0).columns.count * problem_.tile.n;
  const std::uint64_t giver = (plan.part.row + 1) % plan.shape.box.rows,
                      block = plan.shape.blocks - 1;
  const std::vector<std::string> expected{"B", fmt::format("block {}", block),
                                          fmt::format("rank {}", giver),
                                          fmt::format("rank {}", where)};
  const std::uint64_t byte = giver * plan.b_part(block).rows.count * columns * panel_element_;
  for (const Flip flip : {Flip{byte, 0}, Flip{byte + columns * panel_element_ - 1, 0}}) {
    EXPECT_TRUE(names(failure_with({.gather = Faults::Message{3 * block, flip}}, where), expected));
  }
  const Flip of_sum{giver * sizeof(std::uint64_t), 0};
  EXPECT_TRUE(
      names(failure_with({.gather = Faults::Message{3 * block + 1, of_sum}}, where), expected));
}

}  // namespace shardstream::workloads::product
