#include "workloads/product/engine/panels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/memory/memory.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {
namespace {

using device::Buffer;
using device::Memory;

/// The number of variables, rounded up to whole tiles. The padding is not used.
std::uint64_t whole_variables(const Operands& operands, const gemm::Tile& tile) {
  return ceil_div(operands.n, tile.n) * tile.n;
}

/// The number of samples, rounded up to whole blocks.
std::uint64_t whole_samples(const Operands& operands, const gemm::Tile& tile) {
  return ceil_div(operands.k, tile.k) * tile.k;
}

/// The number of shifts, with padding.
std::uint64_t count_shifts(const Operands& operands, const gemm::Tile& tile) {
  if (!operands.shifts()) return 0;
  return operands.center ? whole_variables(operands, tile) : whole_samples(operands, tile);
}

/// The first corrupted part of a gathered panel. `checksums`: those of all parts as sent, then
/// those of all parts as received.
std::optional<std::uint64_t> wrong_part(const std::uint64_t* checksums, std::uint64_t parts) {
  const auto* const wrong = std::mismatch(checksums, checksums + parts, checksums + parts).first;
  if (wrong == checksums + parts) return std::nullopt;
  return static_cast<std::uint64_t>(wrong - checksums);
}

}  // namespace

PanelGroups::PanelGroups(comm::Communicator& all, const Plan& plan) {
  const Box& box = plan.shape.box;
  // Idle ranks form a group of their own, which gathers nothing.
  const auto split = [&](std::uint64_t part, std::uint64_t of, std::uint64_t key) {
    const std::uint64_t color = plan.part.idle ? box.depth * of : plan.part.layer * of + part;
    return all.split(static_cast<int>(color), static_cast<int>(key));
  };
  if (box.columns > 1) {
    own_row = split(plan.part.row, box.rows, plan.part.column);
    a = own_row.get();
  }
  if (box.rows > 1 && box.rows < plan.problem().ranks.count) {
    own_column = split(plan.part.column, box.columns, plan.part.row);
    b = own_column.get();
  } else if (box.rows > 1) {
    b = &all;
  }
}

Panels::Panels(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
               const PanelGroups& groups, const PanelUploads& uploads)
    : operands_(operands),
      plan_(plan),
      backend_(runtime.resources.backend),
      element_(gemm::panel_element_bytes(operands.precision, backend_)),
      groups_(groups),
      uploads_(uploads) {
  device::Device& device = *runtime.device;
  const auto bytes = [&](std::uint64_t count) {
    return Buffer<std::byte>(device, Memory::device, count);
  };
  const Buffers& buffers = plan_.buffers;
  for (std::uint64_t i = 0; i < plan_.schedule.ring_batches; ++i) {
    BatchMemory memory;
    if (plan_.problem().a.raw) memory.a = bytes(buffers.batch.a_panel);
    if (plan_.problem().b.raw) memory.b = bytes(buffers.batch.b_panel);
    memory.a_factor = bytes(buffers.batch.a_factor);
    memory.b_factor = bytes(buffers.batch.b_factor);
    memory.y = {device, Memory::device, buffers.batch.y / sizeof(double)};
    memory_.push_back(std::move(memory));
  }
  if (plan_.schedule.cut.keeps_b && !plan_.part.idle) {
    const bool transposed = gemm::multiplies_transposed_b(operands_.precision, backend_);
    for (std::uint64_t i = 0; i < plan_.part.blocks.count; ++i) {
      kept_.push_back({bytes(transposed ? buffers.batch.b_factor : buffers.batch.b_panel),
                       {device, Memory::device, buffers.batch.y / sizeof(double)}});
    }
  }
  allocate_others(device);
  checksums_ = {device, Memory::device, plan_.batches() * plan_.shape.batch_checksums()};
}

void Panels::allocate_others(device::Device& device) {
  if (plan_.part.idle) return;
  const gemm::Tile& tile = plan_.problem().tile;
  const std::uint64_t variables = whole_variables(operands_, tile);
  shift_ = {device, Memory::device, count_shifts(operands_, tile)};
  if (operands_.has_whole_shifts()) whole_ = {device, Memory::device, shift_.size()};
  if (operands_.has_sample_factors()) {
    factor_ = {device, Memory::device, whole_samples(operands_, tile)};
  }
  if (tile.moduli > 0) rounding_errors_ = {device, Memory::device, 2};
  if (!operands_.normalizes()) return;
  scale_ = {device, Memory::device, variables};
  lost_ = {device, Memory::device, variables};
}

std::uint64_t Panels::other_bytes(const Operands& operands, const gemm::Tile& tile) {
  const auto bytes = [](std::uint64_t count) { return aligned(count * sizeof(double)); };
  const std::uint64_t variables = whole_variables(operands, tile);
  const std::uint64_t shifts = bytes(count_shifts(operands, tile));
  return shifts + (operands.has_whole_shifts() ? shifts : 0) +
         (operands.has_sample_factors() ? bytes(whole_samples(operands, tile)) : 0) +
         (operands.normalizes() ? bytes(variables) + aligned(variables) : 0) +
         (tile.moduli > 0 ? bytes(2) : 0);
}

void Panels::normalize(device::Stream& stream, const Normalization& normalization) {
  if (plan_.part.idle) return;
  const auto fill = [&](const auto& values, const auto& memory) {
    expect(values.empty() == (memory.size() == 0), "a normalization has what its operands need");
    if (values.empty()) return;
    stream.launch(gemm::zero_kernel(), {memory.data(), memory.bytes()});
    stream.upload(memory.data(), values.data(), values.size() * sizeof(values[0]));
    stream.synchronize();
  };
  const Samples& samples = *normalization.samples;
  const bool of_samples = operands_.center_over_variables;
  fill(of_samples ? samples.whole_shift : normalization.whole, whole_);
  fill(of_samples ? samples.shift : normalization.shift, shift_);
  fill(normalization.scale, scale_);
  fill(samples.factors, factor_);
}

// ---------------------------------------------------------------- arrivals

void Panels::begin(device::Stream& stream) {
  stream.launch(gemm::zero_kernel(), {checksums_.data(), checksums_.bytes()});
  stream.launch(gemm::zero_kernel(), {lost_.data(), lost_.bytes()});
  stream.launch(gemm::zero_kernel(), {rounding_errors_.data(), rounding_errors_.bytes()});
  stream.synchronize();
}

/// Turns an upload into panels, gathers them, and makes the factors that are multiplied.
void Panels::arrive(device::Stream& stream, std::uint64_t number, std::byte* data) {
  const auto [super_number, block] = plan_.batch(number);
  const PanelUploads::Extent& extent = uploads_.extent(super_number);
  const SuperTile& super_tile = extent.tiles;
  const BatchUpload uploaded = uploads_.upload(number);
  add_upload(stream, uploaded, data, checksums_of(number));
  BatchMemory& memory = memory_[number % memory_.size()];
  memory.checksums = checksums_of(number);
  Batch& now = memory.now;
  now = {.k = uploaded.k, .a_ld = uploaded.a_ld};
  if (uploads_.has_b(super_number)) {
    const KeptB& kept = kept_[block - plan_.part.blocks.first];
    now.y = kept.y.data();
    now.b_factor = kept.factor.data();
    now.b_factor_ld = kept.ld;
  } else {
    now.y = memory.y.data();
    now.b = arrive_b(stream, uploaded, data, memory, super_tile);
    make_b_factor(stream, super_tile, memory);
    if (plan_.schedule.cut.keeps_b && plan_.super_tiles() > 1) {
      keep_b(stream, super_tile, memory, kept_[block - plan_.part.blocks.first]);
    }
  }
  if (plan_.problem().tile.is_narrow()) return;  // B's panel is all that is multiplied
  now.a = extent.a_from_b ? transpose_into_a(stream, super_tile, data, memory)
                          : arrive_a(stream, uploaded, data, memory);
  make_a_factor(stream, super_tile, memory);
  if (gemm::multiplies_residues(operands_.precision)) {
    const std::uint64_t rows = plan_.shape.panel_rows(super_tile.rows.count);
    const std::uint64_t across =
        plan_.shape.panel_columns(super_tile.rows.first - super_tile.columns.first);
    now.a_residues = extent.a_from_b ? now.b_residues.from(across, now.k)
                                     : make_residues(stream, gemm::Side::a, rows, memory);
  }
}

/// Adds the words of an upload to its checksum.
void Panels::add_upload(device::Stream& stream, const BatchUpload& uploaded, const std::byte* data,
                        std::uint64_t* checksum) {
  const auto add = [&](const Rectangle& rectangle, std::size_t offset, std::size_t pitch) {
    if (rectangle.bytes() == 0) return;
    add_checksum(stream, data + offset,
                 pitched_rows(rectangle.rows.count, rectangle.row_bytes(), pitch), checksum);
  };
  add(uploaded.a, uploaded.a_offset, uploaded.a_pitch);
  add(uploaded.b, uploaded.b_offset, uploaded.b.row_bytes());
}

void Panels::add_checksum(device::Stream& stream, const std::byte* first, const PitchedRows& rows,
                          std::uint64_t* checksum) {
  stream.launch(gemm::word_checksum_kernel(),
                {first, rows.row_bytes, checksum, rows.rows, rows.pitch});
}

/// Makes and gathers A's panel, and returns it.
const std::byte* Panels::arrive_a(device::Stream& stream, const BatchUpload& uploaded,
                                  std::byte* data, BatchMemory& memory) {
  const bool raw = plan_.problem().a.raw;
  std::byte* const panel = raw ? memory.a.data() : data;
  const PitchedRows part = pitched_rows(uploaded.a_part.rows.count * plan_.problem().moments.planes,
                                        uploaded.k * element_, uploaded.a_ld * element_);
  std::byte* const mine = panel + plan_.part.column * part.bytes();
  if (raw) {
    make_panel(stream,
               {gemm::Side::a, uploaded.a, uploaded.a_part.rows, {0, uploaded.k}, uploaded.a_ld},
               data + uploaded.a_offset, mine);
  }
  if (groups_.a != nullptr && part.bytes() > 0) {
    gather(stream, *groups_.a, panel, part, memory.checksums + 1);
  }
  return panel;
}

/// Gathers a panel from which both sides of C's check are computed. The check cannot find an error
/// in such a panel, but checksums of its parts can. `checksums` gets those of all parts as sent,
/// then those of all parts as received. This rank's part is already in its place.
void Panels::gather(device::Stream& stream, comm::Communicator& parts, std::byte* panel,
                    const PitchedRows& part, std::uint64_t* checksums) const {
  const auto own = static_cast<std::uint64_t>(parts.rank());
  const auto count = static_cast<std::uint64_t>(parts.size());
  std::byte* const mine = panel + own * part.bytes();
  add_checksum(stream, mine, part, checksums + own);
  parts.all_gather(stream, mine, panel, part.bytes());
  parts.all_gather(stream, checksums + own, checksums, sizeof(*checksums));
  for (std::uint64_t i = 0; i < count; ++i) {
    add_checksum(stream, panel + i * part.bytes(), part, checksums + count + i);
  }
}

/// Makes and gathers B's panel, and its signed sums for the check of C, which a narrow product
/// does not need. Returns the panel.
const std::byte* Panels::arrive_b(device::Stream& stream, const BatchUpload& uploaded,
                                  std::byte* data, BatchMemory& memory,
                                  const SuperTile& super_tile) {
  const gemm::Tile& tile = plan_.problem().tile;
  const std::uint64_t planes = plan_.problem().moments.planes;
  const std::uint64_t tiles = super_tile.columns.count * planes, columns = tiles * tile.n;
  const std::uint64_t rows = uploaded.b_part.rows.count;
  const bool raw = plan_.problem().b.raw, signs = !tile.is_narrow();
  std::byte* const panel = raw ? memory.b.data() : data + uploaded.b_panel;
  const std::size_t part = rows * columns * element_, y_part = rows * 2 * tiles;
  std::byte* const mine = panel + plan_.part.row * part;
  double* const own_y = signs ? memory.y.data() + plan_.part.row * y_part : nullptr;
  if (raw) {
    make_panel(stream,
               {gemm::Side::b, uploaded.b, uploaded.b_part.rows,
                elements_of(super_tile.columns, tile.n), columns},
               data + uploaded.b_offset, mine);
  }
  if (signs) {
    stream.launch(gemm::signed_sums_kernel(),
                  {mine, operands_.precision, rows, columns, tile.n, tiles, sign_seed,
                   super_tile.columns.first * planes * tile.n, own_y});
  }
  if (groups_.b != nullptr) {
    if (operands_.symmetric && part > 0) {  // A's panel is made from it
      gather(stream, *groups_.b, panel, pitched_rows(1, part, part),
             memory.checksums + plan_.shape.box.batch_checksums(false));
    } else {
      groups_.b->all_gather(stream, mine, panel, part);
    }
    if (signs) groups_.b->all_gather(stream, own_y, memory.y.data(), y_part * sizeof(double));
  }
  return panel;
}

/// Makes this rank's part of a panel from its uploaded part.
void Panels::make_panel(device::Stream& stream, const PanelPart& part, const std::byte* from,
                        std::byte* to) const {
  const auto& [side, stored, rows, columns, ld] = part;
  if (rows.count == 0 || columns.count == 0) return;
  const bool transposed = operands_.transposed(side);
  const gemm::PanelWork work = panel_work(operands_, side, plan_.problem().tile, backend_);
  if (work == gemm::PanelWork::pad) {
    stream.launch(gemm::pad_kernel(),
                  {from, stored.rows.count, stored.columns.count, to, rows.count, columns.count, ld,
                   static_cast<unsigned>(element_)});
    return;
  }
  if (work == gemm::PanelWork::transpose) {
    stream.launch(gemm::transpose_kernel(),
                  {from, stored.rows.count, stored.columns.count, stored.columns.count, to, ld,
                   static_cast<unsigned>(element_), rows.count, columns.count});
    return;
  }
  const bool of_b = side == gemm::Side::b;
  const Range variables = of_b ? columns : rows;
  const Range samples = of_b != transposed ? stored.rows : stored.columns;
  const Range shifted = operands_.center_over_variables ? samples : variables;
  const auto from_first = [](const auto& memory, Range range) {
    return memory.size() > 0 ? memory.data() + range.first : nullptr;
  };
  stream.launch(gemm::canonicalize_kernel(),
                {.raw = from,
                 .from = stored.matrix->type(),
                 .transpose = transposed,
                 .panel = to,
                 .precision = operands_.precision,
                 .rows = rows.count,
                 .columns = columns.count,
                 .ld = ld,
                 .shift = from_first(shift_, shifted),
                 .scale = from_first(scale_, variables),
                 .side = side,
                 .valid_rows = (transposed ? stored.columns : stored.rows).count,
                 .valid_columns = (transposed ? stored.rows : stored.columns).count,
                 .whole = from_first(whole_, shifted),
                 .lost = from_first(lost_, variables),
                 .factor = from_first(factor_, samples),
                 .shifts_samples = operands_.center_over_variables,
                 .planes = plan_.shape.planes()});
}

/// Makes the residues of the panel's rows (A) or columns (B).
gemm::Residues Panels::make_residues(device::Stream& stream, gemm::Side side, std::uint64_t lines,
                                     const BatchMemory& memory) const {
  const bool of_b = side == gemm::Side::b;
  const ResidueParts parts = residue_parts(plan_.problem(), side, lines);
  std::byte* const planes = of_b ? memory.b_factor.data() : memory.a_factor.data();
  auto* const exponents = reinterpret_cast<std::int32_t*>(planes + parts.planes);
  auto* const data = reinterpret_cast<std::int8_t*>(planes);
  const std::uint64_t pitch = lines * memory.now.k;
  if (lines > 0) {
    stream.launch(gemm::residues_kernel(),
                  {.panel = of_b ? memory.now.b : memory.now.a,
                   .precision = operands_.precision,
                   .side = side,
                   .lines = lines,
                   .k = memory.now.k,
                   .ld = of_b ? lines : memory.now.a_ld,
                   .moduli = plan_.problem().tile.moduli,
                   .to = data,
                   .pitch = pitch,
                   .exponents = exponents,
                   .scratch = parts.scratch > 0 ? planes + parts.planes + parts.exponents : nullptr,
                   .error = rounding_errors_.data() + (of_b ? 1 : 0)});
  }
  return {data, pitch, exponents};
}

/// B's factor is the panel itself, its transpose, or its split elements. Residues are made beside
/// the panel.
void Panels::make_b_factor(device::Stream& stream, const SuperTile& super_tile,
                           BatchMemory& memory) const {
  const std::uint64_t columns = plan_.shape.panel_columns(super_tile.columns.count);
  const std::uint64_t k = memory.now.k;
  const bool transposes = gemm::multiplies_transposed_b(operands_.precision, backend_);
  const bool splits = gemm::splits(operands_.precision);
  memory.now.b_factor = transposes || splits ? memory.b_factor.data() : memory.now.b;
  memory.now.b_factor_ld = transposes ? k : columns;
  if (columns == 0) return;
  if (transposes) {
    stream.launch(gemm::transpose_kernel(),
                  {memory.now.b, k, columns, columns, memory.b_factor.data(), k,
                   static_cast<unsigned>(element_)});
  }
  if (splits && super_tile.rows.count > 0) {
    stream.launch(gemm::split_kernel(),
                  {memory.now.b, gemm::Side::b, k, columns, columns, memory.b_factor.data()});
  }
  if (gemm::multiplies_residues(operands_.precision)) {
    memory.now.b_residues = make_residues(stream, gemm::Side::b, columns, memory);
  }
}

void Panels::keep_b(device::Stream& stream, const SuperTile& super_tile, BatchMemory& memory,
                    KeptB& kept) const {
  const std::uint64_t tiles = super_tile.columns.count, k = memory.now.k;
  kept.ld = memory.now.b_factor_ld;
  if (tiles == 0) return;
  const std::size_t bytes = aligned(k * tiles * plan_.problem().tile.n * element_);
  stream.launch(memory::copy_kernel(), {memory.now.b_factor, kept.factor.data(), bytes});
  stream.launch(memory::copy_kernel(),
                {reinterpret_cast<const std::byte*>(memory.now.y),
                 reinterpret_cast<std::byte*>(kept.y.data()), k * 2 * tiles * sizeof(double)});
}

/// For a symmetric product: A's panel is the transpose of some columns of B's panel. If B's factor
/// is the transpose of B's panel, A's panel is a part of this factor.
const std::byte* Panels::transpose_into_a(device::Stream& stream, const SuperTile& super_tile,
                                          std::byte* data, BatchMemory& memory) const {
  const std::uint64_t across =
      plan_.shape.panel_columns(super_tile.rows.first - super_tile.columns.first);
  const std::uint64_t rows = plan_.shape.panel_rows(super_tile.rows.count);
  if (gemm::multiplies_transposed_b(operands_.precision, backend_)) {
    return memory.now.b_factor + across * memory.now.k * element_;
  }
  std::byte* const panel = plan_.problem().a.raw ? memory.a.data() : data;
  if (rows > 0) {
    stream.launch(gemm::transpose_kernel(),
                  {memory.now.b + across * element_, memory.now.k, rows,
                   plan_.shape.panel_columns(super_tile.columns.count), panel, memory.now.a_ld,
                   static_cast<unsigned>(element_)});
  }
  return panel;
}

/// A's factor is the panel itself or its split elements.
void Panels::make_a_factor(device::Stream& stream, const SuperTile& super_tile,
                           BatchMemory& memory) const {
  const bool splits = gemm::splits(operands_.precision);
  memory.now.a_factor = splits ? memory.a_factor.data() : memory.now.a;
  if (!splits || super_tile.rows.count == 0 || super_tile.columns.count == 0) return;
  stream.launch(gemm::split_kernel(),
                {memory.now.a, gemm::Side::a, plan_.shape.panel_rows(super_tile.rows.count),
                 memory.now.k, memory.now.a_ld, memory.a_factor.data()});
}

void Panels::wait(device::Stream& stream) {
  for (comm::Communicator* each : {groups_.a, groups_.b}) {
    if (each != nullptr) each->wait(stream);
  }
  stream.synchronize();
}

std::string Panels::failure(Range batches, const std::uint64_t* device_checksums) const {
  const Box& box = plan_.shape.box;
  const std::uint64_t* checksums = device_checksums;  // of one batch
  for (std::uint64_t i = 0; i < batches.count; ++i, checksums += plan_.shape.batch_checksums()) {
    const std::uint64_t block = plan_.batch(batches.first + i).block;
    if (uploads_.checksum(batches.first + i) != checksums[0]) {
      return fmt::format(
          "the panels of block {} of K were corrupted between host and device on rank {}", block,
          plan_.part.rank);
    }
    const auto corrupted = [&](const char* panel, std::uint64_t giver) {
      return fmt::format(
          "the part of rank {} of {}'s panel of block {} of K was corrupted on its way to rank {}",
          giver, panel, block, plan_.part.rank);
    };
    if (const auto part = wrong_part(checksums + 1, box.columns > 1 ? box.columns : 0)) {
      return corrupted("A", plan_.part.rank - plan_.part.column + *part);
    }
    const bool b_summed = operands_.symmetric && box.rows > 1;
    if (const auto part =
            wrong_part(checksums + box.batch_checksums(false), b_summed ? box.rows : 0)) {
      return corrupted("B", plan_.part.rank - plan_.part.row * box.columns + *part * box.columns);
    }
  }
  return "";
}

}  // namespace shardstream::workloads::product
