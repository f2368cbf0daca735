#include "workloads/product/engine/tile_drain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/text.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/variables.hpp"

namespace shardstream::workloads::product {
namespace {

using device::Memory;

std::size_t row_bytes_of(const Plan& plan) {
  return plan.problem().tile.n * gemm::accumulator_bytes(plan.problem().precision);
}

/// Bytes of a slot of the drain: as requested, but at least eight rows of a tile.
std::size_t slot_bytes_of(const Plan& plan, const pipeline::StagingSizes& staging) {
  if (plan.part.idle) return 0;
  return std::max<std::size_t>(staging.drain_slot_bytes, 8 * row_bytes_of(plan));
}

/// Whether element `index` of a row of C is zero.
bool is_zero(ElementType type, const std::byte* row, std::uint64_t index) {
  if (type == ElementType::f64) return reinterpret_cast<const double*>(row)[index] == 0;
  return reinterpret_cast<const float*>(row)[index] == 0;
}

/// Whether `count` elements are finite.
bool are_finite(ElementType type, const std::byte* elements, std::uint64_t count) {
  return with_element_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* const x = reinterpret_cast<const T*>(elements);
    return std::all_of(x, x + count, [](T each) { return each - each == 0; });
  });
}

}  // namespace

std::uint64_t TileDrain::host_bytes(const Operands& operands, const Plan& plan,
                                    const pipeline::StagingSizes& staging) {
  const gemm::Tile& tile = plan.problem().tile;
  const ElementType type = gemm::accumulator_type(operands.precision);
  std::uint64_t of_c = 0;
  if (operands.c && plan.numbered_tiles() > 0) {
    const bool differs = operands.c->type() != type;
    of_c = tile.m * tile.n * (size_of(type) + (differs ? size_of(operands.c->type()) : 0));
  }
  return slot_bytes_of(plan, staging) * staging.slots + of_c;
}

TileDrain::TileDrain(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
                     const pipeline::StagingSizes& staging, const io::RangeWriter* to,
                     io::Journal* journal)
    : runtime_(runtime),
      operands_(operands),
      plan_(plan),
      to_(to),
      journal_(journal),
      type_(gemm::accumulator_type(operands.precision)),
      element_(gemm::accumulator_bytes(operands.precision)),
      row_bytes_(row_bytes_of(plan)),
      tile_bytes_(plan.problem().tile.m * row_bytes_),
      tiles_(plan.numbered_tiles()),
      groups_(plan.super_tiles()),
      drain_(*runtime.device, runtime.recorder, slot_bytes_of(plan, staging), staging.slots,
             staging.readers, &runtime.session.heartbeat()) {
  device::Device& device = *runtime.device;
  for (Group& group : groups_) {
    group.finished = device.make_event();
    group.checksums.resize(plan.part.blocks.count * plan.shape.batch_checksums());
  }
  if (tiles_.empty()) return;
  row_verdicts_ = {device, Memory::device, plan.problem().ranks.streams * plan.problem().tile.m};
  reports_ = {device, Memory::device, tiles_.size()};
  if (operands.c) {
    c_device_ = {device, Memory::device, tile_bytes_};
    c_host_ = {device, Memory::pinned, tile_bytes_};
    c_read_ = device.make_event();
    c_added_ = device.make_event();
  }
  if (plan.buffers.mirrors == 0) return;
  mirrors_ = {device, Memory::device, plan.buffers.mirrors};
  for (std::uint64_t i = 0; i < max_mirrors; ++i) mirror_departures_.emplace_back(device);
}

void TileDrain::begin(device::Stream& stream, std::uint64_t products) {
  progress_.emplace("multiplying", static_cast<double>(products), runtime_.session.rank() == 0);
  enqueued_.clear();
  stream.launch(gemm::zero_kernel(), {reports_.data(), reports_.bytes()});
  for (Tile& tile : tiles_) {
    tile.present = false;
    tile.c0_is_finite = true;
    tile.words = tile.mirror_words = tile.weighted = tile.constant = tile.infinite = 0;
    tile.c_words = 0;
  }
  for (std::uint64_t number = 0; number < groups_.size(); ++number) {
    groups_[number].failure.clear();
    // Idle ranks have no panels that could be wrong, and do not call finish_group().
    if (plan_.part.idle && journal_ != nullptr) journal_->add_group(number);
  }
  mirrored_ = 0;
}

void TileDrain::multiplied(device::Stream& stream, std::uint64_t products) {
  if (runtime_.session.rank() != 0) return;  // only rank 0 shows progress
  if (idle_events_.empty()) idle_events_.push_back(runtime_.device->make_event());
  enqueued_.push_back({std::move(idle_events_.back()), products});
  idle_events_.pop_back();
  stream.record(*enqueued_.back().computed);
  report_progress();
}

void TileDrain::report_progress() {
  std::uint64_t products = 0;
  while (!enqueued_.empty() && enqueued_.front().computed->reached()) {
    products += enqueued_.front().products;
    idle_events_.push_back(std::move(enqueued_.front().computed));
    enqueued_.pop_front();
  }
  progress_->add(static_cast<double>(products));
}

void TileDrain::finish() {
  drain_.finish([this] { report_progress(); });
  progress_.reset();
}

// ---------------------------------------------------------------- on the device

void TileDrain::finish_tile(device::Stream& stream, unsigned scratch, std::uint64_t group,
                            TileIndex at, std::byte* data, const CheckReferences& references,
                            Departure& departure, std::uint64_t products) {
  const gemm::Tile& edges = plan_.problem().tile;
  const std::uint64_t number = plan_.number_of(at);
  Tile& tile = tiles_[number];
  Report* const report = reports_.data() + number;
  tile.number = at.row * plan_.shape.tile_columns + at.column;
  tile.group = group;
  tile.rows = elements_of({at.row, 1}, edges.m, operands_.m);
  tile.columns = elements_of({at.column, 1}, edges.n, operands_.n);
  tile.present = true;
  tile.products = products;
  tile.mirrored = operands_.symmetric && at.row != at.column;
  tile.row_squares.resize(tile.rows.count);
  const bool mirrors_leave = tile.mirrored && to_ != nullptr;
  tile.missing = tile.rows.count + (mirrors_leave ? tile.columns.count : 0) + 1;

  check(stream, scratch, tile, data, references, report);
  if (operands_.normalizes()) {
    covariance(stream, tile, data, references.variables, report);
  } else if (operands_.alpha != 1 || operands_.beta != 0) {
    apply_alpha_beta(stream, tile, data, report);
  }
  if (operands_.symmetric && !tile.mirrored) {
    stream.launch(gemm::mirror_kernel(),
                  {data, tile.rows.count, edges.n, static_cast<unsigned>(element_)});
  }
  stream.launch(gemm::word_checksum_kernel(), {data, tile.rows.count * row_bytes_, &report->words});
  if (mirrors_leave) mirror(stream, tile, data, report);
  stream.record(*departure.finished_);
  drain_.push(*departure.finished_, reinterpret_cast<const std::byte*>(report), 1, sizeof(Report),
              [this, &tile](Range, const std::byte* slot) {
                std::copy_n(slot, sizeof(Report), reinterpret_cast<std::byte*>(&tile.report));
                complete_parts(tile, 1);
              });
  departure.pushed_ =
      drain_.push(*departure.finished_, data, tile.rows.count, row_bytes_,
                  [this, &tile](Range rows, const std::byte* slot) { take(tile, rows, slot); });
}

/// Checks the products, before alpha and beta are applied.
void TileDrain::check(device::Stream& stream, unsigned scratch, const Tile& tile,
                      const std::byte* data, const CheckReferences& references, Report* report) {
  const gemm::CheckTileArgs args{
      .tile = data,
      .precision = operands_.precision,
      .rows = tile.rows.count,
      .columns = tile.columns.count,
      .ld = plan_.problem().tile.n,
      .seed = sign_seed,
      .first_column = tile.columns.first,
      .k = operands_.k,
      .z = references.z,
      .z_stride = references.z_stride,
      .row_squares = references.row_squares,
      .column_squares = references.column_squares,
      .row_verdicts = row_verdicts_.data() + scratch * plan_.problem().tile.m,
      .verdict = &report->verdict};
  stream.launch(gemm::check_rows_kernel(), args);
  stream.launch(gemm::verdict_kernel(), args);
}

/// Computes alpha * tile + beta * C0. Without a C0 it only multiplies by alpha.
void TileDrain::apply_alpha_beta(device::Stream& stream, Tile& tile, std::byte* data,
                                 Report* report) {
  const std::uint64_t ld = plan_.problem().tile.n;
  const std::byte* c = nullptr;
  if (operands_.c) {
    c_read_->synchronize();  // until the previous tile's C0 has been uploaded
    read_c(tile);
    runtime_.session.heartbeat().move();
    const std::size_t bytes = tile.rows.count * tile.columns.count * element_;
    tile.c_words = gemm::word_checksum(c_host_.data(), bytes);
    stream.wait(*c_added_);  // until the previous tile's C0 has been added, maybe on another stream
    stream.upload(c_device_.data(), c_host_.data(), bytes);
    stream.record(*c_read_);
    stream.launch(gemm::word_checksum_kernel(), {c_device_.data(), bytes, &report->c_words});
    c = c_device_.data();
  }
  stream.launch(gemm::finish_kernel(),
                {data, operands_.precision, tile.rows.count, tile.columns.count, ld,
                 operands_.alpha, operands_.beta, c, data, ld});
  if (operands_.c) stream.record(*c_added_);
}

/// Turns products into covariances or correlations, after the check of the products. Correlations
/// do not depend on alpha.
void TileDrain::covariance(device::Stream& stream, const Tile& tile, std::byte* data,
                           const Variables& variables, Report* report) {
  stream.launch(gemm::covariance_kernel(), {.tile = data,
                                            .precision = operands_.precision,
                                            .rows = tile.rows.count,
                                            .columns = tile.columns.count,
                                            .ld = plan_.problem().tile.n,
                                            .row_sums = variables.row_sums,
                                            .column_sums = variables.column_sums,
                                            .row_factors = variables.row_factors,
                                            .column_factors = variables.column_factors,
                                            .samples = static_cast<double>(operands_.k),
                                            .alpha = operands_.scale ? 1 : operands_.alpha,
                                            .correlates = operands_.scale,
                                            .diagonal = !tile.mirrored,
                                            .threshold = &report->verdict.detection_threshold});
}

/// Reads C0 into c_host_, dense, in C's type.
void TileDrain::read_c(const Tile& tile) {
  const std::uint64_t columns = tile.columns.count, count = tile.rows.count * columns;
  const ElementType type = operands_.c->type();
  if (type == type_) {
    return operands_.c->read(tile.rows, tile.columns, c_host_.data(), columns * element_);
  }
  c_stored_.resize(count * size_of(type));
  operands_.c->read(tile.rows, tile.columns, c_stored_.data(), columns * size_of(type));
  with_element_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    const auto* const from = reinterpret_cast<const T*>(c_stored_.data());
    if (type_ == ElementType::f64) {
      std::transform(from, from + count, reinterpret_cast<double*>(c_host_.data()),
                     [](T x) { return static_cast<double>(x); });
    } else {
      std::transform(from, from + count, reinterpret_cast<float*>(c_host_.data()),
                     [](T x) { return static_cast<float>(x); });
    }
  });
}

/// Makes the tile's mirror and sends it to the host.
void TileDrain::mirror(device::Stream& stream, Tile& tile, const std::byte* data, Report* report) {
  const std::uint64_t edge = plan_.problem().tile.n;
  const std::uint64_t turn = mirrored_++ % max_mirrors;
  Departure& departure = mirror_departures_[turn];
  std::byte* const turned = mirrors_.data() + turn * tile_bytes_;
  drain_.wait(stream, departure.pushed_);
  // Transposes the padding too, because the mirror's rows are downloaded with their padding.
  stream.launch(gemm::transpose_kernel(),
                {data, edge, edge, edge, turned, edge, static_cast<unsigned>(element_)});
  stream.launch(gemm::word_checksum_kernel(),
                {turned, tile.columns.count * row_bytes_, &report->mirror_words});
  stream.record(*departure.finished_);
  departure.pushed_ = drain_.push(
      *departure.finished_, turned, tile.columns.count, row_bytes_,
      [this, &tile](Range rows, const std::byte* slot) { take_mirror(tile, rows, slot); });
}

void TileDrain::finish_group(device::Stream& stream, std::uint64_t number, const Panels& panels,
                             const std::uint64_t* unsettled) {
  Group& group = groups_[number];
  const Range batches{number * plan_.part.blocks.count, plan_.part.blocks.count};
  const std::uint64_t each = plan_.shape.batch_checksums();
  group.unsettled = 0;
  group.missing = batches.count + (unsettled != nullptr ? 1 : 0);
  stream.record(*group.finished);
  drain_.push(*group.finished,
              reinterpret_cast<const std::byte*>(panels.device_checksums() + batches.first * each),
              batches.count, each * sizeof(std::uint64_t),
              [this, &group, &panels, each](Range some, const std::byte* checksums) {
                std::copy_n(
                    checksums, some.count * each * sizeof(std::uint64_t),
                    reinterpret_cast<std::byte*>(group.checksums.data() + some.first * each));
                complete_parts(group, panels, some.count);
              });
  if (unsettled == nullptr) return;
  drain_.push(*group.finished, reinterpret_cast<const std::byte*>(unsettled), 1, sizeof(*unsettled),
              [this, &group, &panels](Range, const std::byte* slot) {
                std::copy_n(slot, sizeof(group.unsettled),
                            reinterpret_cast<std::byte*>(&group.unsettled));
                complete_parts(group, panels, 1);
              });
}

// ---------------------------------------------------------------- on the host, by writers

/// Writes some rows of the tile, counted from its first row, and adds their checksums and squares.
void TileDrain::take(Tile& tile, Range rows, const std::byte* data) {
  const Range of_c{tile.rows.first + rows.first, rows.count};
  if (to_ != nullptr) to_->write(of_c, tile.columns, data, row_bytes_);
  std::uint64_t words = 0, weighted = 0;
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    const gemm::RowChecksums sums = gemm::row_checksums(type_, data + i * row_bytes_,
                                                        tile.columns.count, plan_.problem().tile.n);
    const std::uint64_t row = of_c.first + i, column = tile.columns.first;
    words += sums.words;
    weighted += sums.matrix_checksum(row * operands_.n + column);
    if (tile.mirrored) weighted += sums.matrix_checksum(column * operands_.n + row, operands_.n);
    tile.row_squares[rows.first + i] = sums.squares;
    if (!std::isfinite(sums.squares) && overflows(tile, row, data + i * row_bytes_)) {
      ++tile.infinite;
    }
    if (operands_.normalizes() && row >= column && row - column < tile.columns.count) {
      tile.constant += is_zero(type_, data + i * row_bytes_, row - column) ? 1 : 0;
    }
  }
  tile.words += words;
  tile.weighted += weighted;
  complete_parts(tile, rows.count);
}

/// Whether a row of C in this tile is not finite, and C0 is not the cause.
bool TileDrain::overflows(Tile& tile, std::uint64_t row, const std::byte* data) const {
  const std::uint64_t columns = tile.columns.count;
  if (are_finite(type_, data, columns) || !tile.c0_is_finite) return false;
  if (!operands_.c) return true;
  const ElementType type = operands_.c->type();
  std::vector<std::byte> stored(columns * size_of(type));
  operands_.c->read({row, 1}, tile.columns, stored.data(), stored.size());
  tile.c0_is_finite = are_finite(type, stored.data(), columns);
  return tile.c0_is_finite;
}

void TileDrain::take_mirror(Tile& tile, Range rows, const std::byte* data) {
  to_->write({tile.columns.first + rows.first, rows.count}, tile.rows, data, row_bytes_);
  tile.mirror_words += gemm::word_checksum(data, rows.count * row_bytes_);
  complete_parts(tile, rows.count);
}

/// Counts parts of the tile that have reached the host. The last part completes the tile: the
/// squares are added in the order of the rows, and a tile that is right is added to the journal.
void TileDrain::complete_parts(Tile& tile, std::uint64_t parts) {
  if ((tile.missing -= parts) > 0) return;
  tile.squares = std::accumulate(tile.row_squares.begin(), tile.row_squares.end(), 0.0) *
                 (tile.mirrored ? 2 : 1);
  tile.row_squares = {};
  progress_->add(static_cast<double>(tile.products));
  if (journal_ != nullptr && failure(tile).empty())
    journal_->add(piece_of(finished(tile), tile.group));
}

/// Counts parts of the group that have reached the host. After the last part, the group is added to
/// the journal if it is right, and if no second pass will compute its tiles again.
void TileDrain::complete_parts(Group& group, const Panels& panels, std::uint64_t parts) {
  if ((group.missing -= parts) > 0) return;
  const auto number = static_cast<std::uint64_t>(&group - groups_.data());
  const std::uint64_t blocks = plan_.part.blocks.count;
  group.failure = panels.failure({number * blocks, blocks}, group.checksums.data());
  if (group.failure.empty() && group.unsettled == 0 && journal_ != nullptr) {
    journal_->add_group(number);
  }
}

FinishedTile TileDrain::finished(const Tile& tile) const {
  const gemm::TileVerdict& verdict = tile.report.verdict;
  const std::uint64_t infinite = tile.infinite;  // unchecked rows that are not finite count, too
  return {.tile = tile.number,
          .weighted = tile.weighted,
          .squares = tile.squares,
          .worst = verdict.worst,
          .detection_threshold = verdict.detection_threshold,
          .unchecked = verdict.unchecked,
          .constant = tile.constant,
          .overflowed = verdict.overflowed,
          .infinite = infinite > verdict.unchecked ? infinite - verdict.unchecked : 0};
}

// ---------------------------------------------------------------- verification

std::string TileDrain::failure(const Tile& tile) const {
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
  const bool mirrored = tile.mirrored && to_ != nullptr;
  if (tile.words == tile.report.words &&
      (!mirrored || tile.mirror_words == tile.report.mirror_words)) {
    return "";
  }
  const Range rows = tile.words != tile.report.words ? tile.rows : tile.columns;
  return fmt::format("rows {} to {} of C were corrupted between device and host", rows.first,
                     last(rows));
}

CheckSummary TileDrain::checks() const {
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

std::uint64_t TileDrain::checksum() const {
  std::uint64_t sum = 0;
  for (const Tile& tile : tiles_) {
    if (tile.present) sum += tile.weighted;
  }
  return sum;
}

}  // namespace shardstream::workloads::product
