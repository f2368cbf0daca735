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

/// A block of elements as words: the position of its first element in the batch, then for each axis
/// the first index, then for each axis the number of indices. A block is dense and row-major.
constexpr std::uint64_t block_words(unsigned axes) {
  return 1 + 2 * std::uint64_t{axes};
}

/// Blocks of one unit that share cells, as words: the number of the unit's accumulators, the number
/// of the unit's first cell, the first block and the one after the last, and then for each axis the
/// first index and the number of indices of all blocks together. Tasks of a launch that have
/// accumulators in common have no cells in common.
constexpr std::uint64_t task_words(unsigned axes) {
  return 4 + 2 * std::uint64_t{axes};
}

/// Neighbouring elements, at a multiple of this number in the batch, that threads read together.
inline constexpr std::uint64_t vector_elements = 4;

/// A task whose only block is one or several matrices of the same shape, one after another. A row
/// of a matrix has `columns` vectors; the last row may have fewer. The accumulators of a matrix,
/// its items, are numbered by lane and then by cell. If the innermost axis is reduced, a vector has
/// one lane of a cell, and the item of column c is (first_column + c) mod columns. Otherwise a
/// vector has neighbouring items, and those of column c are the vector_elements from
/// ((first_column + c) mod columns) * vector_elements on.
///
/// With groups, there are no lanes. If the innermost axis is kept, each row belongs to one group.
/// Otherwise a matrix is one row, the elements of which belong to groups.
struct DenseTask {
  std::uint64_t matrices = 0;  ///< 0 for a task that is not dense
  std::uint64_t matrix_elements = 0;
  std::uint64_t rows = 0, columns = 0;  ///< rows: whole ones
  std::uint64_t last_columns = 0;       ///< of the row after them
  std::uint64_t first_column = 0;
  std::uint64_t first_index = 0;    ///< along the reduced axis
  std::uint64_t first_element = 0;  ///< its position in the batch
  std::uint64_t unit = 0;           ///< the number of the unit's accumulators
  std::uint64_t unit_cell = 0;      ///< the number of the unit's first cell
  std::uint64_t cell = 0;           ///< the first one of the first matrix
  std::uint64_t cell_step = 0;      ///< to that of the next matrix
  std::uint64_t row_cells = 0;      ///< cells of each lane of a matrix
};

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

/// Adds the values of a batch to their accumulators. All pointers are to device memory. The
/// accumulator of a cell is number ((unit * unit_groups.count + group - unit_groups.first) * lanes
/// + lane) * unit_cells + cell - first cell of the unit.
///
/// If `is_whole`, the tasks have all elements of their units, so that accumulators need not be read
/// or cleared: the kernel writes Moments. It may join neighbouring lanes or units; then the moments
/// of 2^n of them have the place of the first one, and those of lanes are number
/// ((...) * lanes / joined_lanes + lane / joined_lanes) * unit_cells + ...
template <class T>
struct AccumulateArgs {
  const T* elements;
  const std::uint64_t *blocks, *tasks;  ///< words of all blocks, and of the first task
  const DenseTask* dense = nullptr;     ///< each task, if all of them are dense; only GPUs use it
  std::uint64_t max_rows = 0;           ///< the maximum of DenseTask::rows
  std::uint64_t task_count;
  std::uint64_t max_items;  ///< the maximum of item_count() of the tasks
  Layout layout;
  States accumulators;
  std::uint64_t unit_cells;
  GroupRange
      unit_groups;  ///< those with accumulators: all groups that have elements; on a GPU, all
  CellRange cells;  ///< other cells are left out
  Choice choice;
  bool has_one_block = false;  ///< each task
  bool is_whole = false;
  /// Powers of two. More than 1 only if units are whole, and each task has one block of one column:
  /// lanes if they have runs; on a GPU, units if there is one lane, units have the same cells, and
  /// each has one task.
  std::uint64_t joined_lanes = 1, joined_units = 1;
  /// Whether each output has one accumulator, if units are whole. It is then number
  /// group * cells.count + cell - cells.first.
  bool writes_cells = false;
};
/// Lanes on a GPU and on a host, and units.
inline constexpr std::uint64_t max_joined_lanes = 256, max_host_joined_lanes = 128,
                               max_joined_units = 8;

/// A part of a cell that has an accumulator, or moments in its place.
struct Part {
  std::uint64_t unit;       ///< the number of the unit's accumulators
  std::uint64_t unit_cell;  ///< the number of the unit's first cell
  std::uint64_t group, lane, cell;
};

/// The number of the accumulator of a part.
template <class T>
constexpr std::uint64_t number_of(const AccumulateArgs<T>& args, const Part& part) {
  if (args.writes_cells) return part.group * args.cells.count + part.cell - args.cells.first;
  const std::uint64_t lanes = args.layout.lanes / args.joined_lanes;
  const std::uint64_t group = part.unit * args.unit_groups.count + part.group;
  const std::uint64_t line =
      (group - args.unit_groups.first) * lanes + part.lane / args.joined_lanes;
  return line * args.unit_cells + part.cell - part.unit_cell;
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

/// Appends items, which are units or nodes, to a stack of nodes, from left to right, and joins
/// siblings, for some of the outputs: at least those of the items and of the nodes that are joined,
/// except the lowest one. The moments of a cell of node n on the stack are number (n * node_groups
/// + group) * node_cells.count + cell - node_cells.first. The cells of neighbouring items overlap
/// or are neighbours, and they have the same groups; or they have the same cells, and their groups
/// overlap or are neighbours.
template <class T>
struct FoldArgs {
  static constexpr unsigned max_depth = 32;

  States nodes;
  CellRange node_cells;  ///< for which the nodes have memory
  std::uint64_t node_groups;
  CellRange cells;  ///< that are folded, in `groups` groups from `first_group` on
  std::uint64_t first_group, groups;
  unsigned kept;              ///< nodes at the bottom of the stack that stay as they are
  unsigned depth;             ///< of the stack before
  FoldNode stack[max_depth];  ///< these nodes
  /// The moments of the items, or, if `takes_accumulators`, accumulators without lanes, which are
  /// cleared. Those of item i are number (item_slots[i] * item_groups + group -
  /// item_ranges[i].groups.first) * item_cells + cell - item_ranges[i].cells.first.
  States items;
  std::uint64_t first_item, item_count, item_cells, item_groups;
  /// In device memory, by the number of the item: its place, its outputs, and its slot.
  const Node* item_places;
  const OutputRange* item_ranges;
  const std::uint64_t* item_slots;
  /// Items that are joined already: item i stands for 2^joined_level of them, the others of which
  /// are left out.
  std::uint64_t joined_level = 0;
  bool takes_accumulators;
  /// Whether all nodes are then joined into roots. The root of an output has its number.
  bool to_root;
  States roots;
  Quantities quantities;
};

/// Copies the moments of some outputs of a rank's nodes for every other rank, to be exchanged.
/// Those of output o of node n for rank r are number ((r * max_nodes + n) * words + w) * tile + o -
/// first of the rank's range, with w for each word. Outputs are numbered group * cells + cell.
template <class T>
struct PackArgs {
  States nodes;
  std::uint64_t depth, max_nodes;           ///< of this rank, and the maximum of all ranks
  CellRange node_cells;                     ///< for which the nodes have memory
  OutputRange has[FoldArgs<T>::max_depth];  ///< the outputs of each node
  std::uint64_t cells, groups;
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
