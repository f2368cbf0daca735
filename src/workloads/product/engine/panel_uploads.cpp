#include "workloads/product/engine/panel_uploads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/units.hpp"
#include "workloads/product/engine/copy_rows.hpp"

namespace shardstream::workloads::product {

namespace {

/// Whether the panels of an operand have much padding. On a GPU it is then added on the device,
/// since the link carries far less than the device's memory.
bool pads_on_device(const Operands& operands, gemm::Side side, const gemm::Tile& tile,
                    Backend backend) {
  constexpr double little = 1.03;  // of the operand's size may be uploaded
  const auto padding = [](std::uint64_t extent, std::uint64_t edge) {
    return static_cast<double>(ceil_div(extent, edge) * edge) / static_cast<double>(extent);
  };
  const bool b = side == gemm::Side::b;
  return backend == Backend::cuda &&
         padding(operands.k, tile.k) *
                 (b ? padding(operands.n, tile.n) : padding(operands.m, tile.m)) >
             little;
}

}  // namespace

gemm::PanelWork panel_work(const Operands& operands, gemm::Side side, const gemm::Tile& tile,
                           Backend backend) {
  return gemm::panel_work(operands.matrix(side).type(), operands.precision, backend,
                          operands.transposed(side), operands.uploads_as_stored(),
                          pads_on_device(operands, side, tile, backend));
}

UploadedOperand uploaded_operand(const Operands& operands, gemm::Side side, const gemm::Tile& tile,
                                 Backend backend) {
  const gemm::PanelWork work = panel_work(operands, side, tile, backend);
  const bool as_stored = work == gemm::PanelWork::canonicalize;
  return {as_stored ? size_of(operands.matrix(side).type())
                    : gemm::panel_element_bytes(operands.precision, backend),
          work != gemm::PanelWork::none};
}

PitchedRows pitched_rows(std::uint64_t rows, std::size_t row_bytes, std::size_t pitch) {
  if (pitch == row_bytes) return {1, rows * row_bytes, rows * row_bytes};
  return {rows, row_bytes, pitch};
}

PanelUploads::PanelUploads(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
                           const pipeline::StagingSizes& staging, std::uint64_t other_bytes)
    : runtime_(runtime),
      operands_(operands),
      plan_(plan),
      staging_(staging),
      backend_(runtime.resources.backend),
      element_(gemm::panel_element_bytes(operands.precision, backend_)),
      checksums_(plan.batches()) {
  for (std::uint64_t number = 0; number < plan_.super_tiles(); ++number) {
    const SuperTile tiles = plan_.super_tile(number);
    extents_.push_back({tiles, plan_.a_part(tiles), plan_.shape.a_from_b(tiles)});
  }
  compute_sizes();
  const pipeline::Mode mode = pipeline::mode(runtime_.options);
  if (mode == pipeline::Mode::pageable) {
    hold_operands(other_bytes);
  } else if (const auto memory = pipeline::host_memory(mode)) {
    hold_uploads(*memory, other_bytes);
  } else {
    check_host_memory(0, other_bytes);
  }
}

/// The minimum size of a slot: a reader reads at least whole_word_rows() rows of a part at once.
std::size_t PanelUploads::min_slot_bytes() const {
  std::size_t bytes = 0;
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    const BatchUpload one = undivided(batch);
    for (const Rectangle* each : {&one.a, &one.b}) {
      bytes = std::max(bytes, whole_word_rows(each->row_bytes()) * each->stored_row_bytes());
    }
  }
  return bytes;
}

/// Computes the sizes of the ring, the total of the uploads, and the number of each batch's first
/// piece. The size of a piece comes first, because it determines their number. Without readers,
/// one thread enqueues all pieces, so they are large.
void PanelUploads::compute_sizes() {
  constexpr std::size_t large = std::size_t{16} << 20;
  const bool staged = pipeline::is_staged(runtime_.options);
  slot_bytes_ = std::max(plan_.part.idle ? 0 : staging_.slot_bytes, min_slot_bytes());
  piece_bytes_ = staged ? slot_bytes_ : std::max(large, slot_bytes_);
  sizes_ = {.slot_bytes = staged ? slot_bytes_ : 0,
            .slots = staged ? staging_.slots : 0,
            .readers = staged ? staging_.readers : 0,
            .batch_bytes = plan_.buffers.batch.uploaded(plan_.problem()),
            .batches = plan_.schedule.ring_batches,
            .arrivals = true};
  first_piece_ = {0};
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    const BatchUpload one = upload(batch);
    first_piece_.push_back(first_piece_.back() + one.pieces());
    expect(aligned(one.bytes) <= sizes_.batch_bytes, "a batch fits into its buffer");
    uploaded_ += one.a.bytes() + one.b.bytes();
  }
}

// ---------------------------------------------------------------- host memory

/// Holds this rank's parts of all panels in host memory.
void PanelUploads::hold_operands(std::uint64_t other_bytes) {
  const auto [first_block, blocks] = plan_.part.blocks;
  const Range depth = intersection(plan_.shape.depth(plan_.part.blocks), {0, operands_.k});
  const Range columns = elements_of(plan_.part.columns, plan_.problem().tile.n, operands_.n);
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
                    other_bytes);
  const auto axis = [](bool transposed) { return transposed ? Axis::columns : Axis::rows; };
  held_a_.emplace(*runtime_.device, *operands_.a, axis(operands_.transpose_a), a_rows, depth);
  held_b_.emplace(*runtime_.device, *operands_.b, axis(operands_.transpose_b), b_rows, columns);
}

/// The rectangles of all batches.
std::vector<Rectangle> PanelUploads::rectangles() const {
  std::vector<Rectangle> all;
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    const BatchUpload one = undivided(batch);
    for (const Rectangle& each : {one.a, one.b}) {
      if (each.bytes() > 0) all.push_back(each);
    }
  }
  return all;
}

/// Holds all uploads in host memory, in their final form.
void PanelUploads::hold_uploads(device::Memory memory, std::uint64_t other_bytes) {
  const std::vector<Rectangle> all = rectangles();
  check_host_memory(HeldUploads::bytes(all),
                    other_bytes + staging_.readers * HeldUploads::room(all));
  held_uploads_.emplace(*runtime_.device, memory, all);
}

/// Throws UsageError if host memory is too small for all of these: `held` bytes of A and B, the
/// slots, `other` bytes and, on the host backend, the buffers of the plan.
void PanelUploads::check_host_memory(std::uint64_t held, std::uint64_t other) const {
  const auto& resources = runtime_.resources;
  const std::uint64_t staging = other + sizes_.slot_bytes * sizes_.slots + resources.process_memory;
  const std::uint64_t in_place = backend_ == Backend::host ? plan_.device_bytes : 0;
  const std::uint64_t need = held + staging + in_place;
  const std::uint64_t have = resources.host_memory / resources.ranks_on_host;
  if (need <= have) return;
  const std::string remedy = held > 0 ? "--pipeline.mode stream"
                             : in_place > 0 && have > staging
                                 ? fmt::format("--pipeline.gpu-memory {}B", have - staging)
                                 : "fewer --pipeline.readers and --pipeline.slots";
  throw UsageError(fmt::format(
      "a rank needs {} of host memory and has {}: use {}, a job with more memory, or fewer ranks "
      "per host",
      format_size(need), format_size(have), remedy));
}

void PanelUploads::load() {
  ranks::Heartbeat& heartbeat = runtime_.session.heartbeat();
  const auto progress = [&](const char* what, std::uint64_t bytes) {
    return Progress(what, static_cast<double>(bytes),
                    runtime_.session.rank() == 0 && runtime_.log.shows_progress());
  };
  for (auto* const held : {&held_a_, &held_b_}) {
    if (!*held) continue;
    Progress of_matrix = progress(held == &held_a_ ? "loading A" : "loading B", (*held)->bytes());
    (*held)->load(staging_.readers, heartbeat, of_matrix);
  }
  if (!held_uploads_) return;
  Progress of_uploads = progress("loading A and B", held_uploads_->bytes());
  held_uploads_->load(staging_.readers, heartbeat, of_uploads,
                      [this](const Rectangle& from, Range rows, std::byte* room, std::byte* to) {
                        return copy(from, rows, room, to);
                      });
  for (std::uint64_t batch = 0; batch < plan_.batches(); ++batch) {
    const BatchUpload one = undivided(batch);
    checksums_[batch] = held_uploads_->checksum(one.a) + held_uploads_->checksum(one.b);
  }
}

// ---------------------------------------------------------------- pieces

/// The rectangle of the stored matrix for these rows and columns of op(A) or op(B). They are
/// swapped if the data set holds the transpose. A raw operand (UploadedOperand) is uploaded without
/// its padding.
Rectangle PanelUploads::rectangle(gemm::Side side, Range rows, Range columns, Range valid_rows,
                                  Range valid_columns) const {
  const io::Matrix& matrix = operands_.matrix(side);
  const std::optional<HeldMatrix>& held = side == gemm::Side::b ? held_b_ : held_a_;
  const bool rounded = readers_round(operands_, side, backend_);
  const Problem& problem = plan_.problem();
  if ((side == gemm::Side::b ? problem.b : problem.a).raw) {
    rows = valid_rows;
    columns = valid_columns;
  }
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

/// The upload of a batch without its pieces.
BatchUpload PanelUploads::undivided(std::uint64_t batch) const {
  const gemm::Tile& tile = plan_.problem().tile;
  const auto [super_tile, block] = plan_.batch(batch);
  const Extent& extent = extents_[super_tile];
  const Range columns = elements_of(extent.tiles.columns, tile.n),
              depth = plan_.shape.depth({block, 1});
  BatchUpload made{};
  made.k = depth.count;
  made.a_ld = gemm::a_ld(operands_.precision, made.k, backend_);
  made.a_part = extent.a_part;
  if (!has_b(super_tile)) made.b_part = plan_.b_part(block);
  made.a = rectangle(gemm::Side::a, made.a_part.rows, depth, made.a_part.valid,
                     intersection(depth, {0, operands_.k}));
  made.b = rectangle(gemm::Side::b, made.b_part.rows, columns, made.b_part.valid,
                     elements_of(extent.tiles.columns, tile.n, operands_.n));
  place_b(made, place_a(made, extent), columns.count);
  return made;
}

BatchUpload PanelUploads::upload(std::uint64_t batch) const {
  BatchUpload made = undivided(batch);
  // All readers fill their first slots at the same time, and the link waits for the first one. So
  // the first pieces of a run are short.
  constexpr std::size_t part = 4;
  std::uint64_t short_pieces = batch == 0 ? sizes_.readers : 0;
  const auto divided = [&](const Rectangle& each) {
    if (each.bytes() == 0) return RowPieces{};
    const auto rows = [&](std::size_t slot) {
      return rows_per_piece(slot, each.stored_row_bytes(), each.row_bytes());
    };
    return RowPieces{each.rows.count, std::exchange(short_pieces, 0), rows(piece_bytes_ / part),
                     rows(piece_bytes_)};
  };
  made.a_pieces = divided(made.a);
  made.b_pieces = divided(made.b);
  return made;
}

/// A batch begins with A's area. If A is raw, the area holds this rank's part, from which a kernel
/// makes the panel elsewhere; as planned, it has room for the padding. Otherwise the area holds the
/// whole panel: this rank's part is uploaded to its place, and the other parts are gathered.
/// Returns the bytes of the area.
std::size_t PanelUploads::place_a(BatchUpload& made, const Extent& extent) const {
  if (plan_.problem().a.raw) {
    made.a_offset = 0;
    made.a_pitch = made.a.row_bytes();
    return made.a_part.rows.count * made.k * made.a.element;
  }
  made.a_pitch = made.a_ld * element_;
  const std::size_t part = made.a.rows.count * made.a_pitch;
  made.a_offset = plan_.part.column * part;
  if (plan_.problem().tile.is_narrow()) return 0;  // there is no panel of A
  // A panel that is made from B's panel takes the place of an uploaded one.
  if (extent.a_from_b) return extent.tiles.rows.count * plan_.problem().tile.m * made.a_pitch;
  return plan_.shape.box.columns * part;
}

/// B's area follows that of A, and is like it. B's panel has `columns` columns.
void PanelUploads::place_b(BatchUpload& made, std::size_t a_bytes, std::uint64_t columns) const {
  const std::size_t part = made.b_part.rows.count * columns * made.b.element;
  made.b_panel = aligned(a_bytes);
  if (plan_.problem().b.raw) {
    made.b_offset = made.b_panel;
    made.bytes = made.b_panel + part;
  } else {
    made.b_offset = made.b_panel + plan_.part.row * part;
    made.bytes = made.b_panel + plan_.shape.box.rows * part;
  }
}

PanelUploads::Rows PanelUploads::locate(std::uint64_t piece) const {
  const auto after = std::ranges::upper_bound(first_piece_, piece);
  const auto batch = static_cast<std::uint64_t>(after - first_piece_.begin()) - 1;
  const std::uint64_t within = piece - first_piece_[batch];
  const BatchUpload all = upload(batch);
  const std::uint64_t pieces_of_a = all.a_pieces.count();
  const bool of_a = within < pieces_of_a;
  const Rectangle& rectangle = of_a ? all.a : all.b;
  const Range rows = of_a ? all.a_pieces[within] : all.b_pieces[within - pieces_of_a];
  const std::size_t pitch = of_a ? all.a_pitch : rectangle.row_bytes();
  return {batch,
          rectangle,
          {rectangle.rows.first + rows.first, rows.count},
          (of_a ? all.a_offset : all.b_offset) + rows.first * pitch,
          pitch};
}

pipeline::UploadPiece PanelUploads::piece(std::uint64_t number) const {
  const Rows some = locate(number);
  const PitchedRows they = pitched_rows(some.rows.count, some.rectangle.row_bytes(), some.pitch);
  return {some.batch, some.offset, they.rows * they.row_bytes, they.rows, they.pitch};
}

/// Copies rows of a rectangle to `to` in the form in which they are uploaded, and returns their
/// checksum. `room` has space for them as stored; if it is null, `to` has.
std::uint64_t PanelUploads::copy(const Rectangle& from, Range rows, std::byte* room,
                                 std::byte* to) const {
  const RowCopy copy{.type = from.matrix->type(),
                     .precision = operands_.precision,
                     .backend = backend_,
                     .rounded = from.rounded,
                     .at_once = bytes_at_once(*from.matrix, from.held != nullptr),
                     .columns = from.columns.count,
                     .element = from.element};
  return copy_rows(copy, rows.count, to, [&](Range some, std::byte* place) {
    return stored_rows(from, {rows.first + some.first, some.count}, room != nullptr ? room : place);
  });
}

const std::byte* PanelUploads::read(std::uint64_t number, std::byte* slot) {
  const Rows some = locate(number);
  if (held_uploads_) return held_uploads_->row(some.rectangle, some.rows.first);
  checksums_[some.batch] += copy(some.rectangle, some.rows, nullptr, slot);
  return slot;
}

void PanelUploads::begin() {
  if (held_uploads_) return;  // load() has computed them
  for (auto& checksum : checksums_) checksum = 0;
}

}  // namespace shardstream::workloads::product
