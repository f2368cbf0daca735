#include "workloads/product/engine/engine.hpp"

#include <algorithm>
#include <array>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/narrow.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {
namespace {

using device::Memory;

/// The number of tiles that one launch multiplies. On the host backend each thread multiplies whole
/// tiles. There are four for each thread, so that no thread waits long for the others.
std::uint64_t tiles_at_once(const runtime::Runtime& runtime) {
  if (runtime.resources.backend == Backend::cuda) return 1;
  return 4 * std::max<std::uint64_t>(
                 1, static_cast<std::uint64_t>(runtime.device->info().multiprocessors));
}

/// The ranks with the same tiles, one per layer; null if there is one layer. Collective.
std::unique_ptr<comm::Communicator> layers_of(comm::Communicator& all, const Plan& plan) {
  const Box& box = plan.shape.box;
  if (box.depth == 1) return nullptr;
  const std::uint64_t idle_ones = box.layer(), own = plan.part.row * box.columns + plan.part.column;
  return all.split(static_cast<int>(plan.part.idle ? idle_ones : own),
                   static_cast<int>(plan.part.layer));
}

/// Bytes of host memory that the product needs besides its panels: for tiles, samples and decoding.
std::uint64_t other_host_bytes(const Operands& operands, const Plan& plan,
                               const pipeline::StagingSizes& staging) {
  std::uint64_t bytes =
      TileDrain::host_bytes(operands, plan, staging) + host_bytes_of_samples(operands);
  for (const auto* const matrix : {&operands.a, &operands.b, &operands.c}) {
    if (!*matrix) continue;
    if (const auto decoding = (*matrix)->decoding()) bytes += decoding->host_bytes(staging.readers);
  }
  return bytes;
}

}  // namespace

Engine::Engine(runtime::Runtime& runtime, const Operands& operands, Plan plan,
               const gemm::MultiplyPlan& library, const pipeline::StagingSizes& staging,
               std::span<const io::RangeWriter> to, io::Journal* journal)
    : runtime_(runtime),
      operands_(operands),
      plan_(std::move(plan)),
      library_(library),
      moments_(plan_.problem().moments.count),
      tile_bytes_(moments_ * plan_.problem().tile.m * plan_.problem().tile.n *
                  gemm::accumulator_bytes(operands.precision)),
      lane_bytes_(plan_.problem().tile.lane_elements() *
                  gemm::accumulator_bytes(operands.precision)),
      together_(tiles_at_once(runtime)),
      gathers_block_(runtime.communicator->size() > 1 && runtime.communicator->blocks()),
      layers_(layers_of(*runtime.communicator, plan_)),
      panel_groups_(*runtime.communicator, plan_),
      uploads_(runtime, operands, plan_, staging, other_host_bytes(operands, plan_, staging)),
      panels_(runtime, operands, plan_, panel_groups_, uploads_),
      variables_(*runtime.device, operands, plan_),
      exchange_(*runtime.device, operands, plan_, layers_.get()),
      tiles_(runtime, operands, plan_, staging, to, journal),
      ring_(*runtime.device, runtime.recorder, uploads_.ring_sizes(), &runtime.session.heartbeat()),
      streams_(*runtime.device, plan_.problem().ranks.streams) {
  for (std::uint64_t number = 0; number < plan_.super_tiles(); ++number) {
    const SuperTile extent = plan_.super_tile(number);
    PlacedSuperTile made{.extent = extent, .tiles = plan_.shape.tiles(extent), .at = {}};
    if (plan_.schedule.cut.keeps_b && number > 0) {
      made.first = super_tiles_.back().first + super_tiles_.back().tiles.size();
    }
    for (const TileIndex tile : made.tiles) add_places(made, tile);
    super_tiles_.push_back(std::move(made));
  }
  device::Device& device = *runtime.device;
  const Buffers& buffers = plan_.buffers;
  accumulators_ = {device, Memory::device, buffers.accumulators};
  lanes_ = {device, Memory::device, buffers.lanes};
  for (std::uint64_t i = 0; i < plan_.schedule.sizes.held_tiles; ++i)
    departures_.emplace_back(device);
  constexpr std::size_t size = sizeof(double);
  check_pitch_ =
      (buffers.check.z + buffers.check.row_squares + buffers.check.column_squares) / size;
  check_ = {device, Memory::device, plan_.shape.check_slices * check_pitch_};
  z_ = check_.data();
  row_squares_ = z_ + buffers.check.z / size;
  column_squares_ = row_squares_ + buffers.check.row_squares / size;
  computed_ = device.make_event();
  computed_before_ = device.make_event();
}

/// Adds the places of a tile's moments in the panels.
void Engine::add_places(PlacedSuperTile& to, TileIndex tile) const {
  const gemm::Moments& moments = plan_.problem().moments;
  const auto place = [&](std::uint64_t tiles, gemm::Plane plane) {
    return tiles * moments.planes + static_cast<std::uint64_t>(plane);
  };
  for (std::uint64_t i = 0; i < moments.count; ++i) {
    to.at.push_back({place(tile.row - to.extent.rows.first, moments.all[i].row),
                     place(tile.column - to.extent.columns.first, moments.all[i].column)});
  }
}

void Engine::normalize(const Normalization& normalization) {
  panels_.normalize(ring_.compute(), normalization);
  normalization_ = normalization;
}

std::vector<std::uint8_t> Engine::lost_variables() {
  const device::Buffer<std::uint8_t>& lost = panels_.lost();
  std::vector<std::uint8_t> copy(lost.size());
  if (copy.empty()) return copy;
  ring_.compute().download(copy.data(), lost.data(), lost.bytes());
  ring_.compute().synchronize();
  return copy;
}

double Engine::rounding_error() {
  const device::Buffer<double>& errors = panels_.rounding_errors();
  if (errors.size() == 0) return 0;
  std::array<double, 2> sides{};
  ring_.compute().download(sides.data(), errors.data(), sizeof(sides));
  ring_.compute().synchronize();
  // In a symmetric product the rows of A may be columns of B.
  if (operands_.symmetric) sides.fill(std::max(sides[0], sides[1]));
  return sides[0] + sides[1] + sides[0] * sides[1];
}

void Engine::run() {
  device::Stream& stream = ring_.compute();
  waiting_ = {};
  swept_.tiles = 0;
  std::uint64_t products = 0;  // one for each tile and block of K
  for (const PlacedSuperTile& each : super_tiles_)
    products += each.tiles.size() * plan_.part.blocks.count;
  tiles_.begin(stream, products, normalization_);
  variables_.begin(stream, normalization_);
  panels_.begin(stream);
  uploads_.begin();
  ring_.run({.batches = plan_.batches(),
             .pieces = uploads_.pieces(),
             .piece = [this](std::uint64_t number) { return uploads_.piece(number); },
             .reader_phase = uploads_.reader_phase(),
             .read = [this](std::uint64_t number,
                            std::byte* slot) { return uploads_.read(number, slot); },
             .arrival = panels_.arrival(),
             .on_arrival = [this](device::Stream& arrive, std::uint64_t number,
                                  std::byte* data) { panels_.arrive(arrive, number, data); },
             .on_batch = [&](device::Stream& on, std::uint64_t number,
                             const std::byte*) { compute(on, number); },
             .last_use = [this](std::uint64_t batch) { return last_use(batch); },
             .meanwhile = [this] { return multiply_meanwhile(); }});
  tiles_.finish();
  panels_.wait(stream);
  if (layers_) layers_->wait(ring_.arrivals());
}

/// The last batch for which compute() may use `batch`: for a batch of the window, the last batch of
/// its super-tile; for an earlier one, the batch itself.
std::uint64_t Engine::last_use(std::uint64_t batch) const {
  const std::uint64_t blocks = plan_.part.blocks.count, place = batch % blocks;
  return place + plan_.schedule.window < blocks ? batch : batch - place + blocks - 1;
}

/// Batches of the window wait for the super-tile's last batch. Then the tiles are computed one
/// after another, so that finished tiles leave while others are computed. Until then,
/// multiply_meanwhile() computes some products. But while an all-gather blocks this thread, nothing
/// calls multiply_meanwhile(), and the device may become idle. If the device is idle, all waiting
/// batches are multiplied at once.
void Engine::compute(device::Stream& stream, std::uint64_t number) {
  const std::uint64_t blocks = plan_.part.blocks.count, place = number % blocks;
  add_products(stream, number);
  ++waiting_.count;
  if (place + 1 < blocks) {
    const bool in_window = place + plan_.schedule.window >= blocks;
    if (!in_window || (gathers_block_ && computed_->reached())) multiply_present(stream);
    return;
  }
  const std::uint64_t super_number = plan_.batch(number).super_tile;
  join_slices(stream);
  if (splits_k()) {
    multiply_present(stream);
    exchange(stream, super_number);
  } else {
    if (count_tiles(number) > 0) settle(stream, super_number);
    finish_super_tile(stream);
  }
  tiles_.finish_group(stream, super_number, panels_, variables_.unsettled(super_number));
}

/// Multiplies all waiting batches, block by block.
void Engine::multiply_present(device::Stream& stream) {
  while (swept_.tiles > 0) sweep(stream);
  std::uint64_t products = 0;
  streams_.fork(stream);
  for (; waiting_.count > 0; waiting_ = {waiting_.first + 1, waiting_.count - 1}) {
    multiply(waiting_.first, {0, count_tiles(waiting_.first)});
    products += count_tiles(waiting_.first);
  }
  streams_.join();
  tiles_.multiplied(stream, products);
  record_computed(stream);
}

/// Called repeatedly until the next batch has arrived. Enqueues a step of a sweep: some tiles
/// receive the products of the waiting batches, so that fewer products are left for the end. At
/// most two steps are enqueued at a time. One runs, and the other one waits behind it, so that the
/// device does not become idle.
bool Engine::multiply_meanwhile() {
  tiles_.report_progress();
  if (waiting_.count == 0 || count_tiles(waiting_.first) == 0) return false;
  if (!computed_before_->reached()) return true;  // one step waits behind the running one
  ring_.run_kernels(waiting_.end() - 1, nullptr, 0,
                    [this](device::Stream& stream, std::uint64_t, const std::byte*) {
                      sweep(stream);
                      record_computed(stream);
                    });
  return true;
}

/// One step of a sweep: the next tiles, as many as one launch on each stream multiplies, receive
/// the products of all batches that were waiting when the sweep began.
void Engine::sweep(device::Stream& stream) {
  const std::uint64_t tiles = count_tiles(waiting_.first), step = streams_.count() * together_;
  if (swept_.tiles == 0) swept_.end = waiting_.end();
  std::uint64_t products = 0;
  streams_.fork(stream);
  for (std::uint64_t batch = waiting_.first; batch < swept_.end; ++batch) {
    const Range some = intersection({swept_.tiles, step}, {0, tiles});
    multiply(batch, some);
    products += some.count;
  }
  streams_.join();
  tiles_.multiplied(stream, products);
  swept_.tiles += step;
  if (swept_.tiles < tiles) return;
  waiting_ = {swept_.end, waiting_.end() - swept_.end};
  swept_.tiles = 0;
}

void Engine::record_computed(device::Stream& stream) {
  std::swap(computed_, computed_before_);
  stream.record(*computed_);
}

/// Multiplies the waiting batches, which end with the super-tile's last one, tile by tile, and
/// sends the tiles to the host. While one stream checks a tile, the other one multiplies the next.
void Engine::finish_super_tile(device::Stream& stream) {
  const std::uint64_t end = waiting_.end(), super_number = plan_.batch(end - 1).super_tile;
  const std::uint64_t tiles = count_tiles(end - 1);
  streams_.fork(stream);
  for (std::uint64_t i = 0; i < tiles; i += together_) {
    const Range some = intersection({i, together_}, {0, tiles});
    const std::uint64_t begin = i < swept_.tiles ? swept_.end : waiting_.first;
    for (std::uint64_t batch = begin; batch < end; ++batch) multiply(batch, some);
    for (std::uint64_t t = some.first; t < some.end(); ++t) {
      finish_tile(streams_[turn_of(t)], turn_of(t), super_number, t, end - begin);
    }
  }
  streams_.join();
  waiting_ = {end, 0};
  swept_.tiles = 0;
  record_computed(stream);
}

/// Adds the batch to the references that the check compares C with.
void Engine::add_products(device::Stream& stream, std::uint64_t number) {
  const auto [super_number, block] = plan_.batch(number);
  const SuperTile& extent = super_tiles_[super_number].extent;
  const gemm::Tile& tile = plan_.problem().tile;
  const Panels::Batch& panels = panels_.batch(number);
  if (super_tiles_[super_number].tiles.empty()) return;
  variables_.add(stream, number, panels_);
  const bool first = block == plan_.part.blocks.first;
  const std::uint64_t slices = plan_.shape.check_slices;
  if (tile.is_narrow()) {
    stream.launch(gemm::narrow_sums_kernel(),
                  {panels.b, operands_.precision, tile.n, panels.k, sign_seed, z_, row_squares_,
                   column_squares_, first, slices, check_pitch_});
    return;
  }
  stream.launch(gemm::add_products_kernel(),
                {panels.a, operands_.precision, plan_.shape.panel_rows(extent.rows.count), panels.k,
                 panels.a_ld, panels.y, plan_.problem().moments.planes * extent.columns.count, z_,
                 row_squares_, column_squares_, first, slices, check_pitch_});
}

/// Adds the slices of the current super-tile into the first one. Runs after its last
/// add_products().
void Engine::join_slices(device::Stream& stream) {
  if (count_tiles(waiting_.end() - 1) == 0) return;
  double* const sums = check_.data();
  for (std::uint64_t half = plan_.shape.check_slices / 2; half > 0; half /= 2) {
    const std::uint64_t count = half * check_pitch_;
    stream.launch(gemm::add_kernel(), {sums, sums + count, sums, gemm::Precision::fp64, count});
  }
}

/// Adds the batch's products to some of the super-tile's tiles, each on its stream. In the first
/// batch of a super-tile, each tile waits until the previous tile in its accumulator has left. At
/// the end of a segment of K the sums are folded. With one stream, one launch multiplies all tiles,
/// except in the first batch.
void Engine::multiply(std::uint64_t number, Range tiles) {
  const auto [super_number, block] = plan_.batch(number);
  const Panels::Batch& panels = panels_.batch(number);
  const PlacedSuperTile& all = super_tiles_[super_number];
  const BlockStep step = plan_.step(block);
  const bool begins = block == plan_.part.blocks.first;
  const std::uint64_t at_once = begins || streams_.count() > 1 ? together_ : tiles.count;
  const std::uint64_t elements = moments_ * plan_.problem().tile.m * plan_.problem().tile.n;
  for (std::uint64_t first = tiles.first; first < tiles.end(); first += at_once) {
    const Range some = intersection({first, at_once}, tiles);
    const unsigned turn = turn_of(first);
    device::Stream& stream = streams_[turn];
    if (begins) {
      for (std::uint64_t i = some.first; i < some.end(); ++i) {
        tiles_.wait(stream, departures_[all.first + i]);
      }
    }
    stream.launch(gemm::multiply_kernel(), {.plan = &library_,
                                            .k = panels.k,
                                            .a = panels.a_factor,
                                            .b = panels.b_factor,
                                            .ldb = panels.b_factor_ld,
                                            .tiles = target(all, step.level, some.first),
                                            .at = all.at.data() + some.first * moments_,
                                            .count = some.count * moments_,
                                            .first = step.begins,
                                            .workspace = turn,
                                            .residues = {panels.a_residues, panels.b_residues}});
    if (step.ends) join_lanes(stream, all, step.level, some);
    for (std::uint64_t level = step.level; level > step.level - step.folds; --level) {
      std::byte* const left = accumulator(level - 1, all.first + some.first);
      stream.launch(gemm::add_kernel(), {left, accumulator(level, all.first + some.first), left,
                                         operands_.precision, some.count * elements});
    }
  }
}

/// Adds the lanes of each moment of each tile into its accumulator: the upper half of the lanes is
/// added to the lower half, until one is left. In a narrow product it is unfolded into the
/// accumulator.
void Engine::join_lanes(device::Stream& stream, const PlacedSuperTile& of, std::uint64_t level,
                        Range tiles) {
  const gemm::Tile& tile = plan_.problem().tile;
  const Range each{tiles.first * moments_, tiles.count * moments_};
  for (std::uint64_t i = each.first; i < each.end(); ++i) {
    const std::uint64_t index = i / moments_, moment = i % moments_;
    std::byte* const sums = target(of, level, index) + moment * tile.lanes * lane_bytes_;
    std::byte* const to = accumulator(level, of.first + index) + moment * (tile_bytes_ / moments_);
    for (std::uint64_t half = tile.lanes / 2; half > 0; half /= 2) {
      const bool last = half == 1 && !tile.is_narrow();
      stream.launch(gemm::add_kernel(), {sums, sums + half * lane_bytes_, last ? to : sums,
                                         operands_.precision, half * tile.lane_elements()});
    }
    if (tile.is_narrow()) {
      stream.launch(gemm::unfold_kernel(), {sums, to, operands_.precision, tile.n, tile.fold});
    }
  }
}

/// Adds the references of the check, and the partial sums of each tile, of all layers. Each layer
/// finishes some tiles. If this rank has no tiles, the ranks that it would exchange with have none
/// either.
void Engine::exchange(device::Stream& stream, std::uint64_t super_number) {
  const std::uint64_t tiles = super_tiles_[super_number].tiles.size();
  const std::uint64_t layers = plan_.shape.box.depth;
  if (tiles == 0) return;
  const LayerExchange::Streams streams{stream, ring_.arrivals()};
  exchange_.gather_check(streams, check_.data(), check_pitch_, variables_);
  settle(stream, super_number);
  for (std::uint64_t first = 0; first < tiles; first += layers) {
    exchange_.fold(
        streams,
        [this](std::uint64_t level, std::uint64_t tile) { return accumulator(level, tile); },
        intersection({first, layers}, {0, tiles}));
    const std::uint64_t mine = first + plan_.part.layer;
    if (mine < tiles) finish_tile(stream, 0, super_number, mine, 0);
  }
}

/// Completes the sums of the super-tile's variables.
void Engine::settle(device::Stream& stream, std::uint64_t super_tile) {
  tiles_.wait_for_sums(stream);
  variables_.settle(stream, super_tile, panels_);
}

/// Finishes a tile after all its products. `scratch`: as in TileDrain::finish_tile(). `products`:
/// the number of the tile's products that have not been reported to TileDrain::multiplied().
void Engine::finish_tile(device::Stream& stream, unsigned scratch, std::uint64_t super_tile,
                         std::uint64_t index, std::uint64_t products) {
  const PlacedSuperTile& all = super_tiles_[super_tile];
  const std::uint64_t across = plan_.problem().moments.planes * all.extent.columns.count;
  const std::uint64_t place = all.first + index;
  tiles_.finish_tile(stream, scratch,
                     {.group = super_tile,
                      .tile = all.tiles[index],
                      .data = accumulator(0, place),
                      .products = products},
                     {.z = z_,
                      .z_stride = across,
                      .row_squares = row_squares_,
                      .column_squares = column_squares_,
                      .moments = all.at.data() + index * moments_,
                      .variables = variables_.of(all.tiles[index])},
                     departures_[place]);
}

}  // namespace shardstream::workloads::product
