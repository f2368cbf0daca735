// A matrix product with faults in its transfers and messages.
#pragma once

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
#include "support/matrices.hpp"
#include "support/session.hpp"
#include "support/temporary_folder.hpp"
#include "workloads/product/engine/engine.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {

using test::Faults;
using test::Flip;
using test::names;
using test::session;

struct Sizes {
  std::uint64_t m, n, k;
  bool has_lanes = false;  ///< in the precisions that have lanes
};
// Two rows and two columns of tiles and at least three blocks of K in one super-tile. The first
// blocks are shallow, except with fp32x3. The last of three ranks has no rows of C, and the last
// row of its part of B is padding.
inline constexpr Sizes usual = {184, 176, 1344};
// K has four segments, and C has two tiles.
inline constexpr Sizes deep = {184, 70, 1500};
// The same with two columns of tiles, and with four tiles.
inline constexpr Sizes deep_flat = {70, 184, 1500}, deep_square = {184, 184, 1500};
// One tile, whose blocks of K have lanes.
inline constexpr Sizes small_deep = {90, 70, 1500, true};
// Three rows of tiles; six tiles are computed.
inline constexpr Sizes square = {210, 210, 150};
// For products of residues: two rows and two columns of tiles, three blocks in two segments.
inline constexpr Sizes few_lines = {40, 30, gemm::max_residue_k + 64};

/// Each rank is a layer of its own.
inline Box layers_alone() {
  return {1, 1, static_cast<std::uint64_t>(session().size())};
}

/// The downloads of a rank. For each tile in turn: its mirror, the device's verdict, the sums of
/// scaled variables and of their squares, the tile itself. After the last tile: the checksums of
/// all batches.
struct Download {
  enum class Of { mirror, report, variables, tile, sums } of;
  TileIndex tile;
  std::uint64_t start, rows, row_bytes;

  std::uint64_t end() const { return start + rows * row_bytes; }
};

/// Small tiles and shallow blocks, so that small products have several. Products of residues have
/// smaller tiles. Their blocks are deeper, since K has a segment for each max_residue_k.
inline gemm::Tile tile_of(const Sizes& sizes, gemm::Precision precision) {
  gemm::Tile tile = gemm::tile_for(sizes.m, sizes.n, sizes.k, precision, Backend::host);
  const bool has_residues = gemm::multiplies_residues(precision);
  const std::uint64_t max_edge = has_residues ? 24 : 96, max_depth = has_residues ? 2752 : 448;
  tile.m = gemm::equal_edge(sizes.m, max_edge, 8, 2);
  tile.n = gemm::equal_edge(sizes.n, max_edge, 8, 2);
  tile.k = std::min(tile.k, gemm::equal_edge(sizes.k, max_depth, 64, 1));
  if (!sizes.has_lanes) tile.lanes = 1;
  return tile;
}

/// C is compared with exact integers.
inline bool is_exact(gemm::Precision precision) {
  return precision == gemm::Precision::int8;
}

class ProductFaults : public testing::TestWithParam<gemm::Precision> {
 protected:
  ProductFaults() {
    runtime_.device = std::make_unique<test::SpoilingDevice>(std::move(runtime_.device), faults_);
    runtime_.communicator =
        std::make_unique<test::SpoilingCommunicator>(std::move(runtime_.communicator), faults_);
  }

  /// Prepares another product. A symmetric product stores C, so that mirrors leave the device; with
  /// `scale`, the diagonal of C is ones.
  void multiply(const Sizes& sizes, Decomposition decomposition = Decomposition::rows,
                bool symmetric = false, io::Journal* journal = nullptr,
                const std::optional<Box>& box = std::nullopt, bool scale = false) {
    product_.reset();
    const auto matrix = [&](std::uint64_t rows, std::uint64_t columns, std::uint64_t seed) {
      return test::matrix_of(std::make_unique<io::GeneratorSource>(
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
    const gemm::Tile tile = tile_of(sizes, GetParam());
    problem_ = {.m = sizes.m,
                .n = sizes.n,
                .k = sizes.k,
                .precision = GetParam(),
                .a = uploaded_operand(operands_, gemm::Side::a, tile, Backend::host),
                .b = uploaded_operand(operands_, gemm::Side::b, tile, Backend::host),
                .stores_c = symmetric,
                .symmetric = symmetric,
                .tile = tile,
                .requested = {decomposition, box},
                .ranks = {.count = static_cast<std::uint64_t>(session().size()),
                          .device_memory = std::uint64_t{1} << 30,
                          .backend = Backend::host}};
    plan_ = plan_of(session().rank());
    library_ = gemm::make_multiply_plan(GetParam(), problem_.tile, Backend::host);
    to_.clear();
    if (symmetric) {
      const std::string file = folder_ / "C";
      std::ofstream(file).close();
      to_.emplace_back(file, 0, gemm::accumulator_type(GetParam()), sizes.n);
    }
    product_.emplace(runtime_, operands_, plan_, *library_,
                     pipeline::staging_sizes(runtime_.options, runtime_.resources), to_, journal);
    product_->load();
    if (scale) {
      samples_ = all_samples(operands_);
      product_->normalize({.shift = {}, .scale = scales(), .samples = &samples_});
    }
    last_with_tiles_ =
        static_cast<int>(session().max(owned(plan_).empty() ? -1 : session().rank()));
    ASSERT_EQ(plan_.super_tiles(), 1U);
    ASSERT_GE(last_with_tiles_, 0);
  }

  void multiply_in(const Box& box, const Sizes& sizes, bool symmetric = false) {
    multiply(sizes, Decomposition::automatic, symmetric, nullptr, box);
    ASSERT_EQ(plan_.shape.box, box);
  }

  /// The factors that make the sum of squares of each row of A equal to 1.
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
  CheckSummary run(const Faults& faults = {}, int where = 0) {
    const bool here = session().rank() == where;
    faults_ = here ? faults : Faults{};
    product_->run();
    const bool wanted = here && (faults.upload || faults.download || faults.gather ||
                                 faults.exchange || faults.residues || faults.change);
    EXPECT_EQ(faults_.placed, wanted ? 1U : 0U);
    return product_->checks();
  }
  /// The threshold of rank `where` in a run without faults. Collective.
  double detection_threshold(int where) {
    const double caught = run().detection_threshold;
    return session().max(session().rank() == where ? caught : 0);
  }

  /// Nobody but `where` sees anything wrong; that rank says what is returned, on every rank.
  std::string failure_of(const CheckSummary& verdict, int where) const {
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
      const TileRanges place = place_of(tile);
      if (has_mirror(tile)) add(Of::mirror, tile, place.columns.count, row);
      add(Of::report, tile, 1, sizeof(gemm::TileVerdict) + 5 * sizeof(std::uint64_t));
      for (int i = 0; i < 2 && operands_.scale && tile.row == tile.column; ++i) {
        add(Of::variables, tile, place.rows.count, sizeof(double));
      }
      add(Of::tile, tile, place.rows.count, row);
    }
    add(Of::sums, {}, plan.part.blocks.count, plan.shape.batch_checksums() * sizeof(std::uint64_t));
    return all;
  }

  /// A tile as C's rows and columns.
  struct TileRanges {
    Range rows, columns;
  };
  TileRanges place_of(TileIndex tile) const {
    return {elements_of({tile.row, 1}, problem_.tile.m, problem_.m),
            elements_of({tile.column, 1}, problem_.tile.n, problem_.n)};
  }
  static std::uint64_t last_of(Range range) { return range.first + range.count - 1; }
  static std::string columns_of(const TileRanges& place) {
    return fmt::format("columns {} to {}", place.columns.first, last_of(place.columns));
  }
  /// How many rows of C a failure counts as wrong.
  static std::uint64_t wrong_rows(const std::string& failure) {
    std::smatch match;
    const std::regex count("(\\d+) rows? of C\\b");
    return std::regex_search(failure, match, count) ? std::stoull(match[1]) : 0;
  }
  static void expect_wrong_row(const std::string& failure, const TileRanges& place,
                               std::uint64_t row) {
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
  /// An element of a panel, a double or a float, with one bit changed.
  double with_flipped(double value, unsigned bit) const {
    if (panel_element_ == sizeof(double)) {
      return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ std::uint64_t{1} << bit);
    }
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return std::bit_cast<float>(bits ^ std::uint32_t{1} << bit);
  }

  void expect_uploads_to_be_checked();
  void expect_error_to_be_caught();
  void expect_gathered_b_to_be_checked(std::uint64_t gathers_a_block);
  void expect_gathered_a_to_be_checked(int where);
  void expect_exchanged_to_be_checked(int where);

  const ElementType type_ = gemm::traits_of(GetParam()).generated;
  const std::uint64_t panel_element_ = gemm::panel_element_bytes(GetParam(), Backend::host);
  const std::uint64_t c_element_ = gemm::accumulator_bytes(GetParam());
  const test::TemporaryFolder folder_;
  // One reader, so that pieces go up in their order; several of them in a batch.
  Options options_ = test::host_options(1);
  Log log_;
  Faults faults_;
  runtime::Runtime runtime_{session(), options_, log_};
  Operands operands_;
  Samples samples_;
  Problem problem_;
  Plan plan_;
  std::unique_ptr<gemm::MultiplyPlan> library_;
  std::vector<io::RangeWriter> to_;
  std::optional<Engine> product_;
  int last_with_tiles_ = -1;
};

}  // namespace shardstream::workloads::product
