// Statistics for each cell of an array: the values of a cell are those at one place of the kept
// dimensions, along all reduced dimensions.
//
// Adjacent dimensions that are treated alike form one axis. The values of a cell are divided into
// lanes by their index along one reduced axis, so that few cells keep many threads at work. Each
// lane adds its values in the order of storage. Lanes are joined as one binary tree, and units,
// which are ranges of elements, as another one (moments.hpp). Lanes and units depend only on the
// data, so the bits do not depend on batches, backends or ranks.
#pragma once

#include <cstdint>

#include "kernels/cells/moments.hpp"
#include "kernels/cells/tasks.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::cells {

inline constexpr unsigned max_axes = 8;
inline constexpr unsigned no_axis = max_axes;

struct Axis {
  bool is_kept;
  /// The steps of an index along this axis in the number of the cell (if it is kept), in the number
  /// of the value within its cell (if it is reduced), and in the weights; otherwise 0.
  std::uint64_t cell_step, value_step, weight_step;
};

/// How elements belong to cells, groups and lanes.
struct Layout {
  unsigned axes = 0;
  Axis axis[max_axes] = {};
  unsigned lane_axis = no_axis;  ///< a reduced axis, if there are several lanes
  std::uint64_t lanes = 1;       ///< a power of two
  /// Whether the innermost axis is reduced and long, and has no groups.
  bool by_rows = false;
  unsigned group_axis = no_axis;  ///< a reduced axis, if there are groups
  std::uint64_t groups = 1;
  /// In device memory: the indices along the group axis, group by group and ascending within a
  /// group, and for each group, the position of its first one; `groups` + 1 entries.
  const std::uint64_t* steps = nullptr;
  const std::uint64_t* first_step = nullptr;
  const double* weights = nullptr;  ///< in device memory; null without weights

  /// Whether the elements of a block that belong to one accumulator have one index along every axis
  /// but one.
  constexpr bool has_one_column() const {
    unsigned reduced = 0;
    for (unsigned a = 0; a < axes; ++a) reduced += axis[a].is_kept ? 0 : 1;
    return reduced == 1;
  }

  /// The lane of index i along the lane axis is i / run() mod lanes. If the lane axis has groups,
  /// it is j mod lanes for the j-th index of a group.
  constexpr std::uint64_t run() const;
};

/// Neighbouring elements of a row that belong to one lane, so that a thread reads 16 bytes of f32.
inline constexpr std::uint64_t row_run = 4;

constexpr std::uint64_t Layout::run() const {
  return by_rows && lane_axis == axes - 1 ? row_run : 1;
}

/// Numbers of cells.
struct CellRange {
  std::uint64_t first, count;
};
/// Numbers of groups.
struct GroupRange {
  std::uint64_t first, count;
};
/// Some cells, in each of some groups.
struct OutputRange {
  CellRange cells;
  GroupRange groups;
};

/// Arrays of Accumulator or Moments: word w of value v is at `words` + w * `values` + v.
struct States {
  std::uint64_t* words;
  std::uint64_t values;
};

/// A choice of statistics.
struct Choice {
  Quantities quantities;
  Skip skip = Skip::none;
  std::int64_t marker = 0;  ///< the integer that stands for a missing value
};

/// The accumulators of units in memory, or the moments in their place.
struct UnitStates {
  /// The state that a launch leaves.
  enum class Kind : std::uint8_t {
    accumulators,  ///< of the elements so far
    moments,       ///< of units: the tasks have all of their elements, so that accumulators are
                   ///< neither read nor cleared
    outputs,       ///< moments of outputs, each of which is in one unit
  };

  States states = {};
  Kind kind = Kind::accumulators;
  std::uint64_t cells = 1;  ///< of a unit
  /// Those with accumulators: all groups that have elements; on a GPU, all.
  GroupRange groups = {0, 1};
  /// Neighbouring lanes or units that are joined: powers of two. More than 1 only if units are
  /// whole, and each task has one block of one column: lanes if they have runs; on a GPU, units if
  /// there is one lane, units have the same cells, and each has one task. The moments of 2^n of
  /// them have the place of the first one.
  std::uint64_t joined_lanes = 1, joined_units = 1;

  constexpr bool is_whole() const { return kind != Kind::accumulators; }
};

/// Adds the values of a batch to their accumulators. All pointers are to device memory.
template <class T>
struct AccumulateArgs {
  const T* elements;
  Tasks tasks;
  Layout layout;
  UnitStates units;
  CellRange cells;  ///< other cells are left out
  Choice choice;
};
/// Lanes on a GPU and on a host, and units.
inline constexpr std::uint64_t max_joined_lanes = 256, max_host_joined_lanes = 128,
                               max_joined_units = 8;

/// A part of a cell that has an accumulator, or moments in its place.
struct CellPart {
  std::uint64_t unit;       ///< the number of the unit's accumulators
  std::uint64_t unit_cell;  ///< the number of the unit's first cell
  std::uint64_t group, lane, cell;
};

/// The number of the accumulator of a part: ((unit * groups.count + group - groups.first) * lanes +
/// lane) * cells + cell - first cell of the unit, with lanes and their number divided by
/// joined_lanes. Outputs have the number group * cells of the launch + cell.
template <class T>
constexpr std::uint64_t number_of(const AccumulateArgs<T>& args, const CellPart& part) {
  const UnitStates& units = args.units;
  if (units.kind == UnitStates::Kind::outputs) {
    return part.group * args.cells.count + part.cell - args.cells.first;
  }
  const std::uint64_t lanes = args.layout.lanes / units.joined_lanes;
  const std::uint64_t group = part.unit * units.groups.count + part.group;
  const std::uint64_t line = (group - units.groups.first) * lanes + part.lane / units.joined_lanes;
  return line * units.cells + part.cell - part.unit_cell;
}

/// The number of accumulators that the blocks of a task may touch: groups x lanes x cells.
/// `extents` has the number of indices of each axis.
constexpr std::uint64_t item_count(const Layout& layout, const std::uint64_t* extents) {
  std::uint64_t items = layout.groups * layout.lanes;
  for (unsigned a = 0; a < layout.axes; ++a) {
    if (layout.axis[a].is_kept) items *= extents[a];
  }
  return items;
}

/// Joins the lanes of a unit, or units, as a binary tree. The parts of a cell are `parts`
/// accumulators, which are cleared, or moments, a power of two. The first one is number
/// (unit * groups + group) * unit_parts * unit_cells + cell, and the others follow with steps of
/// `step`. The result is number (unit * groups + group) * unit_cells + cell of `moments`, which may
/// be the same memory if unit_parts is 1.
template <class T>
struct JoinArgs {
  States from, moments;
  bool takes_accumulators;
  /// For `units` units that are unit_step apart. Unit u is at number u mod unit_slots.
  std::uint64_t first_unit, units, unit_step, unit_slots;
  std::uint64_t groups, unit_cells, unit_parts;
  std::uint64_t parts, step;
  Quantities quantities;
  /// Whether the result also has the quantity `units`: the number of the unit.
  bool marks_units = false;
};

/// Makes accumulators empty.
template <class T>
struct ClearArgs {
  States accumulators;
  Quantities quantities;
};

/// A node of the binary tree over units: units [first, first + 2^level).
struct Node {
  std::uint64_t first, level;

  /// Whether `other` is the right sibling of this node.
  constexpr bool precedes(const Node& other) const {
    const std::uint64_t width = std::uint64_t{1} << level;
    return level == other.level && first % (2 * width) == 0 && first + width == other.first;
  }
};

/// A node on the stack, and the outputs that it has.
struct FoldNode {
  Node place;
  OutputRange has;
};

/// Moments of nodes in memory. Those of a cell of node n are number (n * groups + group) *
/// cells.count + cell - cells.first.
struct NodeStates {
  States states = {};
  CellRange cells = {};
  std::uint64_t groups = 1;

  constexpr std::uint64_t number_of(std::uint64_t node, std::uint64_t group,
                                    std::uint64_t cell) const {
    return (node * groups + group) * cells.count + cell - cells.first;
  }
};

/// A stack of nodes, from left to right.
struct NodeStack {
  static constexpr unsigned max_depth = 32;

  unsigned kept = 0;               ///< nodes at the bottom that stay; their places are not needed
  unsigned depth = 0;              ///< of the stack before
  FoldNode nodes[max_depth] = {};  ///< from `kept` to `depth`
};

/// Units or nodes that are appended to a stack. In `states` are their moments, or, if
/// `are_accumulators`, accumulators without lanes, which are cleared. Those of item i are number
/// (slots[i] * groups + group - outputs[i].groups.first) * cells + cell - outputs[i].cells.first.
struct FoldItems {
  States states = {};
  bool are_accumulators = false;
  std::uint64_t first = 0, count = 0;
  std::uint64_t cells = 1, groups = 1;  ///< of an item
  /// In device memory, by the number of the item.
  const Node* places = nullptr;
  const OutputRange* outputs = nullptr;
  const std::uint64_t* slots = nullptr;
  /// Items that are joined already: item i stands for 2^joined_level of them, the others of which
  /// are left out.
  std::uint64_t joined_level = 0;
};

/// Appends items to a stack of nodes, from left to right, and joins siblings, for some of the
/// outputs: at least those of the items and of the nodes that are joined, except the lowest one.
/// The cells of neighbouring items overlap or are neighbours, and they have the same groups; or
/// they have the same cells, and their groups overlap or are neighbours.
template <class T>
struct FoldArgs {
  NodeStates nodes;
  OutputRange outputs;
  NodeStack stack = {};
  FoldItems items = {};
  /// If it has memory, all nodes are then joined into roots, which are numbered as the outputs of
  /// the first node.
  States roots = {};
  Quantities quantities;
};

/// Copies the moments of some outputs of a rank's nodes for every other rank, to be exchanged.
/// Those of output o of node n for rank r are number ((r * max_nodes + n) * words + w) * tile + o -
/// first of the rank's range, with w for each word. Outputs are numbered group * cells + cell.
template <class T>
struct PackArgs {
  NodeStates nodes;
  std::uint64_t depth, max_nodes;         ///< of this rank, and the maximum of all ranks
  OutputRange has[NodeStack::max_depth];  ///< the outputs of each node
  std::uint64_t cells;
  const CellRange* outputs;  ///< in device memory: the outputs of each rank, up to `tile` of them
  std::uint64_t ranks, tile;
  std::uint64_t* packed;
  Quantities quantities;
};

template <class T>
struct Kernels {
  static Kernel<AccumulateArgs<T>> accumulate();
  static Kernel<JoinArgs<T>> join();
  static Kernel<ClearArgs<T>> clear();
  static Kernel<FoldArgs<T>> fold();
  static Kernel<PackArgs<T>> pack();
};

/// Each launcher enqueues one kernel and does not wait.
namespace cuda {
template <class T>
struct Launchers {
  static void accumulate(const AccumulateArgs<T>& args, CudaStream stream);
  static void join(const JoinArgs<T>& args, CudaStream stream);
  static void clear(const ClearArgs<T>& args, CudaStream stream);
  static void fold(const FoldArgs<T>& args, CudaStream stream);
  static void pack(const PackArgs<T>& args, CudaStream stream);
};
}  // namespace cuda

}  // namespace shardstream::cells
