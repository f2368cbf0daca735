#include "workloads/reduce/cells/cell_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::uint64_t word = sizeof(std::uint64_t);
constexpr std::uint64_t max_passes = 1024;
/// Accumulators of several units keep a GPU at work if a batch has several. They have this memory,
/// or an eighth of all if that is more.
constexpr std::uint64_t enough_for_units = std::uint64_t{1} << 30;

}  // namespace

std::uint64_t CellMemory::Use::with(std::uint64_t units_at_once) const {
  return saturating_sum({fixed, saturating_product(per_unit, units_at_once)});
}

cells::CellRange CellMemory::cells_of_pass(std::uint64_t number) const {
  const Range part = share(plan_.cells(), number, passes_);
  return {part.first, part.count};
}

std::uint64_t CellMemory::max_samples() const {
  constexpr std::uint64_t enough = std::uint64_t{1} << 21;
  return std::clamp<std::uint64_t>(enough / plan_.layout().groups, 1, stream::SampledRanges::max);
}

void CellMemory::choose(const pipeline::BatchMemory& batches, const stream::Shards& shards) {
  const std::uint64_t device_memory = batches.left;
  nodes_.emplace(plan_, shards);
  box_cells_ = box_cells_in(device_memory);
  const std::uint64_t most_passes = std::min(max_passes, plan_.cells());
  for (passes_ = 1;;) {
    largest_ = largest_use(shards);
    const std::uint64_t least = largest_.with(1);
    if (least <= device_memory) return choose_slots(batches);
    if (needs_.is_row) return;  // the kit says what does not fit
    if (passes_ < most_passes) {
      passes_ *= 2;
    } else if (box_cells_ > 1) {
      box_cells_ = 1;
    } else {
      throw UsageError(fmt::format(
          "reduce.over: {} cells need {} of device memory besides the batches in each of {}, but "
          "{} are left: select a part of the data, reduce more dimensions, or use "
          "--pipeline.gpu-memory {}B or more",
          plan_.outputs(), format_size(least), counted(passes_, "pass"), format_size(device_memory),
          saturating_sum({least, batches.taken})));
    }
  }
}

void CellMemory::choose_slots(const pipeline::BatchMemory& batches) {
  const std::uint64_t enough = std::max(enough_for_units, batches.left / 8);
  const std::uint64_t room = std::min(enough, batches.left - largest_.fixed);
  const std::uint64_t units = std::clamp<std::uint64_t>(largest_.units, 1, units_at_once(batches));
  const std::uint64_t slots = room / std::max<std::uint64_t>(largest_.per_unit, 1);
  // A power of two holds whole subtrees.
  slots_ = slots >= units ? units : std::bit_floor(std::max<std::uint64_t>(slots, 1));
}

/// The units that a batch may have a part of, rounded up to a power of two, which holds whole
/// subtrees. The cells of a single unit keep all threads of a host at work, if they are many.
std::uint64_t CellMemory::units_at_once(const pipeline::BatchMemory& batches) const {
  if (batches.backend == Backend::host && !needs_.is_row) return 1;
  return std::bit_ceil(ceil_div(batches.batch, plan_.unit_elements()) + 1);
}

/// Accumulators of boxes take an eighth of the memory at most.
std::uint64_t CellMemory::box_cells_in(std::uint64_t device_memory) const {
  constexpr std::uint64_t most = std::uint64_t{1} << 13;
  const cells::Layout& layout = plan_.layout();
  const std::uint64_t cell =
      saturating_product({layout.groups, layout.lanes + 1, needs_.words * word});
  const std::uint64_t room = device_memory / 8 / max_samples() / cell;
  return std::clamp<std::uint64_t>(room, 1,
                                   std::min(most / std::min(most, layout.groups), plan_.cells()));
}

/// The accumulators of some cells, and the moments of their joined lanes.
std::uint64_t CellMemory::states(std::uint64_t cells) const {
  const cells::Layout& layout = plan_.layout();
  const std::uint64_t moments = layout.lanes > 1 ? 1 : 0;
  return saturating_product({cells, layout.groups, (layout.lanes + moments) * needs_.words * word});
}

CellMemory::Use CellMemory::use(Range shard) const {
  const cells::Layout& layout = plan_.layout();
  const std::uint64_t of_pass = cells_of_pass(0).count;
  const Range units = units_of(plan_, shard);
  std::uint64_t unit_cells = 0;
  for (std::uint64_t u = units.first; u < units.end(); ++u) {
    unit_cells = std::max(unit_cells, std::min(plan_.cells_of(plan_.unit(u)).count, of_pass));
  }
  const std::uint64_t own_cells = std::min(plan_.cells_of(shard).count, of_pass);
  const std::uint64_t nodes =
      saturating_product({max_depth(plan_, shard), own_cells, layout.groups, needs_.words * word});
  const std::uint64_t samples = saturating_product(2, states(box_cells_ * max_samples()));
  const std::uint64_t blocks =
      plan_.max_blocks(shard) *
      ((cells::Block::words(layout.axes) + cells::Task::words(layout.axes)) * word +
       sizeof(cells::DenseTask));
  return {.fixed = saturating_sum(
              {nodes, samples, blocks, needs_.lists, exchange_bytes(of_pass * layout.groups)}),
          .per_unit = states(unit_cells),
          .units = units.count};
}

/// For the roots, the nodes that ranks exchange, and the stack of these.
std::uint64_t CellMemory::exchange_bytes(std::uint64_t outputs) const {
  if (nodes_->are_apart) return 0;
  const auto ranks = static_cast<std::uint64_t>(nodes_->of.size());
  const std::uint64_t tile = exchange_tile(outputs, ranks, nodes_->max, needs_.words);
  return saturating_sum({saturating_product(ceil_div(outputs, ranks), needs_.words * word),
                         saturating_product({2 * ranks * nodes_->max + nodes_->max_depth, tile,
                                             needs_.words * word})});
}

/// That of the rank that needs most.
CellMemory::Use CellMemory::largest_use(const stream::Shards& shards) const {
  Use largest;
  for (std::uint64_t rank = 0; rank < shards.ranks; ++rank) {
    const Use own = use(shards.of(rank));
    largest = {std::max(largest.fixed, own.fixed), std::max(largest.per_unit, own.per_unit),
               std::max(largest.units, own.units)};
  }
  return largest;
}

}  // namespace shardstream::workloads
