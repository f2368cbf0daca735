#include "workloads/product/engine/panels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/units.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/memory/memory.hpp"
#include "workloads/product/engine/reading.hpp"

namespace shardstream::workloads::product {
namespace {

using device::Buffer;
using device::Memory;

/// The number of variables, rounded up to whole tiles. The padding is not used.
std::uint64_t whole_variables(const Operands& operands, const gemm::Tile& tile) {
  return ceil_div(operands.n, tile.n) * tile.n;
}

gemm::PanelWork panel_work(const Operands& operands, gemm::Side side, Backend backend) {
  return gemm::panel_work(operands.matrix(side).type(), operands.precision, backend,
                          operands.transposed(side), operands.normalizes());
}

/// The first corrupted part of a gathered panel. `sums`: checksums of all parts as sent, then as
/// received.
std::optional<std::uint64_t> wrong_part(const std::uint64_t* sums, std::uint64_t parts) {
  const auto* const wrong = std::mismatch(sums, sums + parts, sums + parts).first;
  if (wrong == sums + parts) return std::nullopt;
  return static_cast<std::uint64_t>(wrong - sums);
}

}  // namespace

UploadedOperand uploaded_operand(const Operands& operands, gemm::Side side, Backend backend) {
  const gemm::PanelWork work = panel_work(operands, side, backend);
  const bool as_stored = work == gemm::PanelWork::canonicalize;
  return {as_stored ? size_of(operands.matrix(side).type())
                    : gemm::panel_element_bytes(operands.precision, backend),
          work != gemm::PanelWork::none};
}

Panels::Panels(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
               const pipeline::Ring& staging, std::uint64_t other_host_bytes)
    : runtime_(runtime),
      operands_(operands),
      plan_(plan),
      staging_(staging),
      backend_(runtime.resources.backend),
      element_(gemm::panel_element_bytes(operands.precision, backend_)),
      read_(plan.batches()) {
  measure_ring();
  open_parts();  // collective, so before an error on one rank
  if (pipeline::mode(runtime.options) == pipeline::Mode::pageable) {
    hold_operands(other_host_bytes);
  } else {
    check_host_memory(0, other_host_bytes);
  }
  device::Device& device = *runtime.device;
  const auto bytes = [&](std::uint64_t count) {
    return Buffer<std::byte>(device, Memory::device, count);
  };
  const Buffers& buffers = plan.buffers;
  for (std::uint64_t i = 0; i < plan.ring; ++i) {
    Own own;
    if (plan.problem.a.raw) own.a = bytes(buffers.batch.a_panel);
    if (plan.problem.b.raw) own.b = bytes(buffers.batch.b_panel);
    own.a_factor = bytes(buffers.batch.a_factor);
    own.b_factor = bytes(buffers.batch.b_factor);
    own.y = {device, Memory::device, buffers.batch.y / sizeof(double)};
    own_.push_back(std::move(own));
  }
  if (plan.cut.keeps_b && !plan.idle) {
    const bool turned = gemm::multiplies_transposed_b(operands.precision, backend_);
    for (std::uint64_t i = 0; i < plan.own_blocks.count; ++i) {
      kept_.push_back({bytes(turned ? buffers.batch.b_factor : buffers.batch.b_panel),
                       {device, Memory::device, buffers.batch.y / sizeof(double)}});
    }
  }
  const std::uint64_t variables = plan.idle ? 0 : whole_variables(operands, plan.problem.tile);
  if (operands.center) shift_ = {device, Memory::device, variables};
  if (operands.normalizes()) scale_ = {device, Memory::device, variables};
  sums_ = {device, Memory::device, plan.batches() * plan.batch_sums()};
}

void Panels::open_parts() {
  comm::Communicator& all = *runtime_.communicator;
  const Box& box = plan_.box;
  // Idle ranks form a part of their own, which gathers nothing.
  const auto split = [&](std::uint64_t part, std::uint64_t of, std::uint64_t key) {
    const std::uint64_t color = plan_.idle ? box.depth * of : plan_.layer * of + part;
    return all.split(static_cast<int>(color), static_cast<int>(key));
  };
  if (box.columns > 1) {
    own_row_ = split(plan_.row, box.rows, plan_.column);
    a_parts_ = own_row_.get();
  }
  if (box.rows > 1 && box.rows < plan_.problem.ranks.count) {
    own_column_ = split(plan_.column, box.columns, plan_.row);
    b_parts_ = own_column_.get();
  } else if (box.rows > 1) {
    b_parts_ = &all;
  }
}

/// Computes the sizes of the ring, and the tables that pieces are found with.
void Panels::measure_ring() {
  first_piece_ = {0};
  sizes_ = {.slot_bytes = plan_.idle ? 0 : staging_.slot_bytes,
            .slots = staging_.slots,
            .readers = staging_.readers,
            .batches = plan_.ring,
            .arrivals = true};
  for (std::uint64_t number = 0; number < plan_.super_tiles(); ++number) {
    const SuperTile tiles = plan_.super_tile(number);
    extents_.push_back({tiles, plan_.a_part(tiles), plan_.a_from_b(tiles)});
  }
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    const Upload one = upload(batch);
    for (const Rectangle* each : {&one.a, &one.b}) {
      const std::size_t min = whole_word_rows(each->row_bytes()) * each->stored_row_bytes();
      sizes_.slot_bytes = std::max(sizes_.slot_bytes, min);
    }
  }
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    const Upload one = upload(batch);
    first_piece_.push_back(first_piece_.back() + one.pieces());
    sizes_.batch_bytes = std::max(sizes_.batch_bytes, aligned(one.bytes));
    uploaded_ += one.a.bytes() + one.b.bytes();
  }
}

// ---------------------------------------------------------------- uploads

/// Holds this rank's parts of all panels in host memory.
void Panels::hold_operands(std::uint64_t other_host_bytes) {
  const auto [first_block, blocks] = plan_.own_blocks;
  const Range depth = intersection(plan_.depth(plan_.own_blocks), {0, operands_.k});
  const Range columns = elements_of(plan_.columns, plan_.problem.tile.n, operands_.n);
  std::vector<Range> a_rows, b_rows;
  for (const Extent& extent : extents_) {
    const Range part = extent.a_part.valid;
    if (part.count > 0 && (a_rows.empty() || part != a_rows.back())) a_rows.push_back(part);
  }
  for (std::uint64_t block = first_block; block < first_block + blocks; ++block) {
    b_rows.push_back(plan_.b_part(block).valid);
  }
  check_host_memory(HeldMatrix::bytes(*operands_.a, a_rows, depth) +
                        HeldMatrix::bytes(*operands_.b, b_rows, columns),
                    other_host_bytes);
  const auto axis = [](bool transposed) { return transposed ? Axis::columns : Axis::rows; };
  held_a_.emplace(*runtime_.device, *operands_.a, axis(operands_.transpose_a), a_rows, depth);
  held_b_.emplace(*runtime_.device, *operands_.b, axis(operands_.transpose_b), b_rows, columns);
}

/// Throws UsageError if host memory is too small for `held` bytes of A and B, the slots, `other`
/// bytes and, on the host backend, the buffers of the plan.
void Panels::check_host_memory(std::uint64_t held, std::uint64_t other) const {
  const auto& resources = runtime_.resources;
  const std::uint64_t staging = other + sizes_.slot_bytes * sizes_.slots;
  const std::uint64_t in_place = backend_ == Backend::host ? plan_.device_bytes : 0;
  const std::uint64_t need = held + staging + in_place;
  const std::uint64_t have = resources.host_memory / resources.ranks_on_host;
  if (need <= have) return;
  const std::string remedy = held > 0 ? "--pipeline.mode stream"
                             : in_place > 0 && have > staging
                                 ? fmt::format("--pipeline.gpu-memory {}B", have - staging)
                                 : "fewer --pipeline.readers and --pipeline.slots";
  throw UsageError(fmt::format(
      "a rank needs {} of host memory and has {}: use {}, or start fewer ranks per host",
      format_size(need), format_size(have), remedy));
}

void Panels::load() {
  for (auto* const held : {&held_a_, &held_b_}) {
    if (!*held) continue;
    Progress progress(held == &held_a_ ? "loading A" : "loading B",
                      static_cast<double>((*held)->bytes()), runtime_.session.rank() == 0);
    (*held)->load(staging_.readers, runtime_.session.heartbeat(), progress);
  }
}

std::uint64_t Panels::normalization_bytes(const Operands& operands, const gemm::Tile& tile) {
  const std::uint64_t each = aligned(whole_variables(operands, tile) * sizeof(double));
  return (operands.center ? each : 0) + (operands.normalizes() ? each : 0);
}

void Panels::normalize(device::Stream& stream, const Normalization& normalization) {
  if (plan_.idle) return;
  const auto fill = [&](std::vector<double> values, Buffer<double>& there) {
    expect(values.empty() == (there.size() == 0), "centred variables have shifts and scales");
    if (values.empty()) return;
    values.resize(there.size(), 1);
    stream.upload(there.data(), values.data(), there.bytes());
    stream.synchronize();
  };
  fill(normalization.shift, shift_);
  fill(normalization.scale, scale_);
}

/// A rectangle of op(A) or op(B). It is transposed if the data set holds the transpose.
Panels::Rectangle Panels::rectangle(gemm::Side side, Range rows, Range columns, Range valid_rows,
                                    Range valid_columns) const {
  const io::Matrix& matrix = operands_.matrix(side);
  const std::optional<HeldMatrix>& held = side == gemm::Side::b ? held_b_ : held_a_;
  const bool rounded = readers_round(operands_, side, backend_);
  Rectangle made{.matrix = &matrix,
                 .held = held ? &*held : nullptr,
                 .rows = rows,
                 .columns = columns,
                 .valid_rows = valid_rows,
                 .valid_columns = valid_columns,
                 .element = rounded ? element_ : size_of(matrix.type()),
                 .rounded = rounded};
  if (operands_.transposed(side)) {
    std::swap(made.rows, made.columns);
    std::swap(made.valid_rows, made.valid_columns);
  }
  return made;
}

/// The parts of a panel are contiguous. B's panel begins at a multiple of 256 bytes.
Panels::Upload Panels::upload(std::uint64_t batch) const {
  const gemm::Tile& tile = plan_.problem.tile;
  const auto [super_tile, block] = plan_.batch(batch);
  const Extent& extent = extents_[super_tile];
  const Range columns = elements_of(extent.tiles.columns, tile.n), depth = plan_.depth({block, 1});
  Upload made{};
  made.k = depth.count;
  made.a_ld = gemm::a_ld(operands_.precision, made.k, backend_);
  made.a_part = extent.a_part;
  if (!has_b(super_tile)) made.b_part = plan_.b_part(block);
  made.a = rectangle(gemm::Side::a, made.a_part.rows, depth, made.a_part.valid,
                     intersection(depth, {0, operands_.k}));
  made.b = rectangle(gemm::Side::b, made.b_part.rows, columns, made.b_part.valid,
                     elements_of(extent.tiles.columns, tile.n, operands_.n));
  const bool raw_a = plan_.problem.a.raw, raw_b = plan_.problem.b.raw;
  made.a_pitch = raw_a ? made.a.row_bytes() : made.a_ld * element_;
  const std::size_t a = made.a.rows.count * made.a_pitch, b = made.b.bytes();
  made.a_offset = raw_a ? 0 : plan_.column * a;
  // An A panel that is transposed from B's takes the place of an uploaded one.
  const bool turned = !raw_a && extent.a_from_b;
  const std::size_t a_panel =
      turned ? extent.tiles.rows.count * tile.m * made.a_ld * element_ : plan_.box.columns * a;
  made.b_panel = aligned(raw_a ? a : a_panel);
  made.b_offset = made.b_panel + (raw_b ? 0 : plan_.row * b);
  made.bytes = made.b_panel + (raw_b ? b : plan_.box.rows * b);
  const auto step = [&](const Rectangle& each) {
    return rows_a_piece(sizes_.slot_bytes, each.stored_row_bytes(), each.row_bytes());
  };
  made.a_step = step(made.a);
  made.b_step = step(made.b);
  made.a_pieces = a > 0 ? ceil_div(made.a.rows.count, made.a_step) : 0;
  made.b_pieces = b > 0 ? ceil_div(made.b.rows.count, made.b_step) : 0;
  return made;
}

Panels::Rows Panels::locate(std::uint64_t piece) const {
  const auto after = std::ranges::upper_bound(first_piece_, piece);
  const auto batch = static_cast<std::uint64_t>(after - first_piece_.begin()) - 1;
  const std::uint64_t within = piece - first_piece_[batch];
  const Upload all = upload(batch);
  const bool of_a = within < all.a_pieces;
  const Rectangle& rectangle = of_a ? all.a : all.b;
  const std::uint64_t step = of_a ? all.a_step : all.b_step;
  const std::uint64_t first = (of_a ? within : within - all.a_pieces) * step;
  const std::size_t pitch = of_a ? all.a_pitch : rectangle.row_bytes();
  return {batch, rectangle, intersection(rectangle.rows, {rectangle.rows.first + first, step}),
          (of_a ? all.a_offset : all.b_offset) + first * pitch, pitch};
}

pipeline::Piece Panels::piece(std::uint64_t number) const {
  const Rows some = locate(number);
  const Lines they = lines(some.rows.count, some.rectangle.row_bytes(), some.pitch);
  return {some.batch, some.offset, they.rows * they.row_bytes, they.rows, they.pitch};
}

const std::byte* Panels::read(std::uint64_t number, std::byte* slot) {
  const Rows some = locate(number);
  const Rectangle& from = some.rectangle;
  const Bringing bringing{.type = from.matrix->type(),
                          .precision = operands_.precision,
                          .backend = backend_,
                          .rounded = from.rounded,
                          .from_memory = from.held != nullptr,
                          .columns = from.columns.count,
                          .element = from.element};
  read_[some.batch] += bring(bringing, some.rows.count, slot, [&](Range rows, std::byte* to) {
    return stored_rows(from, {some.rows.first + rows.first, rows.count}, to);
  });
  return slot;
}

/// Returns the rows as stored, dense, with zeros outside the valid part: in the memory that holds
/// them, or at `to`.
const std::byte* Panels::stored_rows(const Rectangle& from, Range rows, std::byte* to) {
  const Range valid = intersection(rows, from.valid_rows);
  const std::size_t row = from.stored_row_bytes();
  const bool whole = valid.count == rows.count && from.valid_columns.count == from.columns.count;
  if (whole && from.held != nullptr) {
    if (const std::byte* const there = from.held->dense(rows, from.columns)) return there;
  }
  if (!whole) std::memset(to, 0, rows.count * row);
  if (valid.count == 0 || from.valid_columns.count == 0) return to;
  std::byte* const first =
      to + (valid.first - rows.first) * row +
      (from.valid_columns.first - from.columns.first) * size_of(from.matrix->type());
  from.held != nullptr ? from.held->read(valid, from.valid_columns, first, row)
                       : from.matrix->read(valid, from.valid_columns, first, row);
  return to;
}

// ---------------------------------------------------------------- arrivals

void Panels::begin(device::Stream& stream) {
  stream.launch(gemm::zero_kernel(), {sums_.data(), sums_.bytes()});
  stream.synchronize();
  for (auto& sum : read_) sum = 0;
}

/// Turns an upload into panels, gathers them, and makes the factors that are multiplied.
void Panels::arrive(device::Stream& stream, std::uint64_t number, std::byte* data) {
  const Extent& extent = extents_[plan_.batch(number).super_tile];
  const SuperTile& super_tile = extent.tiles;
  const Upload uploaded = upload(number);
  const auto add = [&](const Rectangle& rectangle, std::size_t offset, std::size_t pitch) {
    if (rectangle.bytes() == 0) return;
    add_words(stream, data + offset, lines(rectangle.rows.count, rectangle.row_bytes(), pitch),
              sums_of(number));
  };
  add(uploaded.a, uploaded.a_offset, uploaded.a_pitch);
  add(uploaded.b, uploaded.b_offset, uploaded.b.row_bytes());
  Own& own = own_[number % own_.size()];
  own.now = {};
  own.now.k = uploaded.k;
  own.now.a_ld = uploaded.a_ld;
  own.now.y = own.y.data();
  own.sums = sums_of(number);
  const auto [super_number, block] = plan_.batch(number);
  if (has_b(super_number)) {
    const Kept& kept = kept_[block - plan_.own_blocks.first];
    own.now.b_factor = kept.factor.data();
    own.now.b_factor_ld = kept.ld;
    own.now.y = kept.y.data();
  } else {
    own.now.b = own.now.b_factor = arrive_b(stream, uploaded, data, own, super_tile);
    own.now.b_factor_ld = super_tile.columns.count * plan_.problem.tile.n;
    if (gemm::multiplies_transposed_b(operands_.precision, backend_)) {
      turn_b(stream, super_tile, own);
    }
    if (plan_.cut.keeps_b && plan_.super_tiles() > 1) {
      keep_b(stream, super_tile, own, kept_[block - plan_.own_blocks.first]);
    }
  }
  own.now.a = own.now.a_factor = extent.a_from_b ? turn_into_a(stream, super_tile, data, own)
                                                 : arrive_a(stream, uploaded, data, own);
  if (gemm::splits(operands_.precision)) split(stream, super_tile, own);
}

Panels::Lines Panels::lines(std::uint64_t rows, std::size_t row_bytes, std::size_t pitch) {
  if (pitch == row_bytes) return {1, rows * row_bytes, rows * row_bytes};
  return {rows, row_bytes, pitch};
}

void Panels::add_words(device::Stream& stream, const std::byte* first, const Lines& lines,
                       std::uint64_t* sum) {
  stream.launch(gemm::word_checksum_kernel(),
                {first, lines.row_bytes, sum, lines.rows, lines.pitch});
}

const std::byte* Panels::arrive_a(device::Stream& stream, const Upload& uploaded, std::byte* data,
                                  Own& own) {
  const bool raw = plan_.problem.a.raw;
  std::byte* const panel = raw ? own.a.data() : data;
  const Lines part =
      lines(uploaded.a_part.rows.count, uploaded.k * element_, uploaded.a_ld * element_);
  std::byte* const mine = panel + plan_.column * part.bytes();
  if (raw) make_panel(stream, gemm::Side::a, uploaded, data + uploaded.a_offset, mine);
  if (a_parts_ != nullptr && part.bytes() > 0) {
    gather(stream, *a_parts_, panel, part, own.sums + 1);
  }
  return panel;
}

/// Gathers a panel on which both sides of C's check depend, so that the check cannot find an error
/// in it. Checksums of its parts can: `sums` are those of all parts as sent, then as received. This
/// rank's part is already in its place.
void Panels::gather(device::Stream& stream, comm::Communicator& parts, std::byte* panel,
                    const Lines& part, std::uint64_t* sums) const {
  const auto own = static_cast<std::uint64_t>(parts.rank());
  const auto count = static_cast<std::uint64_t>(parts.size());
  std::byte* const mine = panel + own * part.bytes();
  add_words(stream, mine, part, sums + own);
  parts.all_gather(stream, mine, panel, part.bytes());
  parts.all_gather(stream, sums + own, sums, sizeof(*sums));
  for (std::uint64_t i = 0; i < count; ++i) {
    add_words(stream, panel + i * part.bytes(), part, sums + count + i);
  }
}

/// Also computes B's signed sums, for the check of C.
const std::byte* Panels::arrive_b(device::Stream& stream, const Upload& uploaded, std::byte* data,
                                  Own& own, const SuperTile& super_tile) {
  const gemm::Tile& tile = plan_.problem.tile;
  const std::uint64_t tiles = super_tile.columns.count, columns = tiles * tile.n;
  const std::uint64_t rows = uploaded.b_part.rows.count;
  const bool raw = plan_.problem.b.raw;
  std::byte* const panel = raw ? own.b.data() : data + uploaded.b_panel;
  const std::size_t part = rows * columns * element_, y_part = rows * 2 * tiles;
  std::byte* const mine = panel + plan_.row * part;
  double* const own_y = own.y.data() + plan_.row * y_part;
  if (raw) make_panel(stream, gemm::Side::b, uploaded, data + uploaded.b_offset, mine);
  stream.launch(gemm::signed_sums_kernel(),
                {mine, operands_.precision, rows, columns, tile.n, tiles, sign_seed,
                 super_tile.columns.first * tile.n, own_y});
  if (b_parts_ != nullptr) {
    if (operands_.symmetric && part > 0) {  // A's panel is made from it
      gather(stream, *b_parts_, panel, lines(1, part, part),
             own.sums + plan_.box.batch_sums(false));
    } else {
      b_parts_->all_gather(stream, mine, panel, part);
    }
    b_parts_->all_gather(stream, own_y, own.y.data(), y_part * sizeof(double));
  }
  return panel;
}

/// Makes a panel of this rank's uploaded part.
void Panels::make_panel(device::Stream& stream, gemm::Side side, const Upload& uploaded,
                        const std::byte* from, std::byte* to) const {
  const Rectangle& stored = side == gemm::Side::b ? uploaded.b : uploaded.a;
  const bool transposed = operands_.transposed(side);
  const Range rows = transposed ? stored.columns : stored.rows;
  const Range columns = transposed ? stored.rows : stored.columns;
  const std::uint64_t ld = side == gemm::Side::b ? columns.count : uploaded.a_ld;
  if (rows.count == 0 || columns.count == 0) return;
  if (panel_work(operands_, side, backend_) == gemm::PanelWork::transpose) {
    stream.launch(gemm::transpose_kernel(), {from, columns.count, rows.count, rows.count, to, ld,
                                             static_cast<unsigned>(element_)});
    return;
  }
  const Range variables = side == gemm::Side::b ? columns : rows;
  stream.launch(gemm::canonicalize_kernel(),
                {.raw = from,
                 .from = stored.matrix->type(),
                 .transpose = transposed,
                 .panel = to,
                 .precision = operands_.precision,
                 .rows = rows.count,
                 .columns = columns.count,
                 .ld = ld,
                 .shift = shift_.size() > 0 ? shift_.data() + variables.first : nullptr,
                 .scale = scale_.size() > 0 ? scale_.data() + variables.first : nullptr,
                 .side = side,
                 .valid_rows = (transposed ? stored.valid_columns : stored.valid_rows).count,
                 .valid_columns = (transposed ? stored.valid_rows : stored.valid_columns).count});
}

/// Makes B's factor, the transpose of its panel.
void Panels::turn_b(device::Stream& stream, const SuperTile& super_tile, Own& own) const {
  const std::uint64_t columns = super_tile.columns.count * plan_.problem.tile.n, k = own.now.k;
  own.now.b_factor = own.b_factor.data();
  own.now.b_factor_ld = k;
  if (columns == 0) return;
  stream.launch(gemm::transpose_kernel(), {own.now.b, k, columns, columns, own.b_factor.data(), k,
                                           static_cast<unsigned>(element_)});
}

void Panels::keep_b(device::Stream& stream, const SuperTile& super_tile, Own& own,
                    Kept& kept) const {
  const std::uint64_t tiles = super_tile.columns.count, k = own.now.k;
  kept.ld = own.now.b_factor_ld;
  if (tiles == 0) return;
  const std::size_t bytes = aligned(k * tiles * plan_.problem.tile.n * element_);
  stream.launch(memory::copy_kernel(), {own.now.b_factor, kept.factor.data(), bytes});
  stream.launch(memory::copy_kernel(),
                {reinterpret_cast<const std::byte*>(own.now.y),
                 reinterpret_cast<std::byte*>(kept.y.data()), k * 2 * tiles * sizeof(double)});
}

/// For a symmetric product: A's panel is the transpose of some columns of B's panel. If B's factor
/// is the transpose of its panel, A's panel is a part of that.
const std::byte* Panels::turn_into_a(device::Stream& stream, const SuperTile& super_tile,
                                     std::byte* data, Own& own) const {
  const gemm::Tile& tile = plan_.problem.tile;
  const std::uint64_t across = (super_tile.rows.first - super_tile.columns.first) * tile.n;
  const std::uint64_t rows = super_tile.rows.count * tile.m;
  if (gemm::multiplies_transposed_b(operands_.precision, backend_)) {
    return own.now.b_factor + across * own.now.k * element_;
  }
  std::byte* const panel = plan_.problem.a.raw ? own.a.data() : data;
  if (rows > 0) {
    stream.launch(gemm::transpose_kernel(), {own.now.b + across * element_, own.now.k, rows,
                                             super_tile.columns.count * tile.n, panel, own.now.a_ld,
                                             static_cast<unsigned>(element_)});
  }
  return panel;
}

/// Makes both factors by splitting the panels.
void Panels::split(device::Stream& stream, const SuperTile& super_tile, Own& own) const {
  const gemm::Tile& tile = plan_.problem.tile;
  const std::uint64_t rows = super_tile.rows.count * tile.m;
  const std::uint64_t columns = super_tile.columns.count * tile.n;
  own.now.a_factor = own.a_factor.data();
  own.now.b_factor = own.b_factor.data();
  if (rows == 0 || columns == 0) return;
  const std::uint64_t k = own.now.k;
  stream.launch(gemm::split_kernel(),
                {own.now.a, gemm::Side::a, rows, k, own.now.a_ld, own.a_factor.data()});
  stream.launch(gemm::split_kernel(),
                {own.now.b, gemm::Side::b, k, columns, columns, own.b_factor.data()});
}

void Panels::wait(device::Stream& stream) {
  for (comm::Communicator* each : {a_parts_, b_parts_}) {
    if (each != nullptr) each->wait(stream);
  }
  stream.synchronize();
}

std::string Panels::failure(Range batches, const std::uint64_t* there) const {
  const Box& box = plan_.box;
  for (std::uint64_t i = 0; i < batches.count; ++i, there += plan_.batch_sums()) {
    const std::uint64_t block = plan_.batch(batches.first + i).block;
    if (read_[batches.first + i] != there[0]) {
      return fmt::format(
          "the panels of block {} of K were corrupted between host and device on rank {}", block,
          plan_.rank);
    }
    const auto corrupted = [&](const char* panel, std::uint64_t giver) {
      return fmt::format(
          "the part of rank {} of {}'s panel of block {} of K was corrupted on its way to rank {}",
          giver, panel, block, plan_.rank);
    };
    if (const auto part = wrong_part(there + 1, box.columns > 1 ? box.columns : 0)) {
      return corrupted("A", plan_.rank - plan_.column + *part);
    }
    const bool b_summed = operands_.symmetric && box.rows > 1;
    if (const auto part = wrong_part(there + box.batch_sums(false), b_summed ? box.rows : 0)) {
      return corrupted("B", plan_.rank - plan_.row * box.columns + *part * box.columns);
    }
  }
  return "";
}

}  // namespace shardstream::workloads::product
