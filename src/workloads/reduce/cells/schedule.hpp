// The launches of one pass over a rank's shard, for a range of cells: arithmetic without devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "kernels/cells/cells.hpp"
#include "kernels/cells/task_list.hpp"
#include "workloads/reduce/cells/cell_plan.hpp"

namespace shardstream::workloads {

/// The largest whole subtrees of the units of a shard, from left to right.
std::vector<cells::Node> nodes_of(const CellPlan& plan, Range shard);

/// The maximum number of nodes on the stack, after each unit of a shard, at least 1. A unit that is
/// joined with the nodes before it never has a place of its own.
std::uint64_t max_depth(const CellPlan& plan, Range shard);

/// The numbers of units that a shard's elements belong to.
Range units_of(const CellPlan& plan, Range shard);

/// The groups that a unit has accumulators for.
enum class UnitGroups : std::uint8_t {
  all,
  own,  ///< those of its elements, and those between them and the groups of the unit before
};

/// Accumulates units one after another. `slots` units have accumulators at the same time: unit u
/// those of slot u mod slots. After a round, the units that have ended are folded into a stack of
/// nodes.
class CellSchedule {
 public:
  struct Round {
    cells::TaskSpan tasks;
    cells::GroupRange groups = {};  ///< that the units have
    Range ended = {};               ///< units
    /// For NodeStack, if units have ended.
    unsigned kept = 0, depth = 0;
    std::vector<cells::FoldNode> stack = {};  ///< the nodes from `kept` to `depth`
    cells::OutputRange folded = {};
    /// The units are whole subtrees of 2^level units, all with the same cells, whose slots follow
    /// one another.
    unsigned level = 0;
    /// With several lanes, instead of the level: numbers of trees().
    Range trees = {};
    bool has_one_task_each = true;  ///< of the units
  };

  /// For the cells `pass` of a shard of whole units. UnitGroups::own needs a single slot.
  CellSchedule(const CellPlan& plan, Range shard, cells::CellRange pass, std::uint64_t slots,
               UnitGroups unit_groups);

  /// Appends the rounds of the next batch.
  void append(Range batch);

  const std::vector<Round>& rounds(std::uint64_t batch) const { return batches_[batch]; }
  const cells::TaskList& tasks() const { return tasks_; }
  /// The cells of the shard that belong to the pass.
  cells::CellRange cells() const { return cells_; }
  /// The outputs of each unit of the shard, and the maximum numbers of cells and groups.
  const std::vector<cells::OutputRange>& unit_outputs() const { return unit_outputs_; }
  std::uint64_t max_unit_cells() const { return max_unit_cells_; }
  std::uint64_t max_unit_groups() const { return max_unit_groups_; }
  std::uint64_t first_unit() const { return units_.first; }
  std::uint64_t units() const { return units_.count; }
  /// Whether the tasks of each round have all elements of their units, in all cells, so that
  /// launches may leave moments.
  bool is_whole() const { return is_whole_; }
  /// Whether every task has one block.
  bool has_one_block() const { return has_one_block_; }
  /// The subtrees of units, with several lanes, in which units end.
  const std::vector<cells::Node>& trees() const { return trees_; }
  /// The nodes after the last batch.
  const std::vector<cells::FoldNode>& nodes() const { return stack_; }

 private:
  void end_units(Range ended, Round& round);
  void append_unit(std::uint64_t unit, Range part, std::uint64_t batch, Round& round);
  std::vector<cells::Node> trees_of(Range ended) const;
  bool have_same_cells(Range units) const;
  unsigned common_level(Range ended) const;

  const CellPlan& plan_;
  Range shard_, units_;
  cells::CellRange pass_, cells_;
  std::uint64_t slots_, max_unit_cells_ = 0, max_unit_groups_ = 0;
  std::vector<cells::OutputRange> unit_outputs_;
  cells::TaskList tasks_;
  std::vector<std::vector<Round>> batches_;
  std::vector<cells::FoldNode> stack_;
  std::vector<cells::Node> trees_;
  bool is_whole_ = true, has_one_block_ = true;
};

/// Numbers that are in both ranges.
constexpr cells::CellRange intersection(cells::CellRange a, cells::CellRange b) {
  const Range common = shardstream::intersection({a.first, a.count}, {b.first, b.count});
  return {common.first, common.count};
}

}  // namespace shardstream::workloads
