// A matrix product with one fault in it says so and names the place; without one it says nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "io/source/generator_source.hpp"
#include "mpi/faulty_backend.hpp"
#include "mpi/host_options.hpp"
#include "support/errors.hpp"
#include "support/session.hpp"
#include "support/temporary_folder.hpp"
#include "workloads/product/engine/engine.hpp"

namespace shardstream::workloads::product {
namespace {

using test::Faults;
using test::Flip;
using test::names;
using test::session;

struct Sizes {
  std::uint64_t m, n, k;
};
// Two rows and two columns of tiles, three blocks of K or more, which begin shallow but for int8
// and fp32x3, all in one super-tile. Of three ranks the last has no rows of C, and the last row of
// its part of B is padding.
constexpr Sizes usual = {800, 790, 4224};
// K has four segments, C two tiles.
constexpr Sizes deep = {800, 70, 6500};
// The same with two columns of tiles, and with four tiles.
constexpr Sizes deep_flat = {70, 800, 6500}, deep_square = {800, 800, 6500};
// One tile, whose blocks of K have lanes.
constexpr Sizes small_deep = {120, 70, 6500};
// Three rows of tiles, of which six are computed.
constexpr Sizes square = {1600, 1600, 150};

/// All ranks are layers of one.
Box layers_alone() {
  return {1, 1, static_cast<std::uint64_t>(session().size())};
}

/// What a rank downloads at once. The order: of each tile its mirror, what the device says of it,
/// and itself; behind the last tile the checksums of all batches.
struct Download {
  enum class Of { mirror, report, tile, sums } of;
  TileIndex tile;
  std::uint64_t start, rows, row_bytes;

  std::uint64_t end() const { return start + rows * row_bytes; }
};

/// Tiles of up to 768 x 768, so that each product here has few of them.
gemm::Tile tile_of(const Sizes& sizes, gemm::Precision precision) {
  gemm::Tile tile = gemm::tile_for(sizes.m, sizes.n, sizes.k, precision, Backend::host);
  tile.m = gemm::equal_edge(sizes.m, 768, 8, 2);
  tile.n = gemm::equal_edge(sizes.n, 768, 8, 2);
  return tile;
}

/// C is compared with whole numbers.
bool is_exact(gemm::Precision precision) {
  return precision == gemm::Precision::int8;
}

class ProductFaults : public testing::TestWithParam<gemm::Precision> {
 protected:
  ProductFaults() {
    runtime_.device = std::make_unique<test::SpoilingDevice>(std::move(runtime_.device), faults_);
    runtime_.communicator =
        std::make_unique<test::SpoilingCommunicator>(std::move(runtime_.communicator), faults_);
  }

  /// Prepares another product. Of a symmetric one C is stored, so that mirrors leave the device;
  /// with `scale` its diagonal is ones.
  void multiply(const Sizes& sizes, Decomposition decomposition = Decomposition::rows,
                bool symmetric = false, io::Journal* journal = nullptr,
                const std::optional<Box>& box = std::nullopt, bool scale = false) {
    product_.reset();
    const auto matrix = [&](std::uint64_t rows, std::uint64_t columns, std::uint64_t seed) {
      return std::make_unique<io::Matrix>(std::make_unique<io::GeneratorSource>(
          Generator::uniform, type_, std::vector{rows, columns}, seed));
    };
    operands_ = {};
    operands_.a = matrix(sizes.m, sizes.k, 1);
    operands_.b = symmetric ? matrix(sizes.m, sizes.k, 1) : matrix(sizes.k, sizes.n, 2);
    operands_.transpose_b = operands_.symmetric = symmetric;
    operands_.scale = scale;
    operands_.precision = GetParam();
    operands_.m = sizes.m;
    operands_.n = sizes.n;
    operands_.k = sizes.k;
    problem_ = {.m = sizes.m,
                .n = sizes.n,
                .k = sizes.k,
                .precision = GetParam(),
                .a = uploaded_operand(operands_, gemm::Side::a, Backend::host),
                .b = uploaded_operand(operands_, gemm::Side::b, Backend::host),
                .stores_c = symmetric,
                .symmetric = symmetric,
                .tile = tile_of(sizes, GetParam()),
                .requested = {decomposition, box},
                .ranks = {.count = static_cast<std::uint64_t>(session().size()),
                          .device_memory = std::uint64_t{1} << 30,
                          .backend = Backend::host}};
    plan_ = plan_of(session().rank());
    library_ = gemm::make_multiply_plan(GetParam(), problem_.tile, Backend::host);
    to_.reset();
    if (symmetric) {
      const std::string file = folder_ / "C";
      std::ofstream(file).close();
      to_.emplace(file, 0, gemm::accumulator_type(GetParam()), sizes.n);
    }
    product_.emplace(runtime_, operands_, plan_, *library_,
                     pipeline::staging_sizes(runtime_.options, runtime_.resources),
                     to_ ? &*to_ : nullptr, journal);
    if (scale) product_->normalize({.shift = {}, .scale = scales()});
    last_with_tiles_ =
        static_cast<int>(session().max(owned(plan_).empty() ? -1 : session().rank()));
    ASSERT_EQ(plan_.super_tiles(), 1U);
    ASSERT_GE(last_with_tiles_, 0);
  }

  void multiply_in(const Box& box, const Sizes& sizes, bool symmetric = false) {
    multiply(sizes, Decomposition::automatic, symmetric, nullptr, box);
    ASSERT_EQ(plan_.shape.box, box);
  }

  /// Of each row of A, what makes the sum of its squares 1.
  std::vector<double> scales() const {
    std::vector<double> scales;
    for (std::uint64_t row = 0; row < operands_.m; ++row) {
      double squares = 0;
      for (std::uint64_t k = 0; k < operands_.k; ++k)
        squares += std::pow(element(*operands_.a, row, k), 2);
      scales.push_back(1 / std::sqrt(squares));
    }
    return scales;
  }

  /// With these rates nothing is gained by a second super-tile.
  Plan plan_of(int rank) const {
    return make_plan(problem_, {.link_up = 1e9, .link_down = 1e15, .gather = 1e15, .flops = 1e18},
                     static_cast<std::uint64_t>(rank));
  }

  /// A run with these faults on rank `where`, without any on the others; what this rank says of it.
  Verdict run(const Faults& faults = {}, int where = 0) {
    const bool here = session().rank() == where;
    faults_ = here ? faults : Faults{};
    product_->run();
    const bool wanted = here && (faults.upload || faults.download || faults.gather ||
                                 faults.exchange || faults.change);
    EXPECT_EQ(faults_.placed, wanted ? 1U : 0U);
    return product_->verdict();
  }
  /// Of a run without faults, on rank `where`.
  double detection_threshold(int where) {
    const double caught = run().detection_threshold;
    return session().max(session().rank() == where ? caught : 0);
  }

  /// Nobody but `where` sees anything wrong; that rank says what is returned, on every rank.
  std::string failure_of(const Verdict& verdict, int where) const {
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

  /// The tiles that a rank checks and downloads, in this order.
  static std::vector<TileIndex> owned(const Plan& plan) {
    const std::vector<TileIndex> all = plan.shape.tiles(plan.super_tile(0));
    std::vector<TileIndex> mine;
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      if (plan.owns(i)) mine.push_back(all[i]);
    }
    return mine;
  }
  /// All-gathers that a batch has: of B's parts and their sums, if only of nothing; of A's parts
  /// and theirs where there are rows.
  static std::uint64_t gathers_a_batch(const Plan& plan) {
    const bool has_a = plan.super_tile(0).rows.count > 0;
    const bool sums_b = plan.problem().symmetric && plan.super_tile(0).columns.count > 0;
    const std::uint64_t of_b = sums_b ? 3 : 2;
    return (plan.shape.box.rows > 1 ? of_b : 0) + (plan.shape.box.columns > 1 && has_a ? 2 : 0);
  }
  bool has_mirror(TileIndex tile) const { return operands_.symmetric && tile.row != tile.column; }
  std::vector<Download> downloads(const Plan& plan) const {
    using Of = Download::Of;
    const std::uint64_t row = problem_.tile.n * gemm::accumulator_bytes(GetParam());
    std::vector<Download> all;
    const auto add = [&](Of of, TileIndex tile, std::uint64_t rows, std::uint64_t row_bytes) {
      all.push_back({of, tile, all.empty() ? 0 : all.back().end(), rows, row_bytes});
    };
    for (const TileIndex tile : owned(plan)) {
      const Place place = place_of(tile);
      if (has_mirror(tile)) add(Of::mirror, tile, place.columns.count, row);
      add(Of::report, tile, 1, sizeof(gemm::TileVerdict) + 3 * sizeof(std::uint64_t));
      add(Of::tile, tile, place.rows.count, row);
    }
    add(Of::sums, {}, plan.part.blocks.count, plan.shape.batch_checksums() * sizeof(std::uint64_t));
    return all;
  }

  /// A tile as C's rows and columns.
  struct Place {
    Range rows, columns;
  };
  Place place_of(TileIndex tile) const {
    return {elements_of({tile.row, 1}, problem_.tile.m, problem_.m),
            elements_of({tile.column, 1}, problem_.tile.n, problem_.n)};
  }
  static std::uint64_t last_of(Range range) { return range.first + range.count - 1; }
  static std::string columns_of(const Place& place) {
    return fmt::format("columns {} to {}", place.columns.first, last_of(place.columns));
  }
  /// How many rows of C a failure counts as wrong.
  static std::uint64_t wrong_rows(const std::string& failure) {
    std::smatch match;
    const std::regex count("(\\d+) rows? of C\\b");
    return std::regex_search(failure, match, count) ? std::stoull(match[1]) : 0;
  }
  static void expect_wrong_row(const std::string& failure, const Place& place, std::uint64_t row) {
    EXPECT_EQ(wrong_rows(failure), 1U) << failure;
    EXPECT_TRUE(names(failure, columns_of(place), fmt::format("row {}", row)));
  }

  double element(const io::Matrix& matrix, std::uint64_t row, std::uint64_t column) const {
    std::byte bytes[sizeof(double)];
    matrix.read({row, 1}, {column, 1}, bytes, sizeof(bytes));
    return with_element_type(type_, [&](auto of) {
      typename decltype(of)::type value = 0;
      std::memcpy(&value, bytes, sizeof(value));
      return static_cast<double>(value);
    });
  }
  /// Of a panel, whose elements are doubles or floats.
  double with_flipped(double value, unsigned bit) const {
    if (GetParam() == gemm::Precision::fp64) {
      return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ std::uint64_t{1} << bit);
    }
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return std::bit_cast<float>(bits ^ std::uint32_t{1} << bit);
  }

  void expect_gathered_b_to_be_checked(std::uint64_t gathers_a_block);
  void expect_exchanged_to_be_checked(int where);

  const ElementType type_ = GetParam() == gemm::Precision::fp64   ? ElementType::f64
                            : GetParam() == gemm::Precision::int8 ? ElementType::i8
                                                                  : ElementType::f32;
  const std::uint64_t panel_element_ = gemm::panel_element_bytes(GetParam(), Backend::host);
  const std::uint64_t c_element_ = gemm::accumulator_bytes(GetParam());
  const test::TemporaryFolder folder_;
  // One reader, so that pieces go up in their order; several of them in a batch.
  const Options options_ = test::host_options(1);
  Log log_;
  Faults faults_;
  runtime::Runtime runtime_{session(), options_, log_};
  Operands operands_;
  Problem problem_;
  Plan plan_;
  std::unique_ptr<gemm::MultiplyPlan> library_;
  std::optional<io::RangeWriter> to_;
  std::optional<Engine> product_;
  int last_with_tiles_ = -1;
};

TEST_P(ProductFaults, RunsWithoutFaultsPass) {
  const auto expect_none = [&](std::uint64_t gathers, std::uint64_t exchanges) {
    const Verdict verdict = run();
    EXPECT_EQ(verdict.failure, "");
    EXPECT_LT(verdict.worst, 1);
    EXPECT_EQ(verdict.unchecked, 0U);
    // What faults are placed by
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
  const bool shallow = GetParam() != gemm::Precision::int8 && GetParam() != gemm::Precision::fp32x3;
  EXPECT_EQ(plan_.shape.begins_shallow, shallow);
  ASSERT_EQ(plan_.shape.tile_rows, 2U);
  ASSERT_EQ(plan_.shape.tile_columns, 2U);
  const std::uint64_t checksum = expect_none(2 * plan_.shape.blocks, 0);

  // A fault leaves nothing behind.
  EXPECT_NE(failure_with({.upload = Flip{0, 0}}, 0), "");
  const Verdict again = run();
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

/// Wherever its ranks stand, and where some of them are idle.
TEST_P(ProductFaults, RunsWithoutFaultsPassInAnyBox) {
  const auto ranks = static_cast<std::uint64_t>(session().size());
  const auto expect_none = [&](const Box& box, const Sizes& sizes, bool symmetric) {
    multiply_in(box, sizes, symmetric);
    const Verdict verdict = run();
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

TEST_P(ProductFaults, ACorruptedUploadNamesBlockAndRank) {
  multiply(usual);
  const gemm::Tile& tile = problem_.tile;
  // In each block a rank's rows of A go first.
  const auto expect_named = [&](int where, std::uint64_t block, bool of_a, bool at_end) {
    const Plan plan = plan_of(where);
    const std::uint64_t a_rows = plan.a_part(plan.super_tile(0)).rows.count;
    const auto of_a_bytes = [&](std::uint64_t each) {
      return a_rows * plan.shape.depth({each, 1}).count * problem_.a.element_bytes;
    };
    const auto of_b_bytes = [&](std::uint64_t each) {
      return plan.b_part(each).rows.count * plan.shape.tile_columns * tile.n *
             problem_.b.element_bytes;
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

/// An element of B that another rank of the grid column has given, in the middle block.
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
  const Place hit = place_of({super_tile.rows.first, super_tile.columns.end() - 1});
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

/// A's rows that other ranks have given: both sides of C's check go by them, so that they have one
/// of their own.
TEST_P(ProductFaults, GathersOfAInAGridAreChecked) {
  if (session().size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  multiply(usual, Decomposition::grid);
  const int where = last_with_tiles_;
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

/// What C is compared with is gathered too, of each row of B a sum for every column of tiles, then
/// the squares that the bound is made of.
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
  const Place hit = place_of(owned(plan_of(where)).front());
  const std::string failure = failure_with(fault(0, 63), where);
  EXPECT_TRUE(names(failure, columns_of(hit)));
  EXPECT_GE(wrong_rows(failure), 1U) << failure;

  // Squares that are 2^64 times too large: C is right, but the check is worth little and says so.
  // That of whole numbers goes by no squares.
  const double caught = session().max(run().detection_threshold);
  const Verdict blind = run(fault(tiles, 58), where);
  EXPECT_EQ(failure_of(blind, where), "");
  if (is_exact(GetParam())) {
    EXPECT_EQ(session().max(blind.detection_threshold), caught);
  } else {
    EXPECT_GT(session().max(blind.detection_threshold), 1e5 * caught);
  }
}

/// An element of another layer's sum over its part of K.
void ProductFaults::expect_exchanged_to_be_checked(int where) {
  const Plan plan = plan_of(where);
  if (owned(plan).empty()) return;
  const Box& box = plan.shape.box;
  const std::uint64_t giver = (plan.part.layer + box.depth - 1) % box.depth;
  const TreeNode node = plan_of(static_cast<int>(giver * box.layer())).part.nodes[0];
  const Place hit = place_of(owned(plan).front());
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
    const Place hit = place_of(tile);
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

TEST_P(ProductFaults, AWrongElementIsCaughtFromTheSizeThatIsPromised) {
  const auto expect_caught = [&] {
    const int where = last_with_tiles_;
    const std::vector<TileIndex> tiles = owned(plan_of(where));
    const double caught = detection_threshold(where);
    if (is_exact(GetParam())) {
      ASSERT_EQ(caught, 1);
    } else {
      ASSERT_GT(caught, 0);
    }
    for (const std::size_t tile : {std::size_t{0}, tiles.size() - 1}) {
      const Place all = place_of(tiles[tile]);
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
  };
  multiply(usual);
  expect_caught();
  multiply(square, Decomposition::rows, true);
  expect_caught();
  multiply_in(layers_alone(), deep);
  expect_caught();
}

/// Though it is set to ones, once it has been checked.
TEST_P(ProductFaults, AWrongDiagonalOfCorrelationsIsCaught) {
  if (is_exact(GetParam())) GTEST_SKIP() << "whole numbers are not scaled";
  multiply(square, Decomposition::rows, true, nullptr, std::nullopt, true);
  const int where = last_with_tiles_;
  const std::vector<TileIndex> tiles = owned(plan_of(where));
  const auto diagonal =
      std::ranges::find_if(tiles, [](const TileIndex& tile) { return tile.row == tile.column; });
  ASSERT_NE(diagonal, tiles.end());
  const Place all = place_of(*diagonal);
  const auto number = static_cast<std::uint64_t>(diagonal - tiles.begin());
  const double caught = detection_threshold(where);
  ASSERT_LT(caught, 0.01);
  for (const double factor : {2.0, -1.01}) {
    const std::string failure =
        failure_with({.change = Faults::Change{number, 7, 7, factor * caught}}, where);
    expect_wrong_row(failure, all, all.rows.first + 7);
  }
}

TEST_P(ProductFaults, ACorruptedDownloadNamesItsRows) {
  const auto expect_named = [&] {
    const int where = last_with_tiles_;
    for (const Download& one : downloads(plan_of(where))) {
      if (one.of != Download::Of::tile && one.of != Download::Of::mirror) continue;
      const Place place = place_of(one.tile);
      const auto [rows, columns] = one.of == Download::Of::tile
                                       ? place
                                       : Place{.rows = place.columns, .columns = place.rows};
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

/// What the device says of tiles and panels may be spoilt as well: then more seems wrong than is.
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

/// A symmetric product's A is made of the gathered B, so that a wrong element is on both sides of
/// C's check. As small as it may be.
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

/// Else a resumed run would take it over.
TEST_P(ProductFaults, WrongTilesAreNotInTheCheckpoint) {
  const auto journal_with = [&](const Faults& faults, const std::string& uuid) {
    io::Journal journal(folder_ / "C.h5", uuid, 0, 1, nullptr, log_, [] {});
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
                           return std::string(gemm::name_of(tested.param));
                         });

}  // namespace
}  // namespace shardstream::workloads::product
