// A matrix product with one fault in it says so and names the place; without one it says nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/options.hpp"
#include "io/generator_source.hpp"
#include "launch/options.hpp"
#include "measure/repeat.hpp"
#include "measure/telemetry.hpp"
#include "mpi/faulty_backend.hpp"
#include "mpi/session.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/gemm_product.hpp"

namespace shardstream::workloads {
namespace {

using test::Faults;
using test::Flip;
using test::session;

// Two rows and two columns of tiles, three blocks of K, all in one super-tile. Of three ranks the
// last has no rows of C, and the last row of its part of B is padding.
constexpr std::uint64_t m = 800, n = 790, k = 4200;

/// One reader, so that pieces go up in their order; several of them in a batch.
Options options() {
  const OptionTable table({launch::launch_options(), runtime::device_options(),
                           comm::comm_options(), pipeline::pipeline_options(),
                           measure::measure_options(), measure::telemetry_options()});
  const char* const none[] = {nullptr};
  return table.resolve(
      table.parse_command_line({"--device.backend", "host", "--launch.bind", "none",
                                "--pipeline.readers", "1", "--pipeline.slot", "1MiB"}),
      none, std::nullopt);
}

class GemmFaults : public testing::TestWithParam<gemm::Precision> {
 protected:
  GemmFaults() {
    runtime_.device = std::make_unique<test::SpoilingDevice>(std::move(runtime_.device), faults_);
    runtime_.communicator =
        std::make_unique<test::SpoilingCommunicator>(std::move(runtime_.communicator), faults_);
    const auto matrix = [&](std::uint64_t rows, std::uint64_t columns, std::uint64_t seed) {
      return std::make_unique<io::Matrix>(std::make_unique<io::GeneratorSource>(
          Generator::uniform, type_, std::vector{rows, columns}, seed));
    };
    operands_.a = matrix(m, k, 1);
    operands_.b = matrix(k, n, 2);
    operands_.precision = GetParam();
    operands_.m = m;
    operands_.n = n;
    operands_.k = k;
    plan_ = plan_of(session().rank());
    product_.emplace(runtime_, operands_, plan_,
                     pipeline::staging_ring(runtime_.options, runtime_.resources), nullptr);
    last_with_tiles_ =
        static_cast<int>(session().max(plan_.rows.count > 0 ? session().rank() : -1));
  }

  GemmPlan plan_of(int rank) const {
    return plan_gemm({.m = m,
                      .n = n,
                      .k = k,
                      .precision = GetParam(),
                      .a = {size_of(type_)},
                      .b = {size_of(type_)},
                      .ranks = static_cast<std::uint64_t>(session().size()),
                      .device_memory = std::uint64_t{1} << 30,
                      .on_host = true,
                      .tile = gemm::tile_for(m, n, k, GetParam(), true)},
                     {.link_up = 1e10, .link_down = 1e10, .gather = 1e10, .flops = 1e11},
                     static_cast<std::uint64_t>(rank));
  }

  /// A run with these faults on rank `where`, without any on the others; what this rank says of it.
  GemmVerdict run(const Faults& faults = {}, int where = 0) {
    const bool here = session().rank() == where;
    faults_ = here ? faults : Faults{};
    product_->run();
    const bool wanted =
        here && (faults.upload || faults.download || faults.gather || faults.change);
    EXPECT_EQ(faults_.placed, wanted ? 1U : 0U);
    return product_->verdict();
  }

  /// Nobody but `where` sees anything wrong; that rank says what is returned, on every rank.
  std::string failure_of(const GemmVerdict& verdict, int where) const {
    const auto all = session().gather(verdict.failure);
    for (int rank = 0; rank < session().size(); ++rank) {
      if (rank == where) continue;
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], "") << "rank " << rank;
    }
    return all[static_cast<std::size_t>(where)];
  }
  std::string failure_with(const Faults& faults, int where) {
    return failure_of(run(faults, where), where);
  }

  /// Tile `number` of a rank's, as C's rows and columns.
  struct Place {
    Range rows, columns;
  };
  Place place(const GemmPlan& plan, std::uint64_t number) const {
    const gemm::Tile& tile = plan.problem.tile;
    const std::uint64_t down = plan.rows.first + number / plan.tile_columns;
    const std::uint64_t across = number % plan.tile_columns;
    return {intersection({down * tile.m, tile.m}, {0, m}),
            intersection({across * tile.n, tile.n}, {0, n})};
  }
  static std::uint64_t last_of(Range range) { return range.first + range.count - 1; }

  double element(const io::Matrix& matrix, std::uint64_t row, std::uint64_t column) const {
    std::byte bytes[sizeof(double)];
    matrix.read({row, 1}, {column, 1}, bytes, sizeof(bytes));
    if (type_ == ElementType::f64) return std::bit_cast<double>(bytes);
    float value = 0;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  double with_flipped(double value, unsigned bit) const {
    if (type_ == ElementType::f64) {
      return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ std::uint64_t{1} << bit);
    }
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return std::bit_cast<float>(bits ^ std::uint32_t{1} << bit);
  }

  const ElementType type_ =
      GetParam() == gemm::Precision::fp64 ? ElementType::f64 : ElementType::f32;
  const std::uint64_t element_ = size_of(type_);
  const Options options_ = options();
  Log log_;
  Faults faults_;
  runtime::Runtime runtime_{session(), options_, log_};
  GemmOperands operands_;
  GemmPlan plan_;
  std::optional<GemmProduct> product_;
  int last_with_tiles_ = -1;
};

TEST_P(GemmFaults, NoneIsSeenWhereThereIsNone) {
  ASSERT_EQ(plan_.super_tiles(), 1U);
  ASSERT_EQ(plan_.blocks, 3U);
  ASSERT_EQ(plan_.tile_rows, 2U);
  ASSERT_EQ(plan_.tile_columns, 2U);
  ASSERT_GE(last_with_tiles_, 0);
  const GemmVerdict first = run();
  EXPECT_EQ(first.failure, "");
  EXPECT_LT(first.worst, 1);
  EXPECT_EQ(first.unchecked, 0U);
  // What faults are placed by
  EXPECT_EQ(faults_.uploaded, product_->uploaded());
  EXPECT_EQ(faults_.checks, plan_.rows.count * plan_.tile_columns);
  EXPECT_EQ(faults_.gathers, session().size() == 1 ? 0 : 2 * plan_.blocks);
  std::uint64_t rows = 0;
  for (std::uint64_t tile = 0; tile < faults_.checks; ++tile) {
    rows += place(plan_, tile).rows.count;
  }
  EXPECT_EQ(faults_.downloaded, rows * plan_.problem.tile.n * element_);

  // A fault leaves nothing behind.
  const Faults fault{.upload = Flip{0, 0}};
  EXPECT_NE(failure_with(fault, 0), "");
  const GemmVerdict again = run();
  EXPECT_EQ(again.failure, "");
  EXPECT_EQ(again.checksum, first.checksum);
}

TEST_P(GemmFaults, APanelThatArrivesOtherwiseIsNamed) {
  const gemm::Tile& tile = plan_.problem.tile;
  // In each block a rank's rows of A go first.
  const auto expect_named = [&](int where, std::uint64_t block, bool of_a, bool at_end) {
    const GemmPlan plan = plan_of(where);
    const std::uint64_t a = plan.rows.count * tile.m * tile.k * element_;
    const std::uint64_t b = plan.part_rows * plan.tile_columns * tile.n * element_;
    const std::uint64_t start = block * (a + b) + (of_a ? 0 : a);
    const std::uint64_t byte = at_end ? start + (of_a ? a : b) - 1 : start;
    EXPECT_EQ(failure_with({.upload = Flip{byte, 0}}, where),
              fmt::format("the panels of block {} of K are not on the device as they were read on "
                          "rank {}",
                          block, where));
  };
  const std::uint64_t last = plan_.blocks - 1;
  expect_named(0, 0, true, false);
  expect_named(last_with_tiles_, last, true, true);
  expect_named(0, 0, false, false);
  expect_named(session().size() - 1, last, false, true);  // perhaps of a rank without tiles
}

/// An element of B that another rank has given, in the middle block.
TEST_P(GemmFaults, WhatIsGatheredOtherwiseMakesRowsWrong) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  const int where = last_with_tiles_, giver = (where + 1) % session().size();
  const std::uint64_t block = 1, column = n - 1;
  const std::uint64_t columns = plan_.tile_columns * plan_.problem.tile.n;
  const GemmPlan givers = plan_of(giver);
  const Range given = givers.b_rows(block);
  ASSERT_GT(given.count, 0U);
  const std::uint64_t row = last_of(given);
  const std::uint64_t panel_row =
      static_cast<std::uint64_t>(giver) * givers.part_rows + given.count - 1;
  const Place hit = place(plan_of(where), plan_.tile_columns - 1);

  const double caught = session().max(run().smallest_caught);
  std::vector<double> factors;  // of that row of B, for the rows of C in the tile
  for (std::uint64_t i = 0; i < hit.rows.count; ++i) {
    factors.push_back(element(*operands_.a, hit.rows.first + i, row));
  }
  const double b = element(*operands_.b, row, column);
  const auto rows_caught = [&](unsigned bit) {
    const double change = std::abs(with_flipped(b, bit) - b);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(factors, [&](double a) { return a * change > caught; }));
  };
  const auto bits = static_cast<unsigned>(8 * element_);
  unsigned lowest = 0;
  while (lowest < bits && rows_caught(lowest) == 0) ++lowest;
  // The lowest bit that the check must not miss, the exponent's highest, the sign
  for (const unsigned bit : {lowest, bits - 2, bits - 1}) {
    ASSERT_GT(rows_caught(bit), 0U) << bit;
    const Flip flip{(panel_row * columns + column) * element_ + bit / 8, bit % 8};
    const std::string failure = failure_with({.gather = Faults::Gather{2 * block, flip}}, where);
    ASSERT_NE(failure.find(fmt::format(" rows of C in columns {} to {} are wrong, the worst of "
                                       "them row ",
                                       hit.columns.first, last_of(hit.columns))),
              std::string::npos)
        << bit << ": " << failure;
    EXPECT_GE(std::stoull(failure), rows_caught(bit)) << failure;
    EXPECT_LE(std::stoull(failure), hit.rows.count) << failure;
  }
}

/// What C is compared with is gathered too, of each row of B a sum for every column of tiles, then
/// the squares that the bound is made of.
TEST_P(GemmFaults, WhatTheCheckGoesByIsGatheredToo) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  const int where = last_with_tiles_, giver = (where + 1) % session().size();
  const std::uint64_t block = 1, tiles = plan_.tile_columns;
  const std::uint64_t of_row = static_cast<std::uint64_t>(giver) * plan_.part_rows * 2 * tiles;
  const auto fault = [&](std::uint64_t index, unsigned bit) {
    return Faults{.gather = Faults::Gather{2 * block + 1,
                                           {(of_row + index) * sizeof(double) + bit / 8, bit % 8}}};
  };
  const Place hit = place(plan_of(where), 0);
  const std::string failure = failure_with(fault(0, 63), where);
  EXPECT_NE(failure.find(fmt::format(" rows of C in columns {} to {} are wrong", hit.columns.first,
                                     last_of(hit.columns))),
            std::string::npos)
      << failure;

  // Squares that are 2^64 times too large: C is right, but the check is worth little and says so.
  const double caught = session().max(run().smallest_caught);
  const GemmVerdict blind = run(fault(tiles, 58), where);
  EXPECT_EQ(failure_of(blind, where), "");
  EXPECT_GT(session().max(blind.smallest_caught), 1e6 * caught);
}

TEST_P(GemmFaults, AWrongElementIsCaughtFromTheSizeThatIsPromised) {
  const int where = last_with_tiles_;
  const GemmPlan plan = plan_of(where);
  const bool here = session().rank() == where;
  const double caught = session().max(here ? run().smallest_caught : (run(), 0.0));
  ASSERT_GT(caught, 0);
  for (const std::uint64_t tile : {std::uint64_t{0}, plan.rows.count * plan.tile_columns - 1}) {
    const Place all = place(plan, tile);
    const bool first = tile == 0;
    const std::uint64_t row = first ? all.rows.first : last_of(all.rows);
    const auto changed_by = [&](double amount) {
      return Faults{.change = Faults::Change{tile, row - all.rows.first,
                                             first ? 0 : all.columns.count - 1, amount}};
    };
    for (const double factor : {2.0, -1.01}) {
      const std::string failure = failure_with(changed_by(factor * caught), where);
      const std::string expected =
          fmt::format("1 rows of C in columns {} to {} are wrong, the worst of them row {} (",
                      all.columns.first, last_of(all.columns), row);
      EXPECT_TRUE(failure.starts_with(expected)) << failure << "; not " << expected;
    }
    // A tenth of the bound is within the rounding errors that are allowed for.
    EXPECT_EQ(failure_with(changed_by(caught / 2 / 10), where), "");
  }
}

TEST_P(GemmFaults, ATileThatComesToTheHostOtherwiseIsNamed) {
  const int where = last_with_tiles_;
  const GemmPlan plan = plan_of(where);
  const std::uint64_t tiles = plan.rows.count * plan.tile_columns;
  const std::uint64_t row_bytes = plan.problem.tile.n * element_;
  std::uint64_t start = 0;
  for (std::uint64_t tile = 0; tile < tiles; ++tile) {
    const Place all = place(plan, tile);
    const std::uint64_t end =
        start + (all.rows.count - 1) * row_bytes + all.columns.count * element_;
    for (const std::uint64_t byte : {start, end - 1}) {
      EXPECT_EQ(failure_with({.download = Flip{byte, 0}}, where),
                fmt::format("rows {} to {} of C came to the host otherwise than they left the "
                            "device",
                            all.rows.first, last_of(all.rows)));
    }
    start += all.rows.count * row_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(In, GemmFaults,
                         testing::Values(gemm::Precision::fp32, gemm::Precision::fp64),
                         [](const auto& tested) {
                           return std::string(gemm::name_of(tested.param));
                         });

}  // namespace
}  // namespace shardstream::workloads
