#include "workloads/gemm_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/error.hpp"
#include "core/units.hpp"
#include "kernels/gemm/panel.hpp"

namespace shardstream::workloads {
namespace {

using device::Buffer;
using device::Memory;

constexpr std::uint64_t sign_seed = 0x73686172;

std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// The part of `wanted` that is below `end`.
Range below(Range wanted, std::uint64_t end) {
  return intersection(wanted, {0, end});
}

template <class T>
std::uint64_t weighted_bits(const T* row, std::uint64_t count, std::uint64_t index) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    sum += std::uint64_t{std::bit_cast<Bits>(row[i])} * (2 * (index + i) + 1);
  }
  return sum;
}

/// In an order that depends on nothing but `count`.
template <class T>
double sum_of_squares(const T* row, std::uint64_t count) {
  constexpr std::uint64_t lanes = 8;
  std::array<double, lanes> sum{};
  std::uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::uint64_t lane = 0; lane < lanes; ++lane) {
      const auto x = static_cast<double>(row[i + lane]);
      sum[lane] += x * x;
    }
  }
  for (; i < count; ++i)
    sum[i % lanes] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

}  // namespace

GemmProduct::GemmProduct(runtime::Runtime& runtime, const GemmOperands& operands,
                         const GemmPlan& plan, const pipeline::Ring& staging,
                         const io::RangeWriter* to)
    : runtime_(runtime),
      operands_(operands),
      plan_(plan),
      staging_(staging),
      to_(to),
      on_host_(runtime.resources.device_is_host),
      panel_element_(gemm::panel_element_bytes(operands.precision, on_host_)),
      element_(gemm::accumulator_bytes(operands.precision)),
      tile_row_bytes_(plan.problem.tile.n * element_),
      tile_bytes_(plan.problem.tile.m * tile_row_bytes_),
      multiply_plan_(gemm::make_multiply_plan(operands.precision, plan.problem.tile, on_host_)),
      ring_(*runtime.device, runtime.recorder, ring_sizes(), &runtime.session.heartbeat()) {
  if (pipeline::mode(runtime.options) == pipeline::Mode::pageable) {
    hold_operands();
  } else {
    check_host_memory(0);
  }
  device::Device& device = *runtime.device;
  const gemm::Tile& tile = plan.problem.tile;
  const auto ranks = plan.problem.ranks;
  const std::uint64_t rows = plan.most_rows * tile.m, columns = plan.most_columns * tile.n;
  const auto doubles = [&](std::uint64_t count) {
    return Buffer<double>(device, Memory::device, count);
  };
  const auto bytes = [&](std::uint64_t count) {
    return Buffer<std::byte>(device, Memory::device, count);
  };
  for (std::uint64_t i = 0; i < plan.ring; ++i) {
    Panels panels;
    if (plan.problem.a.raw) panels.a = bytes(rows * tile.k * panel_element_);
    if (plan.problem.b.raw) panels.b = bytes(ranks * plan.b_part_rows * columns * panel_element_);
    panels.y = doubles(ranks * plan.b_part_rows * 2 * plan.most_columns);
    panels_.push_back(std::move(panels));
  }
  const std::uint64_t tiles = plan.rows.count * plan.tile_columns;
  sums_ = {device, Memory::device, plan.batches() + tiles};
  sums_here_ = {device, Memory::pinned, plan.batches() + tiles};
  read_sums_ = std::vector<std::atomic<std::uint64_t>>(plan.batches());
  if (tiles == 0) return;
  z_ = doubles(rows * plan.most_columns);
  row_squares_ = doubles(rows);
  column_squares_ = doubles(plan.most_columns);
  row_verdicts_ = {device, Memory::device, tile.m};
  accumulators_ = bytes(plan.most_rows * plan.most_columns * tile_bytes_);
  if (operands.c) {
    c_there_ = bytes(tile_bytes_);
    c_here_ = {device, Memory::pinned, tile_bytes_};
    c_read_ = device.make_event();
  }
  verdicts_ = {device, Memory::device, tiles};
  verdicts_here_ = {device, Memory::pinned, tiles};
  taken_sums_ = std::vector<std::atomic<std::uint64_t>>(tiles);
  row_squares_here_.resize(tiles);
  rows_taken_ = std::vector<std::atomic<std::uint64_t>>(tiles);
  tile_squares_.resize(tiles);
  for (std::uint64_t i = 0; i < plan.most_rows * plan.most_columns; ++i) {
    computed_.push_back(device.make_event());
    copied_.push_back(device.make_event());
  }
  drain_.emplace(device, runtime.recorder, drain_slot_bytes(), staging.slots, staging.readers,
                 &runtime.session.heartbeat());
}

/// Also fills what piece() and read() go by.
pipeline::RingSizes GemmProduct::ring_sizes() {
  first_piece_ = {0};
  slot_bytes_ = staging_.slot_bytes;
  std::size_t batch_bytes = 0;
  for (std::uint64_t number = 0; number < plan_.super_tiles(); ++number) {
    const Shape widest = shape(plan_.super_tile(number), 0);
    slot_bytes_ = std::max({slot_bytes_, 8 * widest.a.row_bytes(), 8 * widest.b.row_bytes()});
  }
  for (std::uint64_t number = 0; number < plan_.super_tiles(); ++number) {
    const Shape one = shape(plan_.super_tile(number), 0);
    first_piece_.push_back(first_piece_.back() + one.pieces() * plan_.blocks);
    const std::uint64_t parts = plan_.problem.b.raw ? 1 : plan_.problem.ranks;
    batch_bytes = std::max(batch_bytes, one.panel_offset + parts * one.b.bytes());
    uploaded_ += (one.a.bytes() + one.b.bytes()) * plan_.blocks;
  }
  return {.slot_bytes = slot_bytes_,
          .slots = staging_.slots,
          .readers = staging_.readers,
          .batch_bytes = batch_bytes,
          .batches = plan_.ring,
          .arrivals = true};
}

// ---------------------------------------------------------------- what is uploaded

/// This rank's rows of op(A), and of op(B) its part of each block.
void GemmProduct::hold_operands() {
  const gemm::Tile& tile = plan_.problem.tile;
  const std::vector<Range> rows{
      below({plan_.rows.first * tile.m, plan_.rows.count * tile.m}, operands_.m)};
  std::vector<Range> parts;
  for (std::uint64_t block = 0; block < plan_.blocks; ++block) {
    parts.push_back(plan_.b_part(block).valid);
  }
  const bool a_rows = !operands_.transpose_a, b_rows = !operands_.transpose_b;
  check_host_memory(HeldMatrix::bytes(*operands_.a, a_rows, rows) +
                    HeldMatrix::bytes(*operands_.b, b_rows, parts));
  held_a_.emplace(*runtime_.device, *operands_.a, a_rows, rows);
  held_b_.emplace(*runtime_.device, *operands_.b, b_rows, parts);
}

/// With `held` bytes of A and B, both rings' slots, and what a host has in place of a device.
void GemmProduct::check_host_memory(std::uint64_t held) const {
  const auto& resources = runtime_.resources;
  const std::uint64_t need = held + (slot_bytes_ + drain_slot_bytes()) * staging_.slots +
                             (on_host_ ? plan_.device_bytes : 0);
  const std::uint64_t have = resources.host_memory / resources.ranks_on_host;
  if (need <= have) return;
  throw UsageError(fmt::format(
      "a rank needs {} of host memory and has {}: use {}more hosts", format_size(need),
      format_size(have), held > 0 ? "--pipeline.mode stream, or " : "fewer --pipeline.slots, or "));
}

void GemmProduct::load() {
  if (held_a_) held_a_->load(staging_.readers, runtime_.session.heartbeat());
  if (held_b_) held_b_->load(staging_.readers, runtime_.session.heartbeat());
}

GemmProduct::Shape GemmProduct::shape(const GemmSuperTile& super_tile, std::uint64_t block) const {
  const gemm::Tile& tile = plan_.problem.tile;
  const Range rows{super_tile.rows.first * tile.m, super_tile.rows.count * tile.m};
  const Range columns{super_tile.columns.first * tile.n, super_tile.columns.count * tile.n};
  const Range depth{block * tile.k, tile.k};
  const auto [part, valid_depth] = plan_.b_part(block);
  const auto rectangle = [](const io::Matrix& matrix, const std::optional<HeldMatrix>& held,
                            bool transposed, Range down, Range across, Range valid_down,
                            Range valid_across) -> Rectangle {
    const HeldMatrix* const memory = held ? &*held : nullptr;
    if (transposed) return {&matrix, memory, across, down, valid_across, valid_down};
    return {&matrix, memory, down, across, valid_down, valid_across};
  };
  Shape shape{.a = rectangle(*operands_.a, held_a_, operands_.transpose_a, rows, depth,
                             below(rows, operands_.m), below(depth, operands_.k)),
              .b = rectangle(*operands_.b, held_b_, operands_.transpose_b, part, columns,
                             below(valid_depth, operands_.k), below(columns, operands_.n)),
              .panel_offset = 0,
              .b_offset = 0,
              .a_step = 0,
              .b_step = 0,
              .a_pieces = 0,
              .b_pieces = 0};
  shape.panel_offset = aligned(shape.a.bytes());
  shape.b_offset = shape.panel_offset + (plan_.problem.b.raw ? 0 : plan_.rank * shape.b.bytes());
  shape.a_step = rows_a_piece(shape.a);
  shape.b_step = rows_a_piece(shape.b);
  shape.a_pieces = ceil_div(shape.a.bytes() > 0 ? shape.a.rows.count : 0, shape.a_step);
  shape.b_pieces = ceil_div(shape.b.rows.count, shape.b_step);
  return shape;
}

/// Eight rows are whole words, whatever the element: a rectangle's word sum is its pieces'.
std::uint64_t GemmProduct::rows_a_piece(const Rectangle& rectangle) const {
  const std::size_t eight = 8 * std::max<std::size_t>(1, rectangle.row_bytes());
  return 8 * std::max<std::uint64_t>(1, slot_bytes_ / eight);
}

GemmProduct::Located GemmProduct::locate(std::uint64_t piece) const {
  const auto after = std::ranges::upper_bound(first_piece_, piece);
  const auto super_tile = static_cast<std::uint64_t>(after - first_piece_.begin()) - 1;
  const std::uint64_t in_super_tile = piece - first_piece_[super_tile];
  const std::uint64_t a_batch =
      (first_piece_[super_tile + 1] - first_piece_[super_tile]) / plan_.blocks;
  return {super_tile * plan_.blocks + in_super_tile / a_batch, in_super_tile % a_batch};
}

pipeline::Piece GemmProduct::piece(std::uint64_t number) const {
  const auto [batch, within] = locate(number);
  const auto [super_tile, block] = plan_.batch(batch);
  const Shape all = shape(plan_.super_tile(super_tile), block);
  const bool of_a = within < all.a_pieces;
  const Rectangle& rectangle = of_a ? all.a : all.b;
  const std::uint64_t step = of_a ? all.a_step : all.b_step;
  const std::uint64_t first = (of_a ? within : within - all.a_pieces) * step;
  const std::uint64_t rows = std::min(step, rectangle.rows.count - first);
  return {batch, (of_a ? 0 : all.b_offset) + first * rectangle.row_bytes(),
          rows * rectangle.row_bytes()};
}

/// By readers.
const std::byte* GemmProduct::read(std::uint64_t number, std::byte* slot) {
  const auto [batch, within] = locate(number);
  const auto [super_tile, block] = plan_.batch(batch);
  const Shape all = shape(plan_.super_tile(super_tile), block);
  const bool of_a = within < all.a_pieces;
  const Rectangle& from = of_a ? all.a : all.b;
  const std::uint64_t step = of_a ? all.a_step : all.b_step;
  const std::uint64_t first = (of_a ? within : within - all.a_pieces) * step;
  const Range rows = intersection(from.rows, {from.rows.first + first, step});
  const Range valid = intersection(rows, from.valid_rows);
  const std::size_t row = from.row_bytes(), element = size_of(from.matrix->type());
  const bool whole = valid.count == rows.count && from.valid_columns.count == from.columns.count;
  if (!whole) std::memset(slot, 0, rows.count * row);
  if (valid.count > 0 && from.valid_columns.count > 0) {
    std::byte* const to = slot + (valid.first - rows.first) * row +
                          (from.valid_columns.first - from.columns.first) * element;
    from.held != nullptr ? from.held->read(valid, from.valid_columns, to, row)
                         : from.matrix->read(valid, from.valid_columns, to, row);
  }
  read_sums_[batch] += gemm::word_sum(slot, rows.count * row);
  return slot;
}

// ---------------------------------------------------------------- what is computed

void GemmProduct::run() {
  device::Stream& stream = ring_.compute();
  stream.launch(gemm::zero_kernel(), {sums_.data(), sums_.bytes()});
  stream.synchronize();
  for (auto& sum : read_sums_) sum = 0;
  for (auto& sum : taken_sums_) sum = 0;
  for (auto& rows : rows_taken_) rows = 0;
  checksum_ = 0;
  ring_.run({.batches = plan_.batches(),
             .pieces = first_piece_.back(),
             .piece = [this](std::uint64_t number) { return piece(number); },
             .phase = held_a_ ? "copy" : "read",
             .read = [this](std::uint64_t number, std::byte* slot) { return read(number, slot); },
             .on_arrival = [this](device::Stream& arrive_stream, std::uint64_t number,
                                  std::byte* data) { arrive(arrive_stream, number, data); },
             .on_batch = [this](device::Stream& compute_stream, std::uint64_t number,
                                const std::byte*) { compute(compute_stream, number); }});
  if (drain_) drain_->finish();
  stream.download(sums_here_.data(), sums_.data(), sums_.bytes());
  if (verdicts_.size() > 0) {
    stream.download(verdicts_here_.data(), verdicts_.data(), verdicts_.bytes());
  }
  runtime_.communicator->wait(stream);
}

/// What was uploaded becomes panels, and those of B become whole on every rank.
void GemmProduct::arrive(device::Stream& stream, std::uint64_t number, std::byte* data) {
  const auto [super_number, block] = plan_.batch(number);
  const GemmSuperTile super_tile = plan_.super_tile(super_number);
  const gemm::Tile& tile = plan_.problem.tile;
  const Shape uploaded = shape(super_tile, block);
  Panels& panels = panels_[number % panels_.size()];
  const std::uint64_t rows = super_tile.rows.count * tile.m;
  const std::uint64_t columns = super_tile.columns.count * tile.n;
  const std::uint64_t part = plan_.b_part_rows * columns * panel_element_;
  const std::uint64_t y_part = plan_.b_part_rows * 2 * super_tile.columns.count;
  const std::byte* a = data;
  const std::byte* const b_uploaded = data + uploaded.b_offset;
  if (rows > 0) {
    stream.launch(gemm::word_sum_kernel(), {a, uploaded.a.bytes(), sums_.data() + number});
  }
  stream.launch(gemm::word_sum_kernel(), {b_uploaded, uploaded.b.bytes(), sums_.data() + number});
  if (plan_.problem.a.raw && rows > 0) {
    stream.launch(gemm::canonicalize_kernel(),
                  {a, operands_.a->type(), operands_.transpose_a, panels.a.data(),
                   operands_.precision, rows, tile.k, tile.k});
    a = panels.a.data();
  }
  std::byte* const b = plan_.problem.b.raw ? panels.b.data() : data + uploaded.panel_offset;
  std::byte* const own = b + plan_.rank * part;
  if (plan_.problem.b.raw) {
    stream.launch(gemm::canonicalize_kernel(),
                  {b_uploaded, operands_.b->type(), operands_.transpose_b, own, operands_.precision,
                   plan_.b_part_rows, columns, columns});
  }
  double* const own_y = panels.y.data() + plan_.rank * y_part;
  stream.launch(gemm::signed_sums_kernel(),
                {own, operands_.precision, plan_.b_part_rows, columns, tile.n,
                 super_tile.columns.count, sign_seed, super_tile.columns.first * tile.n, own_y});
  panels.a_now = a;
  panels.b_now = b;
  if (plan_.problem.ranks == 1) return;
  comm::Communicator& communicator = *runtime_.communicator;
  communicator.all_gather(stream, own, b, part);
  communicator.all_gather(stream, own_y, panels.y.data(), y_part * sizeof(double));
}

/// In its super-tile's first block tiles wait, few by few, until what stood in their place has left
/// the device; in its last they leave few by few.
void GemmProduct::compute(device::Stream& stream, std::uint64_t number) {
  const auto [super_number, block] = plan_.batch(number);
  const GemmSuperTile super_tile = plan_.super_tile(super_number);
  const Range rows = super_tile.rows, columns = super_tile.columns;
  if (plan_.count_tiles(super_tile) == 0) return;
  const gemm::Tile& tile = plan_.problem.tile;
  const Panels& panels = panels_[number % panels_.size()];
  const bool first = block == 0, last = block + 1 == plan_.blocks;
  stream.launch(
      gemm::add_products_kernel(),
      {panels.a_now, operands_.precision, rows.count * tile.m, tile.k, tile.k, panels.y.data(),
       columns.count, z_.data(), row_squares_.data(), column_squares_.data(), first});
  if (!first && !last) return multiply(stream, number, 0, 0, rows.count, columns.count);
  constexpr std::uint64_t together = 2;  // a GPU computes two tiles side by side
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    for (std::uint64_t column = 0; column < columns.count; column += together) {
      const Range some = intersection({column, together}, {0, columns.count});
      for (std::uint64_t i = some.first; first && i < some.end(); ++i) {
        stream.wait(*copied_[row * columns.count + i]);
      }
      multiply(stream, number, row, column, 1, some.count);
      for (std::uint64_t i = some.first; last && i < some.end(); ++i) {
        finish_tile(stream, number, row, i);
      }
    }
  }
  if (!last) return;
  // Now that all is enqueued: pushing waits for writers.
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    for (std::uint64_t column = 0; column < columns.count; ++column) {
      drain_tile(place(super_tile, row, column), row * columns.count + column);
    }
  }
}

void GemmProduct::multiply(device::Stream& stream, std::uint64_t number, std::uint64_t row,
                           std::uint64_t column, std::uint64_t rows, std::uint64_t columns) {
  const auto [super_number, block] = plan_.batch(number);
  const std::uint64_t across = plan_.super_tile(super_number).columns.count;
  const gemm::Tile& tile = plan_.problem.tile;
  const Panels& panels = panels_[number % panels_.size()];
  stream.launch(gemm::multiply_kernel(),
                {multiply_plan_.get(), panels.a_now + row * tile.m * tile.k * panel_element_,
                 panels.b_now + column * tile.n * panel_element_, across * tile.n,
                 accumulator(row * across + column), rows, columns, block == 0});
}

GemmProduct::Place GemmProduct::place(const GemmSuperTile& super_tile, std::uint64_t row,
                                      std::uint64_t column) const {
  const gemm::Tile& tile = plan_.problem.tile;
  const std::uint64_t down = super_tile.rows.first + row,
                      across = super_tile.columns.first + column;
  return {(down - plan_.rows.first) * plan_.tile_columns + across,
          below({down * tile.m, tile.m}, operands_.m),
          below({across * tile.n, tile.n}, operands_.n)};
}

/// The tile is whole: it is checked, becomes C, and leaves.
void GemmProduct::finish_tile(device::Stream& stream, std::uint64_t number, std::uint64_t row,
                              std::uint64_t column) {
  const std::uint64_t super_number = plan_.batch(number).super_tile;
  const GemmSuperTile super_tile = plan_.super_tile(super_number);
  const gemm::Tile& tile = plan_.problem.tile;
  const std::uint64_t across = super_tile.columns.count, index = row * across + column;
  const Place here = place(super_tile, row, column);
  std::byte* const sums = accumulator(index);
  const gemm::CheckTileArgs check{.tile = sums,
                                  .precision = operands_.precision,
                                  .rows = here.rows.count,
                                  .columns = here.columns.count,
                                  .ld = tile.n,
                                  .seed = sign_seed,
                                  .first_column = here.columns.first,
                                  .k = operands_.k,
                                  .z = z_.data() + row * tile.m * across + column,
                                  .z_stride = across,
                                  .row_squares = row_squares_.data() + row * tile.m,
                                  .column_squares = column_squares_.data() + column,
                                  .row_verdicts = row_verdicts_.data(),
                                  .verdict = verdicts_.data() + here.number};
  stream.launch(gemm::check_rows_kernel(), check);
  stream.launch(gemm::verdict_kernel(), check);
  if (operands_.alpha != 1 || operands_.beta != 0) add_c(stream, here, sums);
  const std::size_t bytes = here.rows.count * tile_row_bytes_;
  stream.launch(gemm::word_sum_kernel(),
                {sums, bytes, sums_.data() + plan_.batches() + here.number});
  stream.record(*computed_[index]);
}

void GemmProduct::add_c(device::Stream& stream, const Place& place, std::byte* tile) {
  const std::byte* c = nullptr;
  if (operands_.c) {
    c_read_->synchronize();  // the tile before has been uploaded
    read_c(place);
    runtime_.session.heartbeat().move();
    stream.upload(c_there_.data(), c_here_.data(),
                  place.rows.count * place.columns.count * element_);
    stream.record(*c_read_);
    c = c_there_.data();
  }
  stream.launch(gemm::finish_kernel(), {tile, operands_.precision, place.rows.count,
                                        place.columns.count, plan_.problem.tile.n, operands_.alpha,
                                        operands_.beta, c, tile, plan_.problem.tile.n});
}

/// Into c_here_, dense, in C's type.
void GemmProduct::read_c(const Place& place) {
  const std::uint64_t columns = place.columns.count, count = place.rows.count * columns;
  const ElementType type = operands_.c->type();
  if (type == (element_ == 8 ? ElementType::f64 : ElementType::f32)) {
    return operands_.c->read(place.rows, place.columns, c_here_.data(), columns * element_);
  }
  c_stored_.resize(count * size_of(type));
  operands_.c->read(place.rows, place.columns, c_stored_.data(), columns * size_of(type));
  with_element_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    const auto* const from = reinterpret_cast<const T*>(c_stored_.data());
    if (element_ == 8) {
      std::transform(from, from + count, reinterpret_cast<double*>(c_here_.data()),
                     [](T x) { return static_cast<double>(x); });
    } else {
      std::transform(from, from + count, reinterpret_cast<float*>(c_here_.data()),
                     [](T x) { return static_cast<float>(x); });
    }
  });
}

/// In pieces of whole words. The accumulator may be used again behind the last of them.
void GemmProduct::drain_tile(const Place& place, std::uint64_t index) {
  const std::uint64_t step = drain_slot_bytes() / (8 * tile_row_bytes_) * 8;
  row_squares_here_[place.number].resize(place.rows.count);
  for (std::uint64_t first = 0; first < place.rows.count; first += step) {
    const Range rows = intersection(place.rows, {place.rows.first + first, step});
    drain_->push(*computed_[index], accumulator(index) + first * tile_row_bytes_,
                 rows.count * tile_row_bytes_, *copied_[index],
                 [this, place, rows](const std::byte* data) { take(place, rows, data); });
  }
}

/// By writers: some rows of a tile of C.
void GemmProduct::take(const Place& place, Range rows, const std::byte* data) {
  taken_sums_[place.number] += gemm::word_sum(data, rows.count * tile_row_bytes_);
  if (to_ != nullptr) to_->write(rows, place.columns, data, tile_row_bytes_);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    const std::byte* const row = data + i * tile_row_bytes_;
    const std::uint64_t index = (rows.first + i) * operands_.n + place.columns.first;
    double& squares = row_squares_here_[place.number][rows.first - place.rows.first + i];
    if (element_ == sizeof(double)) {
      const auto* const values = reinterpret_cast<const double*>(row);
      sum += weighted_bits(values, place.columns.count, index);
      squares = sum_of_squares(values, place.columns.count);
    } else {
      const auto* const values = reinterpret_cast<const float*>(row);
      sum += weighted_bits(values, place.columns.count, index);
      squares = sum_of_squares(values, place.columns.count);
    }
  }
  checksum_ += sum;
  if ((rows_taken_[place.number] += rows.count) < place.rows.count) return;
  // The last of the tile: its rows are added in their order.
  std::vector<double>& squares = row_squares_here_[place.number];
  tile_squares_[place.number] = std::accumulate(squares.begin(), squares.end(), 0.0);
  squares = {};
}

// ---------------------------------------------------------------- whether it is right

GemmVerdict GemmProduct::verdict() const {
  GemmVerdict verdict;
  verdict.checksum = checksum_;
  const auto fail = [&](const std::string& failure) {
    if (verdict.failure.empty()) verdict.failure = failure;
  };
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    if (read_sums_[batch] == sums_here_[batch]) continue;
    fail(fmt::format(
        "the panels of block {} of K are not on the device as they were read on rank {}",
        plan_.batch(batch).block, plan_.rank));
  }
  const gemm::Tile& tile = plan_.problem.tile;
  for (std::uint64_t number = 0; number < verdicts_here_.size(); ++number) {
    const gemm::TileVerdict& one = verdicts_here_[number];
    const std::uint64_t row = plan_.rows.first + number / plan_.tile_columns;
    const std::uint64_t column = number % plan_.tile_columns;
    verdict.worst = std::max(verdict.worst, one.worst);
    verdict.smallest_caught = std::max(verdict.smallest_caught, one.smallest_caught);
    verdict.unchecked += one.unchecked;
    if (one.failures > 0) {
      fail(fmt::format(
          "{} rows of C in columns {} to {} are wrong, the worst of them row {} "
          "({:.3g} times the bound)",
          one.failures, column * tile.n, std::min((column + 1) * tile.n, operands_.n) - 1,
          row * tile.m + one.worst_row, one.worst));
    }
    if (taken_sums_[number] != sums_here_[plan_.batches() + number]) {
      fail(fmt::format("rows {} to {} of C came to the host otherwise than they left the device",
                       row * tile.m, std::min((row + 1) * tile.m, operands_.m) - 1));
    }
    verdict.squares.push_back(tile_squares_[number]);
  }
  return verdict;
}

}  // namespace shardstream::workloads
