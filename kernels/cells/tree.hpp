// The binary trees over the lanes of a cell, and over units. Both backends use these functions.
#pragma once

#include <cstdint>

#include "kernels/cells/cells.hpp"

namespace shardstream::cells {

/// The places of a cell's lanes and moments, for number `i` of args.units x groups x unit_cells.
struct LanePlace {
  std::uint64_t accumulator;  ///< of lane 0; the others follow with steps of unit_cells
  std::uint64_t moments;

  template <class T>
  constexpr LanePlace(const JoinLanesArgs<T>& args, std::uint64_t i) {
    const std::uint64_t cell = i % args.unit_cells, line = i / args.unit_cells;
    const std::uint64_t group = line % args.groups, unit = args.first_unit + line / args.groups;
    const std::uint64_t slot = unit % args.unit_slots * args.groups + group;
    accumulator = slot * args.lanes * args.unit_cells + cell;
    moments = slot * args.unit_cells + cell;
  }
};

/// The moments of accumulator `number`, which is cleared.
template <class T, Set S>
constexpr Moments<T, S> take(const States& accumulators, std::uint64_t number) {
  using A = Accumulator<T, S>;
  const Moments<T, S> m = A::load(accumulators.words + number, accumulators.values).moments();
  A{}.store(accumulators.words + number, accumulators.values);
  return m;
}

/// The binary tree over 2^n lanes of a cell, which are neighbours at `first` and those after it.
/// Nodes that wait for their siblings replace the accumulators of their last lanes.
template <class T, Set S>
constexpr Moments<T, S> join_lanes(const States& accumulators, std::uint64_t first,
                                   std::uint64_t step, std::uint64_t lanes) {
  using M = Moments<T, S>;
  M m = take<T, S>(accumulators, first);
  for (std::uint64_t lane = 1; lane < lanes; ++lane) {
    m.store(accumulators.words + first + (lane - 1) * step, accumulators.values);
    m = take<T, S>(accumulators, first + lane * step);
    for (std::uint64_t n = lane, width = 1; n % 2 == 1; n /= 2, width *= 2) {
      const std::uint64_t at = first + (lane - width) * step;
      m = join(M::load(accumulators.words + at, accumulators.values), m);
      Accumulator<T, S>{}.store(accumulators.words + at, accumulators.values);
    }
  }
  return m;
}

constexpr bool is_in(const CellRange& cells, std::uint64_t cell) {
  return cell - cells.first < cells.count;
}

/// The smallest range with both; an empty one has no cells.
constexpr CellRange hull(const CellRange& a, const CellRange& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const std::uint64_t first = a.first < b.first ? a.first : b.first;
  const std::uint64_t a_end = a.first + a.count, b_end = b.first + b.count;
  return {first, (a_end < b_end ? b_end : a_end) - first};
}

/// Does the work of FoldArgs for number `i` of groups x cells.count. Nodes stay in memory, since
/// threads have no room for a stack of them.
template <class T, Set S>
constexpr void fold_output(const FoldArgs<T>& args, std::uint64_t i) {
  using M = Moments<T, S>;
  const std::uint64_t group = i / args.cells.count;
  const std::uint64_t cell = args.cells.first + i % args.cells.count;
  const std::uint64_t output = group * args.node_cells.count + cell - args.node_cells.first;
  const std::uint64_t outputs = args.groups * args.node_cells.count;
  const auto node = [&](unsigned n) { return args.nodes.words + n * outputs + output; };
  FoldNode stack[FoldArgs<T>::max_depth];
  unsigned depth = args.depth;
  for (unsigned n = args.kept; n < depth; ++n) stack[n] = args.stack[n];
  const auto join_top = [&](M m) {
    --depth;
    return is_in(stack[depth].cells, cell) ? join(M::load(node(depth), args.nodes.values), m) : m;
  };
  for (std::uint64_t item = args.first_item; item < args.first_item + args.item_count; ++item) {
    FoldNode top{args.item_places[item], args.item_ranges[item]};
    M m;
    if (is_in(top.cells, cell)) {
      const std::uint64_t line = args.item_slots[item] * args.groups + group;
      const std::uint64_t number = line * args.item_cells + (cell - top.cells.first);
      m = args.takes_accumulators ? take<T, S>(args.items, number)
                                  : M::load(args.items.words + number, args.items.values);
    }
    while (depth > args.kept && stack[depth - 1].place.precedes(top.place)) {
      m = join_top(m);
      top = {{stack[depth].place.first, top.place.level + 1}, hull(stack[depth].cells, top.cells)};
    }
    if (is_in(top.cells, cell)) m.store(node(depth), args.nodes.values);
    stack[depth++] = top;
  }
  if (!args.to_root) return;
  M m;
  while (depth > args.kept) m = join_top(m);
  m.store(args.roots.words + output, args.roots.values);
}

/// Does the work of PackArgs for number `i` of ranks x depth x tile.
template <class T, Set S>
constexpr void pack_output(const PackArgs<T>& args, std::uint64_t i) {
  const std::uint64_t at = i % args.tile, node = i / args.tile % args.depth;
  const std::uint64_t rank = i / args.tile / args.depth;
  const CellRange range = args.outputs[rank];
  if (at >= range.count) return;
  const std::uint64_t output = range.first + at;
  const std::uint64_t cell = output % args.cells;
  Moments<T, S> m;
  if (is_in(args.has[node], cell)) {
    const std::uint64_t line = node * args.groups + output / args.cells;
    const std::uint64_t at_node = line * args.node_cells.count + cell - args.node_cells.first;
    m = Moments<T, S>::load(args.nodes.words + at_node, args.nodes.values);
  }
  m.store(args.packed + (rank * args.max_nodes + node) * words_of<T, S> * args.tile + at,
          args.tile);
}

}  // namespace shardstream::cells
