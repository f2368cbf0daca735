// The binary trees over the lanes of a cell, and over units. Both backends use these functions.
#pragma once

#include <cstdint>

#include "kernels/cells/cells.hpp"

namespace shardstream::cells {

/// The places of a cell's parts and moments, for number `i` of args.units x groups x unit_cells.
struct JoinPlace {
  std::uint64_t unit, first_part, moments;

  template <class T>
  constexpr JoinPlace(const JoinArgs<T>& args, std::uint64_t i) {
    const std::uint64_t cell = i % args.unit_cells, line = i / args.unit_cells;
    unit = args.first_unit + line / args.groups * args.unit_step;
    const std::uint64_t slot = unit % args.unit_slots * args.groups + line % args.groups;
    first_part = slot * args.unit_parts * args.unit_cells + cell;
    moments = slot * args.unit_cells + cell;
  }
};

/// The moments of accumulator `number`, which is cleared.
template <class T, class Q>
constexpr Moments<T> take(Q quantities, const States& accumulators, std::uint64_t number) {
  using A = Accumulator<T>;
  const Moments<T> m =
      A::load(quantities, accumulators.words + number, accumulators.values).moments(quantities);
  A{}.store(quantities, accumulators.words + number, accumulators.values);
  return m;
}

/// Part n of the parts of a cell, the first of which is accumulator or moments number `first`.
template <class T, class Q>
constexpr Moments<T> part_of(const JoinArgs<T>& args, Q quantities, std::uint64_t first,
                             std::uint64_t n) {
  const std::uint64_t number = first + n * args.step;
  return args.takes_accumulators
             ? take<T>(quantities, args.from, number)
             : Moments<T>::load(quantities, args.from.words + number, args.from.values);
}

/// The binary tree over `parts` parts of a cell, a power of two, from `first` on. Nodes that wait
/// for their siblings replace their last parts, except within four neighbouring parts, since memory
/// is slow.
template <class T, class Q>
constexpr Moments<T> join_parts(const JoinArgs<T>& args, Q quantities, std::uint64_t first,
                                std::uint64_t parts) {
  const States& from = args.from;
  const std::uint64_t leaf = parts < 4 ? 1 : 4;  // parts
  const auto joined = [&](std::uint64_t n) {
    const auto part = [&](std::uint64_t i) {
      return part_of(args, quantities, first, n * leaf + i);
    };
    if (leaf == 1) return part(0);
    const Moments<T> left = join(quantities, part(0), part(1));
    return join(quantities, left, join(quantities, part(2), part(3)));
  };
  const auto last_part = [&](std::uint64_t n) { return first + (n * leaf + leaf - 1) * args.step; };
  Moments<T> m = joined(0);
  for (std::uint64_t n = 1; n < parts / leaf; ++n) {
    m.store(quantities, from.words + last_part(n - 1), from.values);
    m = joined(n);
    for (std::uint64_t left = n, width = 1; left % 2 == 1; left /= 2, width *= 2) {
      const std::uint64_t at = last_part(n - width);
      m = join(quantities, Moments<T>::load(quantities, from.words + at, from.values), m);
      if (args.takes_accumulators) Accumulator<T>{}.store(quantities, from.words + at, from.values);
    }
  }
  return m;
}

/// Writes the moments of the joined parts of a cell.
template <class T, class Q>
constexpr void store_joined(const JoinArgs<T>& args, Q quantities, const JoinPlace& place,
                            Moments<T> m) {
  std::uint64_t* const to = args.moments.words + place.moments;
  if (!args.marks_units) return m.store(quantities, to, args.moments.values);
  const auto unit = static_cast<std::int64_t>(place.unit);
  m.range.min_index = m.range.max_index = m.count > 0 ? unit : no_index;
  m.store(args.quantities | Quantity::units, to, args.moments.values);
}

constexpr bool is_in(const CellRange& cells, std::uint64_t cell) {
  return cell - cells.first < cells.count;
}

constexpr bool is_in(const OutputRange& range, std::uint64_t group, std::uint64_t cell) {
  return is_in(range.cells, cell) && group - range.groups.first < range.groups.count;
}

/// The smallest range of cells or groups with both; an empty one has none.
template <class Numbers>
constexpr Numbers hull(const Numbers& a, const Numbers& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const std::uint64_t first = a.first < b.first ? a.first : b.first;
  const std::uint64_t a_end = a.first + a.count, b_end = b.first + b.count;
  return {first, (a_end < b_end ? b_end : a_end) - first};
}
constexpr OutputRange hull(const OutputRange& a, const OutputRange& b) {
  return {hull(a.cells, b.cells), hull(a.groups, b.groups)};
}

/// Does the work of FoldArgs for `count` neighbouring cells of a group. Nodes stay in memory, since
/// threads have no room for a stack of them.
template <class T, class Q>
constexpr void fold_cells(const FoldArgs<T>& args, Q quantities, std::uint64_t group,
                          std::uint64_t first_cell, std::uint64_t count) {
  using M = Moments<T>;
  const States nodes = args.nodes.states;
  const FoldItems& items = args.items;
  const std::uint64_t output = args.nodes.number_of(0, group, first_cell);
  const std::uint64_t outputs = args.nodes.groups * args.nodes.cells.count;
  FoldNode stack[NodeStack::max_depth];
  const unsigned kept = args.stack.kept;
  unsigned depth = args.stack.depth;
  for (unsigned n = kept; n < depth; ++n) stack[n] = args.stack.nodes[n];
  // Joins the nodes of a cell from `end` down to `begin` with m, which is right of them.
  const auto join_nodes = [&](M& m, unsigned end, unsigned begin, std::uint64_t i) {
    for (unsigned n = end; n-- > begin;) {
      if (!is_in(stack[n].has, group, first_cell + i)) continue;
      m = join(quantities,
               M::load(quantities, nodes.words + n * outputs + output + i, nodes.values), m);
    }
  };
  const std::uint64_t step = std::uint64_t{1} << items.joined_level;
  for (std::uint64_t n = 0; n < items.count; n += step) {
    const std::uint64_t item = items.first + n;
    const OutputRange own = items.outputs[item];
    FoldNode top{items.places[item], own};
    top.place.level += items.joined_level;
    const unsigned before = depth;
    while (depth > kept && stack[depth - 1].place.precedes(top.place)) {
      --depth;
      top = {{stack[depth].place.first, top.place.level + 1}, hull(stack[depth].has, top.has)};
    }
    const std::uint64_t line = items.slots[item] * items.groups + group - own.groups.first;
    const std::uint64_t number = line * items.cells + first_cell - own.cells.first;
    for (std::uint64_t i = 0; i < count; ++i) {
      M m;
      if (is_in(own, group, first_cell + i)) {
        const States& from = items.states;
        m = items.are_accumulators ? take<T>(quantities, from, number + i)
                                   : M::load(quantities, from.words + number + i, from.values);
      }
      join_nodes(m, before, depth, i);
      if (!is_in(top.has, group, first_cell + i)) continue;
      m.store(quantities, nodes.words + depth * outputs + output + i, nodes.values);
    }
    stack[depth++] = top;
  }
  if (args.roots.words == nullptr) return;
  for (std::uint64_t i = 0; i < count; ++i) {
    M m;
    join_nodes(m, depth, kept, i);
    m.store(quantities, args.roots.words + output + i, args.roots.values);
  }
}

/// Does the work of FoldArgs for number `i` of its groups x cells.
template <class T, class Q>
constexpr void fold_output(const FoldArgs<T>& args, Q quantities, std::uint64_t i) {
  const auto& [cells, groups] = args.outputs;
  fold_cells(args, quantities, groups.first + i / cells.count, cells.first + i % cells.count, 1);
}

/// Does the work of PackArgs for number `i` of ranks x depth x tile.
template <class T, class Q>
constexpr void pack_output(const PackArgs<T>& args, Q quantities, std::uint64_t i) {
  const std::uint64_t at = i % args.tile, node = i / args.tile % args.depth;
  const std::uint64_t rank = i / args.tile / args.depth;
  const CellRange range = args.outputs[rank];
  if (at >= range.count) return;
  const std::uint64_t output = range.first + at;
  const std::uint64_t group = output / args.cells, cell = output % args.cells;
  Moments<T> m;
  if (is_in(args.has[node], group, cell)) {
    const States& nodes = args.nodes.states;
    m = Moments<T>::load(quantities, nodes.words + args.nodes.number_of(node, group, cell),
                         nodes.values);
  }
  m.store(
      quantities,
      args.packed + (rank * args.max_nodes + node) * moment_words<T>(quantities) * args.tile + at,
      args.tile);
}

}  // namespace shardstream::cells
