// The nodes that ranks have after their shards, and the outputs that each of them joins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/cells/cells.hpp"
#include "workloads/reduce/cells/cell_plan.hpp"
#include "workloads/reduce/cells/schedule.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

/// The nodes of all ranks: the maximum number of one rank, and those of each.
struct RankNodes {
  std::uint64_t max = 1;
  std::vector<std::vector<cells::Node>> of;
  std::vector<cells::CellRange> cells;  ///< of each rank
  bool are_apart = true;                ///< no two ranks have a cell in common
  std::uint64_t max_depth;  ///< of the stack to which the nodes of all ranks are appended

  RankNodes(const CellPlan& plan, const stream::Shards& shards)
      : max_depth(workloads::max_depth(plan, {0, shards.elements})) {
    expect(shards.unit % plan.unit_elements() == 0, "shards have whole units");
    std::uint64_t end = 0;
    for (std::uint64_t rank = 0; rank < shards.ranks; ++rank) {
      const Range own = shards.of(rank);
      of.push_back(nodes_of(plan, own));
      max = std::max<std::uint64_t>(max, of.back().size());
      cells.push_back(own.count > 0 ? plan.cells_of(own) : cells::CellRange{end, 0});
      are_apart = are_apart && cells.back().first == end;
      end = cells.back().first + cells.back().count;
    }
  }

  /// The outputs of a rank: group * cells of the pass + cell - first cell of the pass. These are
  /// its own cells in each group, or else an equal share.
  std::vector<Range> outputs(std::uint64_t rank, cells::CellRange pass,
                             std::uint64_t groups) const {
    if (!are_apart) return {share(pass.count * groups, rank, of.size())};
    const cells::CellRange own = intersection(cells[rank], pass);
    std::vector<Range> outputs;
    for (std::uint64_t group = 0; group < groups; ++group) {
      outputs.push_back({group * pass.count + own.first - pass.first, own.count});
    }
    return outputs;
  }
};

/// Outputs that are exchanged at a time.
inline std::uint64_t exchange_tile(std::uint64_t outputs, std::uint64_t ranks, std::uint64_t nodes,
                                   unsigned words) {
  constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;
  const std::uint64_t tile = max_bytes / (ranks * nodes * words * sizeof(std::uint64_t));
  return std::max<std::uint64_t>(1, std::min(ceil_div(outputs, ranks), tile));
}

}  // namespace shardstream::workloads
