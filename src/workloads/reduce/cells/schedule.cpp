#include "workloads/reduce/cells/schedule.hpp"

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "kernels/cells/tree.hpp"

namespace shardstream::workloads {
namespace {

using cells::Node;

/// Appends a node to a stack, and joins siblings.
void push(std::vector<Node>& stack, Node node) {
  while (!stack.empty() && stack.back().precedes(node)) {
    node = {stack.back().first, node.level + 1};
    stack.pop_back();
  }
  stack.push_back(node);
}

/// `groups` and those between them and `before`.
cells::GroupRange next_to(const cells::GroupRange& before, const cells::GroupRange& groups) {
  if (before.count == 0 || groups.count == 0) return groups;
  const std::uint64_t end = before.first + before.count, own_end = groups.first + groups.count;
  if (end < groups.first) return {end, own_end - end};
  if (own_end < before.first) return {groups.first, before.first - groups.first};
  return groups;
}

}  // namespace

Range units_of(const CellPlan& plan, Range shard) {
  return {shard.first / plan.unit_elements(), ceil_div(shard.count, plan.unit_elements())};
}

std::vector<Node> nodes_of(const CellPlan& plan, Range shard) {
  std::vector<Node> stack;
  const Range units = units_of(plan, shard);
  for (std::uint64_t u = units.first; u < units.end(); ++u) push(stack, {u, 0});
  return stack;
}

std::uint64_t max_depth(const CellPlan& plan, Range shard) {
  std::vector<Node> stack;
  std::size_t depth = 1;
  const Range units = units_of(plan, shard);
  for (std::uint64_t u = units.first; u < units.end(); ++u) {
    push(stack, {u, 0});
    depth = std::max(depth, stack.size());
  }
  return depth;
}

CellSchedule::CellSchedule(const CellPlan& plan, Range shard, cells::CellRange pass,
                           std::uint64_t slots, UnitGroups unit_groups)
    : plan_(plan),
      shard_(shard),
      units_(units_of(plan, shard)),
      pass_(pass),
      cells_(intersection(plan.cells_of(shard), pass)),
      slots_(slots),
      tasks_(plan.layout().axes) {
  expect(unit_groups == UnitGroups::all || slots == 1, "units of several slots have all groups");
  cells::GroupRange before{0, 0};
  for (std::uint64_t u = units_.first; u < units_.end(); ++u) {
    cells::GroupRange groups{0, plan.layout().groups};
    if (unit_groups == UnitGroups::own) groups = next_to(before, plan.groups_of(plan.unit(u)));
    if (groups.count > 0) before = groups;
    unit_outputs_.push_back({intersection(plan.cells_of(plan.unit(u)), pass), groups});
    max_unit_cells_ = std::max(max_unit_cells_, unit_outputs_.back().cells.count);
    max_unit_groups_ = std::max(max_unit_groups_, groups.count);
  }
}

void CellSchedule::append(Range batch) {
  std::vector<Round>& rounds = batches_.emplace_back();
  for (std::uint64_t at = batch.first; at < batch.end();) {
    Round round{.tasks = {.first = tasks_.count()}};
    const std::uint64_t first = at / plan_.unit_elements();
    const std::uint64_t end = first + slots_;
    round.groups = unit_outputs_[first - units_.first].groups;
    std::uint64_t unit = first;
    for (; unit < end && at < batch.end(); ++unit) {
      const Range part = shardstream::intersection(plan_.unit(unit), {at, batch.end() - at});
      append_unit(unit, part, batch.first, round);
      at = part.end();
    }
    const bool last_has_ended = at == plan_.unit(unit - 1).end();
    const std::uint64_t ended = unit - first - (last_has_ended ? 0 : 1);
    end_units({first, ended}, round);
    has_one_block_ = has_one_block_ && round.tasks.has_one_block;
    rounds.push_back(std::move(round));
  }
}

void CellSchedule::append_unit(std::uint64_t unit, Range part, std::uint64_t batch, Round& round) {
  const cells::CellRange own = unit_outputs_[unit - units_.first].cells;
  const std::uint64_t tasks = round.tasks.count, before = tasks_.count();
  if (own.count > 0) plan_.append(part, batch, unit % slots_, own.first, tasks_, round.tasks);
  round.has_one_task_each = round.has_one_task_each && round.tasks.count == tasks + 1;
  // Tasks have no cells in common, so all cells have elements if the numbers are the same.
  const cells::Layout& layout = plan_.layout();
  std::uint64_t items = 0;
  for (std::uint64_t t = before; t < tasks_.count(); ++t) {
    items += cells::item_count(layout, tasks_[t].extent.counts());
  }
  is_whole_ = is_whole_ && part == plan_.unit(unit) && pass_.count == plan_.cells() &&
              items == own.count * layout.lanes * layout.groups;
}

/// The largest whole subtrees of units with the same cells, the slots of which follow one another.
std::vector<Node> CellSchedule::trees_of(Range ended) const {
  std::vector<Node> trees;
  for (std::uint64_t at = ended.first, count; at < ended.end(); at += count) {
    const std::uint64_t aligned = at == 0 ? ended.count : at & (~at + 1);
    const std::uint64_t most = std::min({aligned, ended.end() - at, slots_ - at % slots_});
    count = std::bit_floor(most);
    while (count > 1 && !have_same_cells({at, count})) count /= 2;
    trees.push_back({at, static_cast<std::uint64_t>(std::countr_zero(count))});
  }
  return trees;
}

bool CellSchedule::have_same_cells(Range units) const {
  const cells::CellRange& first = unit_outputs_[units.first - units_.first].cells;
  for (std::uint64_t unit = units.first; unit < units.end(); ++unit) {
    const cells::CellRange& own = unit_outputs_[unit - units_.first].cells;
    if (own.first != first.first || own.count != first.count) return false;
  }
  return true;
}

/// The level of the subtrees that some units consist of.
unsigned CellSchedule::common_level(Range ended) const {
  if (!have_same_cells(ended)) return 0;
  const bool wraps = ended.first % slots_ + ended.count > slots_;
  if (wraps) return 0;
  return static_cast<unsigned>(std::countr_zero(ended.first | ended.count));
}

/// A round folds the outputs of its units, and those of nodes that move to a lower place on the
/// stack.
void CellSchedule::end_units(Range ended, Round& round) {
  round.ended = ended;
  if (ended.count == 0) return;
  if (plan_.layout().lanes > 1) {
    const std::vector<Node> trees = trees_of(ended);
    round.trees = {trees_.size(), trees.size()};
    trees_.insert(trees_.end(), trees.begin(), trees.end());
  } else {
    round.level = common_level(ended);
  }
  round.depth = static_cast<unsigned>(stack_.size());
  std::size_t kept = stack_.size();
  const std::vector<cells::FoldNode> before = stack_;
  for (std::uint64_t u = ended.first; u < ended.end(); ++u) {
    cells::FoldNode node{{u, 0}, unit_outputs_[u - units_.first]};
    while (!stack_.empty() && stack_.back().place.precedes(node.place)) {
      round.folded = cells::hull(round.folded, node.has);
      node = {{stack_.back().place.first, node.place.level + 1},
              cells::hull(stack_.back().has, node.has)};
      stack_.pop_back();
    }
    if (node.place.level == 0) round.folded = cells::hull(round.folded, node.has);
    kept = std::min(kept, stack_.size());
    stack_.push_back(node);
  }
  round.kept = static_cast<unsigned>(kept);
  round.stack.assign(before.begin() + static_cast<std::ptrdiff_t>(kept), before.end());
  expect(stack_.size() <= cells::NodeStack::max_depth, "a shard has few whole subtrees");
}

}  // namespace shardstream::workloads
