#include "workloads/product/engine/host_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/text.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "workloads/product/data/elements.hpp"
#include "workloads/product/engine/normalization/variable_statistics.hpp"

namespace shardstream::workloads::product {

HostTiles::HostTiles(const Operands& operands, const Plan& plan,
                     std::span<const io::RangeWriter> to, io::Journal* journal)
    : operands_(operands),
      plan_(plan),
      to_(to),
      journal_(journal),
      type_(gemm::accumulator_type(operands.precision)),
      row_bytes_(plan.problem().tile.n * gemm::accumulator_bytes(operands.precision)),
      results_(plan.problem().moments.results()),
      tiles_(plan.numbered_tiles()),
      groups_(plan.super_tiles()) {
  for (Group& group : groups_) {
    group.checksums.resize(plan.part.blocks.count * plan.shape.batch_checksums());
  }
}

void HostTiles::begin(const Normalization& normalization, Progress& progress) {
  normalization_ = &normalization;
  progress_ = &progress;
  ++runs_;
  for (Tile& tile : tiles_) {
    tile.present = false;
    tile.c0_is_finite = true;
    tile.words = tile.mirror_words = tile.weighted = tile.infinite = 0;
    tile.sums.begin();
    tile.c_words = 0;
    tile.counts = {};
  }
  for (std::uint64_t number = 0; number < groups_.size(); ++number) {
    groups_[number].failure.clear();
    // Idle ranks have no panels that could be wrong, and do not expect groups.
    if (plan_.part.idle) add_group(number);
  }
}

HostTiles::Tile& HostTiles::expect(TileIndex at, std::uint64_t group, std::uint64_t products,
                                   const DeviceSums& sums) {
  const gemm::Tile& edges = plan_.problem().tile;
  Tile& tile = tiles_[plan_.number_of(at)];
  tile.number = at.row * plan_.shape.tile_columns + at.column;
  tile.group = group;
  tile.rows = elements_of({at.row, 1}, edges.m, operands_.m);
  tile.columns = elements_of({at.column, 1}, edges.n, operands_.n);
  tile.present = true;
  tile.products = products;
  tile.mirrored = operands_.symmetric && at.row != at.column;
  for (std::uint64_t i = 0; i < results_; ++i) tile.row_squares[i].resize(tile.rows.count);
  const bool counts_variables = operands_.pairwise() && !operands_.normalizes() && !tile.mirrored;
  tile.variables.assign(counts_variables ? tile.rows.count : 0, {});
  tile.missing = results_ * (tile.rows.count + (stores_mirror(tile) ? tile.columns.count : 0)) + 1 +
                 (has_sums(tile) ? sums.doubles(tile.rows.count) : 0);
  return tile;
}

HostTiles::Group& HostTiles::expect_group(std::uint64_t number, bool settles) {
  Group& group = groups_[number];
  group.unsettled = 0;
  group.missing = plan_.part.blocks.count + (settles ? 1 : 0);
  return group;
}

void HostTiles::take(Tile& tile, Range rows, const std::byte* data) {
  const Range of_c{tile.rows.first + rows.first, rows.count};
  if (!to_.empty()) to_[0].write(of_c, tile.columns, data, row_bytes_);
  std::uint64_t words = 0, weighted = 0;
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    const std::byte* const elements = data + i * row_bytes_;
    const gemm::RowChecksums sums =
        gemm::row_checksums(type_, elements, tile.columns.count, plan_.problem().tile.n);
    const std::uint64_t row = of_c.first + i;
    words += sums.words;
    weighted += checksum_of(tile, sums, row);
    const bool skips_nan = std::isnan(sums.squares) && operands_.may_lack_elements();
    tile.row_squares[0][rows.first + i] =
        skips_nan ? squares_of_numbers(type_, elements, tile.columns.count) : sums.squares;
    if (!std::isfinite(sums.squares) && overflows(tile, row, elements)) ++tile.infinite;
  }
  tile.words += words;
  tile.weighted += weighted;
  complete(tile, rows.count);
}

/// The contribution of the part of row `row` of a matrix in this tile to the checksum of the
/// matrix, with that of the mirror.
std::uint64_t HostTiles::checksum_of(const Tile& tile, const gemm::RowChecksums& sums,
                                     std::uint64_t row) const {
  const std::uint64_t column = tile.columns.first;
  const std::uint64_t checksum = sums.matrix_checksum(row * operands_.n + column);
  if (!tile.mirrored) return checksum;
  return checksum + sums.matrix_checksum(column * operands_.n + row, operands_.n);
}

void HostTiles::take_counts(Tile& tile, Range rows, const std::byte* data) {
  const Range of_n{tile.rows.first + rows.first, rows.count};
  if (!to_.empty()) to_[1].write(of_n, tile.columns, data, row_bytes_);
  const ElementType type = count_type(type_);
  std::uint64_t words = 0;
  PairCounts found;
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    const std::byte* const counts = data + i * row_bytes_;
    const gemm::RowChecksums sums =
        gemm::row_checksums(type, counts, tile.columns.count, plan_.problem().tile.n);
    words += sums.words;
    found.weighted += checksum_of(tile, sums, of_n.first + i);
    found.add(counts_of_row(type, counts, of_n.first + i, tile.columns, !tile.mirrored));
    tile.row_squares[1][rows.first + i] = sums.squares;
    if (tile.mirrored || operands_.normalizes()) continue;
    const std::uint64_t own = count_at(type, counts, of_n.first + i - tile.columns.first);
    tile.variables[rows.first + i] = {.mean = unknown, .deviation = unknown, .count = own};
  }
  tile.words += words;
  {
    const std::lock_guard lock(counts_mutex_);
    tile.counts.add(found);
  }
  complete(tile, rows.count);
}

/// Whether a row of C in this tile is not finite, and neither C0 nor a lack of samples is the
/// cause.
bool HostTiles::overflows(Tile& tile, std::uint64_t row, const std::byte* data) const {
  const std::uint64_t columns = tile.columns.count;
  const NanElements nan =
      operands_.may_lack_elements() ? NanElements::are_skipped : NanElements::count;
  if (are_finite(type_, data, columns, nan) || !tile.c0_is_finite) return false;
  if (!operands_.c) return true;
  const ElementType type = operands_.c->type();
  std::vector<std::byte> stored(columns * size_of(type));
  operands_.c->read({row, 1}, tile.columns, stored.data(), stored.size());
  tile.c0_is_finite = are_finite(type, stored.data(), columns, NanElements::count);
  return tile.c0_is_finite;
}

void HostTiles::take_mirror(Tile& tile, std::uint64_t result, Range rows, const std::byte* data) {
  to_[result].write({tile.columns.first + rows.first, rows.count}, tile.rows, data, row_bytes_);
  tile.mirror_words += gemm::word_checksum(data, rows.count * row_bytes_);
  complete(tile, rows.count);
}

void HostTiles::complete(Tile& tile, std::uint64_t parts) {
  if ((tile.missing -= parts) > 0) return;
  for (std::uint64_t i = 0; i < results_; ++i) {
    std::vector<double>& rows = tile.row_squares[i];
    tile.squares[i] = std::accumulate(rows.begin(), rows.end(), 0.0) * (tile.mirrored ? 2 : 1);
    rows = {};
  }
  if (operands_.normalizes()) {
    tile.variables = statistics_of(operands_, *normalization_, tile.sums.of(tile.rows.first));
  }
  progress_->add(static_cast<double>(tile.products));
  if (journal_ != nullptr && failure(tile).empty())
    journal_->add(piece_of(finished(tile), journal_group(tile.group)));
}

void HostTiles::complete(Group& group, const Panels& panels, std::uint64_t parts) {
  if ((group.missing -= parts) > 0) return;
  const auto number = static_cast<std::uint64_t>(&group - groups_.data());
  const std::uint64_t blocks = plan_.part.blocks.count;
  group.failure = panels.failure({number * blocks, blocks}, group.checksums.data());
  if (group.failure.empty() && group.unsettled == 0) add_group(number);
}

void HostTiles::add_group(std::uint64_t number) {
  if (journal_ != nullptr && !normalization_->is_provisional)
    journal_->add_group(journal_group(number));
}

/// The number of a super-tile in the journal. Each pass over the data has its own numbers, since a
/// tile of an earlier pass may have other elements, and does not count after a later pass.
std::uint64_t HostTiles::journal_group(std::uint64_t number) const {
  return (runs_ - 1) * groups_.size() + number;
}

FinishedTile HostTiles::finished(const Tile& tile) const {
  const TileReport& report = tile.report;
  const gemm::TileVerdict& verdict = report.verdict;
  const bool pairwise = operands_.pairwise();
  const std::uint64_t infinite = tile.infinite;  // unchecked rows that are not finite count, too
  return {.tile = tile.number,
          .weighted = tile.weighted,
          .squares = tile.squares[0],
          .worst = verdict.worst,
          .detection_threshold = verdict.detection_threshold * (pairwise ? report.sensitivity : 1),
          .unchecked = verdict.unchecked,
          .overflowed = verdict.overflowed,
          .infinite = infinite > verdict.unchecked ? infinite - verdict.unchecked : 0,
          .counts = tile.counts,
          .counts_squares = tile.squares[1],
          .variables = tile.variables};
}

std::string HostTiles::failure(const Tile& tile) const {
  const gemm::TileVerdict& verdict = tile.report.verdict;
  const auto last = [](Range range) { return range.end() - 1; };
  if (verdict.failures > 0) {
    return fmt::format(
        "{} of C in columns {} to {} {} wrong; the worst is row {} (max_error {:.3g})",
        counted(verdict.failures, "row"), tile.columns.first, last(tile.columns),
        verdict.failures == 1 ? "is" : "are", tile.rows.first + verdict.worst_row, verdict.worst);
  }
  if (tile.c_words != tile.report.c_words) {
    return fmt::format("rows {} to {} of input.c were corrupted between host and device",
                       tile.rows.first, last(tile.rows));
  }
  if (tile.sums.words() != tile.report.sum_words) {
    return fmt::format("the sums of variables {} to {} were corrupted between device and host",
                       tile.rows.first, last(tile.rows));
  }
  if (tile.words == tile.report.words &&
      (!stores_mirror(tile) || tile.mirror_words == tile.report.mirror_words)) {
    return "";
  }
  const Range rows = tile.words != tile.report.words ? tile.rows : tile.columns;
  return fmt::format("rows {} to {} of C were corrupted between device and host", rows.first,
                     last(rows));
}

CheckSummary HostTiles::checks() const {
  CheckSummary checks;
  const auto fail = [&](const std::string& failure) {
    if (checks.failure.empty()) checks.failure = failure;
  };
  for (const Group& group : groups_) fail(group.failure);
  for (const Tile& tile : tiles_) {
    if (!tile.present) continue;
    fail(failure(tile));
    checks.add(finished(tile));
  }
  return checks;
}

std::uint64_t HostTiles::checksum() const {
  std::uint64_t sum = 0;
  for (const Tile& tile : tiles_) {
    if (tile.present) sum += tile.weighted + tile.counts.weighted;
  }
  return sum;
}

}  // namespace shardstream::workloads::product
