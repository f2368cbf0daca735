#include "workloads/product/plan/shape.hpp"

#include <algorithm>
#include <bit>

#include "kernels/gemm/check.hpp"

namespace shardstream::workloads::product {
namespace {

constexpr std::uint64_t exchange_buffer = std::uint64_t{64} << 20;  // fits beside any super-tile

bool siblings(const TreeNode& left, const TreeNode& right) {
  return left.height == right.height && left.index % 2 == 0 && right.index == left.index + 1;
}

}  // namespace

std::uint64_t Stack::push(TreeNode node) {
  std::uint64_t folds = 0;
  for (; !nodes_.empty() && siblings(nodes_.back(), node); ++folds) {
    node = {node.height + 1, node.index / 2};
    nodes_.pop_back();
  }
  nodes_.push_back(node);
  return folds;
}

std::uint64_t segments_of(const Problem& problem) {
  const gemm::Tile& tile = problem.tile;
  if (!gemm::is_tall(problem.m, problem.n, problem.k, tile)) return 1;
  const std::uint64_t tiles =
      saturating_product({ceil_div(problem.m, tile.m), ceil_div(problem.n, tile.n)});
  return std::bit_floor(
      std::min({std::uint64_t{64}, ceil_div(problem.k, tile.k), std::uint64_t{512} / tiles}));
}

std::vector<std::uint64_t> numbers_of_parts(std::uint64_t count) {
  std::vector<std::uint64_t> parts{1};
  for (std::uint64_t max = count; max > 1; max = ceil_div(count, parts.back())) {
    parts.push_back(ceil_div(count, max - 1));
  }
  return parts;
}

Range depth_of(Range blocks, std::uint64_t tile_k, bool begins_shallow) {
  const auto begin = [&](std::uint64_t block) {
    if (!begins_shallow) return block * tile_k;
    return block < 3 ? block * (tile_k / 4) : (block - 2) * tile_k;
  };
  return {begin(blocks.first), begin(blocks.end()) - begin(blocks.first)};
}

// ---------------------------------------------------------------- layout

Shape::Shape(const Problem& of, const Box& in)
    : Layout{.problem = of,
             .box = in,
             .tile_rows = ceil_div(of.m, of.tile.m),
             .tile_columns = ceil_div(of.n, of.tile.n),
             .segments = product::segments_of(of),
             .check_slices = gemm::check_slices(of.m)},
      max_rows(ceil_div(tile_rows, in.rows)),
      max_columns(ceil_div(tile_columns, in.columns)),
      panel_element(gemm::panel_element_bytes(of.precision, of.ranks.backend)),
      a_element(of.a.raw ? of.a.element_bytes : panel_element),
      b_element(of.b.raw ? of.b.element_bytes : panel_element),
      c_element(gemm::accumulator_bytes(of.precision)),
      tile_bytes(saturating_product({of.tile.m, of.tile.n, c_element})) {
  begins_shallow =
      segments == 1 && of.k > of.tile.k && gemm::may_begin_shallow(of.tile, of.precision);
  blocks = ceil_div(of.k, of.tile.k) + (begins_shallow ? 2 : 0);
  for (std::uint64_t layer = 0; layer < in.depth; ++layer) {
    const Range own = segments_of(layer);
    max_blocks = std::max(max_blocks, blocks_of(own).count);
    Stack stack;
    for (std::uint64_t segment = own.first; segment < own.end(); ++segment) {
      levels = std::max<std::uint64_t>(levels, stack.nodes().size() + 1);
      stack.push({0, segment});
    }
    max_nodes = std::max<std::uint64_t>(max_nodes, stack.nodes().size());
  }
  if (in.depth == 1) return;
  const std::uint64_t row = saturating_product({in.depth, max_nodes, of.tile.n, c_element});
  const std::uint64_t fitting = std::max<std::uint64_t>(exchange_buffer / row / 8 * 8, 8);
  exchange_rows = std::min(fitting, of.tile.m);
}

Range Shape::blocks_of(Range of) const {
  const std::uint64_t first = share(blocks, of.first, segments).first;
  return {first, share(blocks, of.end() - 1, segments).end() - first};
}

std::vector<TreeNode> Shape::nodes_of(std::uint64_t layer) const {
  const Range own = segments_of(layer);
  Stack stack;
  for (std::uint64_t segment = own.first; segment < own.end(); ++segment) stack.push({0, segment});
  return stack.nodes();
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

std::uint64_t Shape::a_part_rows(std::uint64_t rows) const {
  return ceil_div(saturating_product({rows, problem.tile.m}), box.columns);
}

bool Shape::a_from_b(Range rows, Range columns) const {
  return problem.symmetric && box.columns == 1 && rows.count > 0 &&
         intersection(rows, columns) == rows;
}

}  // namespace shardstream::workloads::product
