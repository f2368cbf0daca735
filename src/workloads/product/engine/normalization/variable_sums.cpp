#include "workloads/product/engine/normalization/variable_sums.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "workloads/product/engine/normalization/samples.hpp"
#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads::product {
namespace {

using device::Memory;

/// Elements of each buffer. `columns`: of all panels of B.
struct Sizes {
  std::uint64_t variables, columns, parts, scratch, super_tiles;
};

Sizes sizes_of(const Problem& problem, std::uint64_t slots) {
  const gemm::Tile& tile = problem.tile;
  const std::uint64_t edge = ceil_div(problem.n, tile.n), variables = edge * tile.n;
  const std::uint64_t columns = problem.moments.planes * variables;
  const std::uint64_t sums = ceil_div(tile.k, gemm::samples_a_sum);
  return {.variables = variables,
          .columns = columns,
          .parts = 2 * slots * 2 * columns,
          .scratch = problem.ranks.backend == Backend::host ? 0 : sums * 2 * columns,
          .super_tiles = edge * edge};
}

}  // namespace

std::uint64_t VariableSums::device_bytes(const Operands& operands, const Problem& problem) {
  if (!operands.normalizes()) return 0;
  const std::uint64_t segments = count_segments(problem);
  const Sizes sizes = sizes_of(problem, segments);
  const auto bytes = [](std::uint64_t count) { return aligned(count * sizeof(double)); };
  // All layers together have fewer than twice as many slots as there are segments.
  const std::uint64_t gathered = problem.ranks.count > 1 && segments > 1 ? 2 * sizes.parts : 0;
  const std::uint64_t weights = operands.weights_of(Weights::Of::variables).empty() ? 0 : 1;
  return bytes(sizes.parts) + bytes(gathered) + bytes(sizes.scratch) +
         (4 + weights) * bytes(sizes.variables) + bytes(sizes.super_tiles);
}

VariableSums::VariableSums(device::Device& device, const Operands& operands, const Plan& plan)
    : operands_(operands), plan_(plan) {
  if (!operands.normalizes() || plan.part.idle) return;
  slots_ = ceil_div(plan.shape.segments, plan.shape.box.depth);
  const Sizes sizes = sizes_of(plan.problem(), slots_);
  variables_ = sizes.variables;
  columns_ = sizes.columns;
  parts_ = {device, Memory::device, sizes.parts};
  if (plan.shape.box.depth > 1)
    gathered_ = {device, Memory::device, plan.shape.box.depth * sizes.parts};
  scratch_ = {device, Memory::device, sizes.scratch};
  sums_ = {device, Memory::device, variables_};
  squares_ = {device, Memory::device, variables_};
  factors_ = {device, Memory::device, variables_};
  counts_ = {device, Memory::device, variables_};
  unsettled_ = {device, Memory::device, sizes.super_tiles};
  const std::span<const double> weights = operands.weights_of(Weights::Of::variables);
  if (!weights.empty()) {
    weights_ = {device, Memory::device, variables_};
    weight_roots_.resize(variables_);
    std::ranges::transform(weights, weight_roots_.begin(), [](double w) { return std::sqrt(w); });
  }
  for (std::uint64_t slot = 0; slot < plan.part.segments.count; ++slot) {
    const std::uint64_t blocks =
        share(plan.shape.blocks, plan.part.segments.first + slot, plan.shape.segments).count;
    slot_of_.insert(slot_of_.end(), blocks, slot);
  }
}

void VariableSums::begin(device::Stream& stream, const Normalization& normalization) {
  if (variables_ == 0) return;
  normalization_ = &normalization;
  if (!weight_roots_.empty()) {
    stream.upload(weights_.data(), weight_roots_.data(), weights_.bytes());
  }
  // If a layer has fewer segments than another, its last slot stays zero.
  for (const device::Buffer<double>* each : {&parts_, &sums_, &squares_, &counts_}) {
    stream.launch(gemm::zero_kernel(), {each->data(), each->bytes()});
  }
  stream.launch(gemm::zero_kernel(), {unsettled_.data(), unsettled_.bytes()});
}

Range VariableSums::variables_of(Range tiles) const {
  return elements_of(tiles, plan_.problem().tile.n);
}

void VariableSums::add(device::Stream& stream, std::uint64_t batch, const Panels& panels) {
  if (variables_ == 0) return;
  const Panels::Batch& now = panels.batch(batch);
  const auto [number, block] = plan_.batch(batch);
  const SuperTile super_tile = plan_.super_tile(number);
  const std::uint64_t own = block - plan_.part.blocks.first, slot = slot_of_[own];
  const bool first = own == 0 || slot_of_[own - 1] != slot;
  const bool weighs = !operands_.weights_of(Weights::Of::samples).empty();
  const double* const factors =
      weighs ? panels.factors() + plan_.shape.depth({block, 1}).first : nullptr;
  const auto add_side = [&](gemm::Side side, Range tiles, const std::byte* panel,
                            std::uint64_t ld) {
    double* const sums = part(side, slot) + plan_.shape.panel_columns(tiles.first);
    stream.launch(gemm::variable_sums_kernel(),
                  {.panel = panel,
                   .precision = operands_.precision,
                   .side = side,
                   .variables = plan_.shape.panel_columns(tiles.count),
                   .depth = now.k,
                   .ld = ld,
                   .sums = sums,
                   .squares = sums + columns_,
                   .scratch = scratch_.data(),
                   .first = first,
                   .factors = factors});
  };
  const Range columns = super_tile.columns;
  add_side(gemm::Side::b, columns, now.b, plan_.shape.panel_columns(columns.count));
  if (sums_rows(super_tile)) add_side(gemm::Side::a, super_tile.rows, now.a, now.a_ld);
}

void VariableSums::gather(device::Stream& collectives, comm::Communicator& layers) {
  if (variables_ == 0) return;
  layers.all_gather(collectives, parts_.data(), gathered_.data(), parts_.bytes());
}

void VariableSums::settle(device::Stream& stream, std::uint64_t number, const Panels& panels) {
  if (variables_ == 0) return;
  const SuperTile super_tile = plan_.super_tile(number);
  const bool layered = plan_.shape.box.depth > 1;
  const double* const parts = layered ? gathered_.data() : parts_.data();
  const auto settle_side = [&](gemm::Side side, Range tiles) {
    const Range variables = variables_of(tiles);
    const std::uint64_t first = variables.first;
    stream.launch(
        gemm::settle_kernel(),
        {.parts = parts + (part(side, 0) - parts_.data()) + plan_.shape.panel_columns(tiles.first),
         .layers = plan_.shape.box.depth,
         .layer_pitch = parts_.size(),
         .segments = slots_,
         .segment_pitch = 2 * columns_,
         .squares_offset = columns_,
         .variables = variables.count,
         .samples = normalization_->samples->total,
         .center = operands_.center,
         .scale = operands_.scale && !operands_.pairwise(),
         .precision = operands_.precision,
         .scales = panels.scales() + first,
         .sums = sums_.data() + first,
         .squares = squares_.data() + first,
         .factors = factors_.data() + first,
         .unsettled = normalization_->final ? nullptr : unsettled_.data() + number,
         .lost = panels.lost().data() + first,
         .weights = weights_.size() > 0 ? weights_.data() + first : nullptr,
         .planes = plan_.shape.planes(),
         .counts = counts_.data() + first});
  };
  settle_side(gemm::Side::b, super_tile.columns);
  if (sums_rows(super_tile)) settle_side(gemm::Side::a, super_tile.rows);
}

TileDrain::Variables VariableSums::of(TileIndex tile) const {
  if (variables_ == 0) return {};
  const std::uint64_t edge = plan_.problem().tile.n;
  const std::uint64_t row = tile.row * edge, column = tile.column * edge;
  TileDrain::Variables made{.row_factors = factors_.data() + row,
                            .column_factors = factors_.data() + column,
                            .samples = normalization_->samples->total,
                            .alpha = operands_.scale ? 1 : normalization_->samples->alpha,
                            .sums = {sums_.data() + row, squares_.data() + row,
                                     operands_.pairwise() ? counts_.data() + row : nullptr}};
  if (weights_.size() > 0) {
    made.row_weights = weights_.data() + row;
    made.column_weights = weights_.data() + column;
  }
  if (!operands_.center) return made;
  made.row_sums = sums_.data() + row;
  made.column_sums = sums_.data() + column;
  return made;
}

VariableSums::Totals VariableSums::totals(device::Stream& stream) const {
  Totals made{std::vector<double>(variables_), std::vector<double>(variables_),
              std::vector<double>(variables_), std::vector<bool>(variables_)};
  if (variables_ == 0) return made;
  const auto mark = [&](Range some) {
    std::fill_n(made.present.begin() + static_cast<std::ptrdiff_t>(some.first), some.count, true);
  };
  for (std::uint64_t number = 0; number < plan_.super_tiles(); ++number) {
    const SuperTile super_tile = plan_.super_tile(number);
    if (plan_.shape.tiles(super_tile).empty()) continue;
    mark(variables_of(super_tile.columns));
    if (sums_rows(super_tile)) mark(variables_of(super_tile.rows));
  }
  stream.download(made.sums.data(), sums_.data(), sums_.bytes());
  stream.download(made.squares.data(), squares_.data(), squares_.bytes());
  stream.download(made.counts.data(), counts_.data(), counts_.bytes());
  stream.synchronize();
  return made;
}

}  // namespace shardstream::workloads::product
