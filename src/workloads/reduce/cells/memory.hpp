// The device memory of statistics of cells, and the number of passes that it allows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "workloads/reduce/cells/exchange.hpp"
#include "workloads/reduce/cells/shard_cells.hpp"

namespace shardstream::workloads {

/// The cells of pass `number` of `passes`.
inline cells::CellRange cells_of_pass(const CellPlan& plan, std::uint64_t number,
                                      std::uint64_t passes) {
  const Range part = share(plan.cells(), number, passes);
  return {part.first, part.count};
}

/// The device memory of a rank in bytes, if cells are divided into `passes`.
struct CellMemory {
  std::uint64_t fixed;     ///< without accumulators
  std::uint64_t per_unit;  ///< for the accumulators and moments of a unit
  std::uint64_t units;     ///< of the shard
};

/// `sampled_cells`: of all sampled boxes together. `lists`: the bytes of lists in device memory.
template <class T>
CellMemory memory_of_cells(const CellPlan& plan, Range shard, const RankNodes& nodes,
                           std::uint64_t passes, cells::Quantities quantities,
                           std::uint64_t sampled_cells, std::uint64_t lists) {
  const cells::Layout& layout = plan.layout();
  const std::uint64_t word = sizeof(std::uint64_t), words = cells::words_of<T>(quantities) * word;
  const std::uint64_t of_pass = cells_of_pass(plan, 0, passes).count;
  const Range units = units_of(plan, shard);
  std::uint64_t unit_cells = 0;
  for (std::uint64_t u = units.first; u < units.end(); ++u) {
    unit_cells = std::max(unit_cells, std::min(plan.cells_of(plan.unit(u)).count, of_pass));
  }
  const std::uint64_t own_cells = std::min(plan.cells_of(shard).count, of_pass);
  const auto states = [&](std::uint64_t cells) {
    const std::uint64_t moments = layout.lanes > 1 ? 1 : 0;  // of joined lanes
    return saturating_product({cells, layout.groups, (layout.lanes + moments) * words});
  };
  const std::uint64_t of_block =
      (cells::block_words(layout.axes) + cells::task_words(layout.axes)) * word +
      sizeof(cells::DenseTask);
  const std::uint64_t blocks = plan.max_blocks(shard) * of_block;
  CellMemory memory{
      .fixed = saturating_sum(
          {saturating_product({max_depth(plan, shard), own_cells, layout.groups, words}),
           saturating_product(2, states(sampled_cells)), blocks, lists}),
      .per_unit = states(unit_cells),
      .units = units.count};
  if (nodes.are_apart) return memory;
  const auto ranks = static_cast<std::uint64_t>(nodes.of.size());
  const std::uint64_t outputs = of_pass * layout.groups;
  const std::uint64_t tile =
      exchange_tile(outputs, ranks, nodes.max, cells::words_of<T>(quantities));
  memory.fixed =
      saturating_sum({memory.fixed, saturating_product(ceil_div(outputs, ranks), words),
                      saturating_product({2 * ranks * nodes.max + nodes.max_depth, tile, words})});
  return memory;
}

}  // namespace shardstream::workloads
