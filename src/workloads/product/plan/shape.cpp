#include "workloads/product/plan/shape.hpp"

#include <algorithm>

#include "kernels/gemm/check.hpp"

namespace shardstream::workloads::product {

Range elements_of(Range tiles, std::uint64_t edge, std::uint64_t end) {
  return intersection({tiles.first * edge, tiles.count * edge}, {0, end});
}

std::vector<std::uint64_t> numbers_of_parts(std::uint64_t count) {
  std::vector<std::uint64_t> parts{1};
  for (std::uint64_t max = count; max > 1; max = ceil_div(count, parts.back())) {
    parts.push_back(ceil_div(count, max - 1));
  }
  return parts;
}

Shape::Shape(const Problem& of, const Box& in)
    : problem(of),
      box(in),
      tile_rows(ceil_div(of.m, of.tile.m)),
      tile_columns(ceil_div(of.n, of.tile.n)),
      segments(count_segments(of)),
      check_slices(gemm::check_slices(of.tile, saturating_product({of.moments.planes, of.m}))),
      max_rows(ceil_div(tile_rows, in.rows)),
      max_columns(ceil_div(tile_columns, in.columns)),
      panel_element(gemm::panel_element_bytes(of.precision, of.ranks.backend)),
      a_element(of.a.raw ? of.a.element_bytes : panel_element),
      b_element(of.b.raw ? of.b.element_bytes : panel_element),
      c_element(gemm::accumulator_bytes(of.precision)),
      tile_bytes(saturating_product({of.moments.count, of.tile.m, of.tile.n, c_element})) {
  begins_shallow =
      segments == 1 && of.k > of.tile.k && gemm::may_begin_shallow(of.tile, of.precision);
  blocks = ceil_div(of.k, of.tile.k) + (begins_shallow ? 2 : 0);
  for (std::uint64_t layer = 0; layer < in.depth; ++layer) {
    const Range own = segments_of(layer);
    max_blocks = std::max(max_blocks, blocks_of(own).count);
    NodeStack stack;
    for (std::uint64_t segment = own.first; segment < own.end(); ++segment) {
      levels = std::max<std::uint64_t>(levels, stack.nodes().size() + 1);
      stack.push({0, segment});
    }
    max_nodes = std::max<std::uint64_t>(max_nodes, stack.nodes().size());
  }
  if (in.depth == 1) return;
  constexpr std::uint64_t exchange_buffer = std::uint64_t{64} << 20;  // fits beside any super-tile
  const std::uint64_t row = saturating_product({in.depth, max_nodes, of.tile.n, c_element});
  const std::uint64_t fitting = std::max<std::uint64_t>(exchange_buffer / row / 8 * 8, 8);
  exchange_rows = std::min(fitting, of.moments.count * of.tile.m);
}

Range Shape::blocks_of(Range of) const {
  const std::uint64_t first = share(blocks, of.first, segments).first;
  return {first, share(blocks, of.end() - 1, segments).end() - first};
}

std::vector<TreeNode> Shape::nodes_of(std::uint64_t layer) const {
  const Range own = segments_of(layer);
  NodeStack stack;
  for (std::uint64_t segment = own.first; segment < own.end(); ++segment) stack.push({0, segment});
  return stack.nodes();
}

Range Shape::depth(Range some_blocks) const {
  const auto begin = [&](std::uint64_t block) {
    if (!begins_shallow) return block * problem.tile.k;
    return block < 3 ? block * (problem.tile.k / 4) : (block - 2) * problem.tile.k;
  };
  return {begin(some_blocks.first), begin(some_blocks.end()) - begin(some_blocks.first)};
}

std::uint64_t Shape::a_part_rows(std::uint64_t rows) const {
  return ceil_div(saturating_product({rows, problem.tile.m}), box.columns);
}

bool Shape::a_from_b(const SuperTile& super_tile) const {
  const Range rows = super_tile.rows;
  return problem.symmetric && box.columns == 1 && rows.count > 0 &&
         intersection(rows, super_tile.columns) == rows;
}

std::array<Range, 2> Shape::computed(std::uint64_t row) const {
  const std::uint64_t edge = tile_columns;
  if (!problem.symmetric) return {{{0, edge}, {}}};
  const std::uint64_t half = edge / 2;
  // Tiles at a distance of half the edge from the diagonal: one of each mirrored pair is computed,
  // in turn in the upper and in the lower half. So all rows have nearly the same number of tiles.
  const bool has_pair = edge % 2 == 0 && (row < half ? row % 2 == 0 : (row - half) % 2 == 1);
  const std::uint64_t count = (edge + 1) / 2 + (has_pair ? 1 : 0);
  const std::uint64_t before_end = std::min(count, edge - row);
  return {{{0, count - before_end}, {row, before_end}}};
}

bool Shape::computed(TileIndex tile) const {
  for (const Range run : computed(tile.row)) {
    if (intersection(run, {tile.column, 1}).count > 0) return true;
  }
  return false;
}

std::vector<TileRun> Shape::runs(const SuperTile& super_tile) const {
  std::vector<TileRun> runs;
  std::uint64_t first = 0;
  for (std::uint64_t i = super_tile.rows.first; i < super_tile.rows.end(); ++i) {
    for (const Range computed : computed(i)) {
      const Range run = intersection(computed, super_tile.columns);
      if (run.count == 0) continue;
      runs.push_back({i, run, first});
      first += run.count;
    }
  }
  return runs;
}

std::vector<TileIndex> Shape::tiles(const SuperTile& super_tile) const {
  std::vector<TileIndex> tiles;
  for (const TileRun& run : runs(super_tile)) {
    for (std::uint64_t i = 0; i < run.columns.count; ++i) {
      tiles.push_back({run.row, run.columns.first + i});
    }
  }
  return tiles;
}

std::uint64_t Shape::count_tiles(const SuperTile& tiles) const {
  if (!problem.symmetric) return saturating_product({tiles.rows.count, tiles.columns.count});
  std::uint64_t count = 0;
  for (std::uint64_t row = tiles.rows.first; row < tiles.rows.end(); ++row) {
    for (const Range columns : computed(row)) {
      count += intersection(columns, tiles.columns).count;
    }
  }
  return count;
}

std::vector<FoldAddition> Shape::fold() const {
  struct NodePosition {
    std::uint64_t layer, node;
  };
  NodeStack stack;
  std::vector<NodePosition> places;  // the layer and number of each node in the stack
  std::vector<FoldAddition> adds;
  for (std::uint64_t each = 0; each < box.depth; ++each) {
    std::uint64_t number = 0;
    for (const TreeNode& node : nodes_of(each)) {
      places.push_back({each, number++});
      for (std::uint64_t folds = stack.push(node); folds > 0; --folds) {
        const NodePosition right = places.back();
        places.pop_back();
        adds.push_back({places.back().layer, places.back().node, right.layer, right.node});
      }
    }
  }
  return adds;
}

}  // namespace shardstream::workloads::product
