#include "workloads/product/engine/tile_drain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/text.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/pairwise.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "measure/sample.hpp"
#include "workloads/product/data/elements.hpp"

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
                     const pipeline::StagingSizes& staging, std::span<const io::RangeWriter> to,
                     io::Journal* journal)
    : runtime_(runtime),
      operands_(operands),
      plan_(plan),
      type_(gemm::accumulator_type(operands.precision)),
      element_(gemm::accumulator_bytes(operands.precision)),
      row_bytes_(row_bytes_of(plan)),
      tile_bytes_(plan.problem().tile.m * row_bytes_),
      results_(plan.problem().moments.results()),
      host_(operands, plan, to, journal),
      drain_(*runtime.device, runtime.recorder, slot_bytes_of(plan, staging), staging.slots,
             staging.readers, &runtime.session.heartbeat()) {
  device::Device& device = *runtime.device;
  for (std::uint64_t i = 0; i < plan.super_tiles(); ++i)
    group_events_.push_back(device.make_event());
  if (host_.count() == 0) return;
  row_verdicts_ = {device, Memory::device, plan.problem().ranks.streams * plan.problem().tile.m};
  reports_ = {device, Memory::device, host_.count()};
  if (operands.c) {
    c0_ = {.device = {device, Memory::device, tile_bytes_},
           .host = {device, Memory::pinned, tile_bytes_},
           .stored = {},
           .read = device.make_event(),
           .added = device.make_event()};
  }
  if (plan.buffers.mirrors == 0) return;
  mirrors_.memory = {device, Memory::device, plan.buffers.mirrors};
  for (std::uint64_t i = 0; i < max_mirrors; ++i) mirrors_.departures.emplace_back(device);
}

void TileDrain::begin(device::Stream& stream, std::uint64_t products,
                      const Normalization& normalization) {
  pushed_sums_ = 0;
  if (!progress_) {
    const double calls = static_cast<double>(measure::sampling(runtime_.options).calls());
    progress_.emplace("multiplying", calls * static_cast<double>(products),
                      runtime_.session.rank() == 0 && runtime_.log.shows_progress());
  }
  enqueued_.clear();
  stream.launch(gemm::zero_kernel(), {reports_.data(), reports_.bytes()});
  host_.begin(normalization, *progress_);
  mirrors_.count = 0;
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
}

// ---------------------------------------------------------------- on the device

void TileDrain::finish_tile(device::Stream& stream, unsigned scratch, const Computed& computed,
                            const CheckReferences& references, Departure& departure) {
  const gemm::Tile& edges = plan_.problem().tile;
  const DeviceSums& sums = references.variables.sums;
  Tile& tile = host_.expect(computed.tile, computed.group, computed.products, sums);
  TileReport* const report = reports_.data() + plan_.number_of(computed.tile);
  std::byte* const data = computed.data;

  check(stream, scratch, tile, data, references, report);
  if (operands_.pairwise()) {
    pairwise(stream, tile, data, references.variables, report);
  } else if (operands_.normalizes()) {
    covariance(stream, tile, data, references.variables, report);
  } else if (operands_.alpha != 1 || operands_.beta != 0) {
    apply_alpha_beta(stream, tile, data, report);
  }
  if (operands_.symmetric && !tile.mirrored) {
    stream.launch(gemm::mirror_kernel(),
                  {data, tile.rows.count, edges.n, static_cast<unsigned>(element_)});
  }
  for (std::uint64_t i = 0; i < results_; ++i) {
    stream.launch(gemm::word_checksum_kernel(),
                  {data + i * tile_bytes_, tile.rows.count * row_bytes_, &report->words});
  }
  if (host_.stores_mirror(tile)) mirror(stream, tile, data, report);
  const bool has_sums = host_.has_sums(tile);
  if (has_sums) TileSums::add_checksums(stream, sums, tile.rows.count, &report->sum_words);
  stream.record(*departure.finished_);
  drain_.push(*departure.finished_, reinterpret_cast<const std::byte*>(report), 1,
              sizeof(TileReport), [this, &tile](Range, const std::byte* slot) {
                std::copy_n(slot, sizeof(TileReport), reinterpret_cast<std::byte*>(&tile.report));
                host_.complete(tile, 1);
              });
  if (has_sums) {
    pushed_sums_ =
        tile.sums.push(drain_, *departure.finished_, sums, tile.rows.count,
                       [this, &tile](std::uint64_t arrived) { host_.complete(tile, arrived); });
  }
  departure.pushed_ = drain_.push(
      *departure.finished_, data, tile.rows.count, row_bytes_,
      [this, &tile](Range rows, const std::byte* slot) { host_.take(tile, rows, slot); });
  if (results_ == 1) return;
  departure.pushed_ = drain_.push(
      *departure.finished_, data + tile_bytes_, tile.rows.count, row_bytes_,
      [this, &tile](Range rows, const std::byte* slot) { host_.take_counts(tile, rows, slot); });
}

/// Checks the products, or all moments, before alpha and beta are applied.
void TileDrain::check(device::Stream& stream, unsigned scratch, const Tile& tile,
                      const std::byte* data, const CheckReferences& references,
                      TileReport* report) {
  const gemm::Tile& edges = plan_.problem().tile;
  const gemm::Moments& moments = plan_.problem().moments;
  for (std::uint64_t i = 0; i < moments.count; ++i) {
    const auto& [row, column] = references.moments[i];
    const gemm::CheckTileArgs args{
        .tile = data + i * tile_bytes_,
        .precision = operands_.precision,
        .rows = tile.rows.count,
        .columns = tile.columns.count,
        .ld = edges.n,
        .seed = sign_seed,
        .first_column = plan_.shape.planes().place(tile.columns.first, moments.all[i].column),
        .k = operands_.k,
        .z = references.z + row * edges.m * references.z_stride + column,
        .z_stride = references.z_stride,
        .row_squares = references.row_squares + row * edges.m,
        .column_squares = references.column_squares + column,
        .row_verdicts = row_verdicts_.data() + scratch * edges.m,
        .verdict = &report->verdict,
        .counts = moments.pairwise() && moments.all[i] == gemm::counts_of_pair,
        .drifts = moments.pairwise() && gemm::is_sum(moments.all[i]),
        .joins = i > 0,
        .moduli = edges.moduli};
    stream.launch(gemm::check_rows_kernel(), args);
    stream.launch(gemm::verdict_kernel(), args);
  }
}

/// Computes alpha * tile + beta * C0. Without a C0 it only multiplies by alpha.
void TileDrain::apply_alpha_beta(device::Stream& stream, Tile& tile, std::byte* data,
                                 TileReport* report) {
  const std::uint64_t ld = plan_.problem().tile.n;
  const std::byte* c = nullptr;
  if (operands_.c) {
    c0_.read->synchronize();  // until the previous tile's C0 has been uploaded
    read_c(tile);
    runtime_.session.heartbeat().move();
    const std::size_t bytes = tile.rows.count * tile.columns.count * element_;
    tile.c_words = gemm::word_checksum(c0_.host.data(), bytes);
    stream.wait(
        *c0_.added);  // until the previous tile's C0 has been added, maybe on another stream
    stream.upload(c0_.device.data(), c0_.host.data(), bytes);
    stream.record(*c0_.read);
    stream.launch(gemm::word_checksum_kernel(), {c0_.device.data(), bytes, &report->c_words});
    c = c0_.device.data();
  }
  stream.launch(gemm::finish_kernel(),
                {data, operands_.precision, tile.rows.count, tile.columns.count, ld,
                 operands_.alpha, operands_.beta, c, data, ld});
  if (operands_.c) stream.record(*c0_.added);
}

/// Turns products into covariances or correlations, after the check of the products. Correlations
/// that are not weighted are between -1 and 1.
void TileDrain::covariance(device::Stream& stream, const Tile& tile, std::byte* data,
                           const Variables& variables, TileReport* report) {
  const bool correlates = operands_.scale && operands_.weights_of(Weights::Of::variables).empty();
  stream.launch(gemm::covariance_kernel(), {.tile = data,
                                            .precision = operands_.precision,
                                            .rows = tile.rows.count,
                                            .columns = tile.columns.count,
                                            .ld = plan_.problem().tile.n,
                                            .row_sums = variables.row_sums,
                                            .column_sums = variables.column_sums,
                                            .row_factors = variables.row_factors,
                                            .column_factors = variables.column_factors,
                                            .samples = variables.samples,
                                            .alpha = variables.alpha,
                                            .correlates = correlates,
                                            .diagonal = !tile.mirrored,
                                            .threshold = &report->verdict.detection_threshold,
                                            .row_weights = variables.row_weights,
                                            .column_weights = variables.column_weights});
}

/// Makes C and the counts from the moments, after their check.
void TileDrain::pairwise(device::Stream& stream, const Tile& tile, std::byte* data,
                         const Variables& variables, TileReport* report) {
  const gemm::Moments& moments = plan_.problem().moments;
  const auto sums = [&](gemm::Moment moment) {
    const std::uint64_t index = moments.index_of(moment);
    return index < moments.count ? data + index * tile_bytes_ : nullptr;
  };
  stream.launch(gemm::pairwise_kernel(), {.products = sums(gemm::products_of_pair),
                                          .counts = sums(gemm::counts_of_pair),
                                          .row_sums = sums(gemm::row_sums_of_pair),
                                          .column_sums = sums(gemm::column_sums_of_pair),
                                          .row_squares = sums(gemm::row_squares_of_pair),
                                          .column_squares = sums(gemm::column_squares_of_pair),
                                          .precision = operands_.precision,
                                          .rows = tile.rows.count,
                                          .columns = tile.columns.count,
                                          .ld = plan_.problem().tile.n,
                                          .k = operands_.k,
                                          .row_factors = variables.row_factors,
                                          .column_factors = variables.column_factors,
                                          .divisor = operands_.divisor,
                                          .diagonal = !tile.mirrored,
                                          .sensitivity = &report->sensitivity,
                                          .row_weights = variables.row_weights,
                                          .column_weights = variables.column_weights});
}

/// Reads C0 into c0_.host, dense, in C's type.
void TileDrain::read_c(const Tile& tile) {
  const std::uint64_t columns = tile.columns.count, count = tile.rows.count * columns;
  const ElementType type = operands_.c->type();
  if (type == type_) {
    return operands_.c->read(tile.rows, tile.columns, c0_.host.data(), columns * element_);
  }
  c0_.stored.resize(count * size_of(type));
  operands_.c->read(tile.rows, tile.columns, c0_.stored.data(), columns * size_of(type));
  convert(type, c0_.stored.data(), count, type_, c0_.host.data());
}

/// Makes the tile's mirror and sends it to the host.
void TileDrain::mirror(device::Stream& stream, Tile& tile, const std::byte* data,
                       TileReport* report) {
  const std::uint64_t edge = plan_.problem().tile.n;
  const std::uint64_t turn = mirrors_.count++ % max_mirrors;
  Departure& departure = mirrors_.departures[turn];
  std::byte* const turned = mirrors_.memory.data() + turn * results_ * tile_bytes_;
  drain_.wait(stream, departure.pushed_);
  for (std::uint64_t i = 0; i < results_; ++i) {
    const std::size_t offset = i * tile_bytes_;
    // Transposes the padding too, because the mirror's rows are downloaded with their padding.
    stream.launch(gemm::transpose_kernel(), {data + offset, edge, edge, edge, turned + offset, edge,
                                             static_cast<unsigned>(element_)});
    stream.launch(gemm::word_checksum_kernel(),
                  {turned + offset, tile.columns.count * row_bytes_, &report->mirror_words});
  }
  stream.record(*departure.finished_);
  for (std::uint64_t i = 0; i < results_; ++i) {
    departure.pushed_ =
        drain_.push(*departure.finished_, turned + i * tile_bytes_, tile.columns.count, row_bytes_,
                    [this, &tile, i](Range rows, const std::byte* slot) {
                      host_.take_mirror(tile, i, rows, slot);
                    });
  }
}

void TileDrain::finish_group(device::Stream& stream, std::uint64_t number, const Panels& panels,
                             const std::uint64_t* unsettled) {
  Group& group = host_.expect_group(number, unsettled != nullptr);
  device::Event& finished = *group_events_[number];
  const Range batches{number * plan_.part.blocks.count, plan_.part.blocks.count};
  const std::uint64_t each = plan_.shape.batch_checksums();
  stream.record(finished);
  drain_.push(finished,
              reinterpret_cast<const std::byte*>(panels.device_checksums() + batches.first * each),
              batches.count, each * sizeof(std::uint64_t),
              [this, &group, &panels, each](Range some, const std::byte* checksums) {
                std::copy_n(
                    checksums, some.count * each * sizeof(std::uint64_t),
                    reinterpret_cast<std::byte*>(group.checksums.data() + some.first * each));
                host_.complete(group, panels, some.count);
              });
  if (unsettled == nullptr) return;
  drain_.push(finished, reinterpret_cast<const std::byte*>(unsettled), 1, sizeof(*unsettled),
              [this, &group, &panels](Range, const std::byte* slot) {
                std::copy_n(slot, sizeof(group.unsettled),
                            reinterpret_cast<std::byte*>(&group.unsettled));
                host_.complete(group, panels, 1);
              });
}

}  // namespace shardstream::workloads::product
