// A matrix product with a fault reports it and names the place; one without a fault reports
// nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "mpi/product_faults.hpp"

namespace shardstream::workloads::product {

TEST_P(ProductFaults, RunsWithoutFaultsPass) {
  const auto expect_none = [&](std::uint64_t gathers, std::uint64_t exchanges) {
    const CheckSummary verdict = run();
    EXPECT_EQ(verdict.failure, "");
    EXPECT_LT(verdict.worst, 1);
    EXPECT_EQ(verdict.unchecked, 0U);
    // These numbers determine the places of faults.
    const bool alone = session().size() == 1;
    EXPECT_EQ(faults_.uploaded, product_->uploaded());
    EXPECT_EQ(faults_.checks, owned(plan_).size());
    EXPECT_EQ(faults_.gathers, alone ? 0 : gathers);
    EXPECT_EQ(faults_.exchanges, alone ? 0 : exchanges);
    EXPECT_EQ(faults_.downloaded, downloads(plan_).back().end());
    return verdict.checksum;
  };
  multiply(usual);
  ASSERT_GE(plan_.shape.blocks, 3U);
  EXPECT_EQ(plan_.shape.begins_shallow, GetParam() != gemm::Precision::fp32x3);
  ASSERT_EQ(plan_.shape.tile_rows, 2U);
  ASSERT_EQ(plan_.shape.tile_columns, 2U);
  const std::uint64_t checksum = expect_none(2 * plan_.shape.blocks, 0);

  // A fault leaves nothing behind.
  EXPECT_NE(failure_with({.upload = Flip{0, 0}}, 0), "");
  const CheckSummary again = run();
  EXPECT_EQ(again.failure, "");
  EXPECT_EQ(again.checksum, checksum);

  if (session().size() > 1) {
    multiply(usual, Decomposition::grid);
    EXPECT_EQ(
        session().sum(expect_none(plan_.shape.blocks * (plan_.shape.box.rows > 1 ? 4 : 2), 0)),
        session().sum(checksum));
  }
  multiply_in(layers_alone(), deep);
  ASSERT_EQ(plan_.shape.segments, 4U);
  ASSERT_EQ(plan_.shape.count_tiles(plan_.super_tile(0)), 2U);
  expect_none(1, (1 + static_cast<std::uint64_t>(session().size())) / session().size());

  multiply(small_deep);
  EXPECT_EQ(problem_.tile.lanes > 1, GetParam() != gemm::Precision::fp32x3);
  EXPECT_EQ(run().failure, "");

  multiply(square, Decomposition::rows, true);
  ASSERT_EQ(plan_.shape.tile_rows, 3U);
  ASSERT_TRUE(plan_.part.rows.count == 0 || plan_.shape.a_from_b(plan_.super_tile(0)));
  expect_none(3 * plan_.shape.blocks, 0);
}

/// The ranks may have any place in the box, and some may be idle.
TEST_P(ProductFaults, RunsWithoutFaultsPassInAnyBox) {
  const auto ranks = static_cast<std::uint64_t>(session().size());
  const auto expect_none = [&](const Box& box, const Sizes& sizes, bool symmetric) {
    multiply_in(box, sizes, symmetric);
    const CheckSummary verdict = run();
    EXPECT_EQ(verdict.failure, "");
    const std::uint64_t tiles = plan_.shape.count_tiles(plan_.super_tile(0));
    const bool exchanges = tiles > 0 && box.depth > 1;
    EXPECT_EQ(plan_.part.idle, plan_.part.rank >= box.ranks());
    EXPECT_EQ(plan_.part.idle, product_->uploaded() == 0);
    EXPECT_EQ(faults_.checks, owned(plan_).size());
    EXPECT_EQ(faults_.exchanges, exchanges ? ceil_div(tiles, box.depth) : 0);
    EXPECT_EQ(faults_.gathers,
              plan_.part.blocks.count * gathers_a_batch(plan_) + (exchanges ? 1 : 0));
    return session().sum(verdict.checksum);
  };
  for (const auto& [sizes, symmetric] :
       {std::pair(deep, false), {deep_flat, false}, {deep_square, false}, {deep_square, true}}) {
    const std::uint64_t expected = expect_none({ranks, 1, 1}, sizes, symmetric);
    for (const Box& box :
         {Box{1, 1, 2}, {1, 1, 3}, {1, 1, 4}, {2, 1, 2}, {1, 2, 2}, {3, 1, 1}, {2, 2, 1}}) {
      if (box.ranks() > ranks || (symmetric && box.columns > 1)) continue;
      EXPECT_EQ(expect_none(box, sizes, symmetric), expected)
          << box.rows << " x " << box.columns << " x " << box.depth;
    }
  }
}

/// Whether readers bring the bytes, or they are in pinned memory.
TEST_P(ProductFaults, ACorruptedUploadNamesBlockAndRank) {
  for (const char* const mode : {"stream", "pinned"}) {
    options_ = test::host_options(1, {"--pipeline.mode", mode});
    multiply(usual);
    expect_uploads_to_be_checked();
  }
}

void ProductFaults::expect_uploads_to_be_checked() {
  const gemm::Tile& tile = problem_.tile;
  const auto rows_of = [](const PanelPart& part, const UploadedOperand& operand) {
    return operand.raw ? part.valid.count : part.rows.count;  // raw parts have no padding
  };
  // In each block a rank's rows of A go first.
  const auto expect_named = [&](int where, std::uint64_t block, bool of_a, bool at_end) {
    const Plan plan = plan_of(where);
    const std::uint64_t a_rows = rows_of(plan.a_part(plan.super_tile(0)), problem_.a);
    const auto of_a_bytes = [&](std::uint64_t each) {
      const Range depth = plan.shape.depth({each, 1});
      const Range valid = intersection(depth, {0, problem_.k});
      return a_rows * (problem_.a.raw ? valid : depth).count * problem_.a.element_bytes;
    };
    const std::uint64_t columns = problem_.b.raw ? problem_.n : plan.shape.tile_columns * tile.n;
    const auto of_b_bytes = [&](std::uint64_t each) {
      return rows_of(plan.b_part(each), problem_.b) * columns * problem_.b.element_bytes;
    };
    std::uint64_t start = of_a ? 0 : of_a_bytes(block);
    for (std::uint64_t each = 0; each < block; ++each) {
      start += of_a_bytes(each) + of_b_bytes(each);
    }
    const std::uint64_t bytes = of_a ? of_a_bytes(block) : of_b_bytes(block);
    const std::uint64_t byte = at_end ? start + bytes - 1 : start;
    EXPECT_TRUE(names(failure_with({.upload = Flip{byte, 0}}, where), "device",
                      fmt::format("block {}", block), fmt::format("rank {}", where)));
  };
  const std::uint64_t last = plan_.shape.blocks - 1;
  expect_named(0, 0, true, false);
  expect_named(last_with_tiles_, last, true, true);
  expect_named(0, 0, false, false);
  expect_named(session().size() - 1, last, false, true);  // perhaps of a rank without tiles
}

/// Changes elements of the first and the last tile by the detection threshold and by much less.
void ProductFaults::expect_error_to_be_caught() {
  const int where = last_with_tiles_;
  const std::vector<TileIndex> tiles = owned(plan_of(where));
  const double caught = detection_threshold(where);
  if (is_exact(GetParam())) {
    ASSERT_EQ(caught, 1);
  } else {
    ASSERT_GT(caught, 0);
  }
  for (const std::size_t tile : {std::size_t{0}, tiles.size() - 1}) {
    const TileRanges all = place_of(tiles[tile]);
    const bool first = tile == 0;
    const std::uint64_t row = first ? all.rows.first : last_of(all.rows);
    const auto changed_by = [&](double amount) {
      return Faults{.change = Faults::Change{tile, row - all.rows.first,
                                             first ? 0 : all.columns.count - 1, amount}};
    };
    for (const double factor : {2.0, is_exact(GetParam()) ? -1 : -1.01}) {
      const std::string failure = failure_with(changed_by(factor * caught), where);
      expect_wrong_row(failure, all, row);
    }
    // A tenth of the bound is within the rounding errors that are allowed for.
    if (!is_exact(GetParam())) {
      EXPECT_EQ(failure_with(changed_by(caught / 2 / 10), where), "");
    }
  }
}

TEST_P(ProductFaults, AnErrorAboveTheDetectionThresholdIsCaught) {
  multiply(usual);
  expect_error_to_be_caught();
  multiply(square, Decomposition::rows, true);
  expect_error_to_be_caught();
  multiply_in(layers_alone(), deep);
  expect_error_to_be_caught();
}

/// The diagonal is set to ones, but only after it has been checked.
TEST_P(ProductFaults, AWrongDiagonalOfCorrelationsIsCaught) {
  if (is_exact(GetParam())) GTEST_SKIP() << "whole numbers are not scaled";
  multiply(square, Decomposition::rows, true, nullptr, std::nullopt, true);
  const int where = last_with_tiles_;
  const std::vector<TileIndex> tiles = owned(plan_of(where));
  const auto diagonal =
      std::ranges::find_if(tiles, [](const TileIndex& tile) { return tile.row == tile.column; });
  ASSERT_NE(diagonal, tiles.end());
  const TileRanges all = place_of(*diagonal);
  const auto number = static_cast<std::uint64_t>(diagonal - tiles.begin());
  const double caught = detection_threshold(where);
  ASSERT_LT(caught, 0.01);
  for (const double factor : {2.0, -1.01}) {
    const std::string failure =
        failure_with({.change = Faults::Change{number, 7, 7, factor * caught}}, where);
    expect_wrong_row(failure, all, all.rows.first + 7);
  }
}

TEST_P(ProductFaults, ACorruptedDownloadOfSumsNamesItsVariables) {
  if (is_exact(GetParam())) GTEST_SKIP() << "whole numbers are not scaled";
  multiply(square, Decomposition::rows, true, nullptr, std::nullopt, true);
  const int where = last_with_tiles_;
  int tested = 0;
  for (const Download& one : downloads(plan_of(where))) {
    if (one.of != Download::Of::variables) continue;
    const Range rows = place_of(one.tile).rows;
    for (const std::uint64_t byte : {one.start, one.end() - 1}) {
      EXPECT_TRUE(names(failure_with({.download = Flip{byte, 0}}, where), "host",
                        fmt::format("variables {} to {}", rows.first, last_of(rows))));
      ++tested;
    }
  }
  EXPECT_GE(tested, 4);
}

TEST_P(ProductFaults, ACorruptedDownloadNamesItsRows) {
  const auto expect_named = [&] {
    const int where = last_with_tiles_;
    for (const Download& one : downloads(plan_of(where))) {
      if (one.of != Download::Of::tile && one.of != Download::Of::mirror) continue;
      const TileRanges place = place_of(one.tile);
      const auto [rows, columns] = one.of == Download::Of::tile
                                       ? place
                                       : TileRanges{.rows = place.columns, .columns = place.rows};
      const std::uint64_t end =
          one.start + (rows.count - 1) * one.row_bytes + columns.count * c_element_;
      for (const std::uint64_t byte : {one.start, end - 1}) {
        EXPECT_TRUE(names(failure_with({.download = Flip{byte, 0}}, where), "host",
                          fmt::format("rows {} to {} of C", rows.first, last_of(rows))));
      }
    }
  };
  multiply(usual);
  expect_named();
  multiply(square, Decomposition::rows, true);
  ASSERT_GT(
      std::ranges::count(downloads(plan_of(last_with_tiles_)), Download::Of::mirror, &Download::of),
      0);
  expect_named();
}

/// If the verdicts themselves are corrupted, more seems wrong than is.
TEST_P(ProductFaults, ACorruptedVerdictIsNeverAPass) {
  multiply(usual);
  const int where = last_with_tiles_;
  for (const Download& one : downloads(plan_of(where))) {
    if (one.of == Download::Of::report) {
      const std::uint64_t words = one.start + sizeof(gemm::TileVerdict);
      const std::uint64_t failures = one.start + offsetof(gemm::TileVerdict, failures);
      EXPECT_NE(failure_with({.download = Flip{words, 0}}, where), "");
      EXPECT_NE(failure_with({.download = Flip{failures, 0}}, where), "");
    } else if (one.of == Download::Of::sums) {
      EXPECT_TRUE(names(failure_with({.download = Flip{one.end() - 1, 7}}, where), "device",
                        fmt::format("block {}", plan_.shape.blocks - 1),
                        fmt::format("rank {}", where)));
    }
  }
}

/// Otherwise a resumed run would take them over.
TEST_P(ProductFaults, WrongTilesAreNotInTheCheckpoint) {
  const auto journal_with = [&](const Faults& faults, const std::string& uuid) {
    io::Journal journal(folder_ / "C.h5", uuid, 0, 1, {}, log_, [] {});
    journal.begin({}, nullptr, {100, 10, tile_record});
    multiply(usual, Decomposition::rows, false, &journal);
    run(faults, last_with_tiles_);
    product_.reset();
    std::ifstream file(io::journal_path_of(folder_ / "C.h5", uuid, 0));
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const auto count = [](const std::string& text, const std::string& part) {
    std::uint64_t found = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string whole = journal_with({}, "whole");
  const std::uint64_t tiles = owned(plan_).size();
  EXPECT_EQ(count(whole, "{\"piece\":"), tiles);
  EXPECT_EQ(count(whole, "{\"group\":"), 1U);
  const bool here = session().rank() == last_with_tiles_;
  const std::string changed = journal_with({.change = Faults::Change{0, 1, 1, 1e9}}, "changed");
  EXPECT_EQ(count(changed, "{\"piece\":"), tiles - (here ? 1 : 0));
  const std::string spoilt = journal_with({.upload = Flip{0, 0}}, "spoilt");
  EXPECT_EQ(count(spoilt, "{\"group\":"), here ? 0U : 1U);
}

INSTANTIATE_TEST_SUITE_P(In, ProductFaults,
                         testing::Values(gemm::Precision::fp32, gemm::Precision::fp64,
                                         gemm::Precision::int8, gemm::Precision::fp32x3),
                         [](const auto& tested) {
                           return std::string(gemm::word_of(tested.param));
                         });

}  // namespace shardstream::workloads::product
