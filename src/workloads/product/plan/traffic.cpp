#include "workloads/product/plan/traffic.hpp"

#include <algorithm>

namespace shardstream::workloads::product {

namespace {

/// The minimum uploads of a product that is not symmetric. Every cut keeps the accumulators of its
/// largest super-tile in memory, and uploads A once per column pass and B once per row pass.
std::uint64_t min_of_whole(const Shape& shape, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t tiles = shape.problem.ranks.device_memory / shape.accumulator_bytes();
  std::uint64_t min = UINT64_MAX;
  for (const std::uint64_t column_passes : numbers_of_parts(shape.max_columns)) {
    const std::uint64_t rows = tiles / ceil_div(shape.max_columns, column_passes);
    if (rows == 0) continue;
    const std::uint64_t row_passes = ceil_div(shape.max_rows, rows);
    min = std::min(min, saturating_sum({saturating_product({column_passes, a}),
                                        saturating_product({row_passes, b})}));
  }
  return min;
}

}  // namespace

std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const Problem& problem = shape.problem;
  // Raw operands are uploaded without padding.
  const auto uploaded = [](const UploadedOperand& operand, std::uint64_t padded,
                           std::uint64_t edge) {
    return operand.raw ? std::min(padded, edge) : padded;
  };
  const std::uint64_t rows = uploaded(problem.a, shape.a_part_rows(pass.uploaded_rows), problem.m);
  const std::uint64_t columns =
      uploaded(problem.b, saturating_product(pass.columns, problem.tile.n), problem.n);
  return saturating_sum(
      {saturating_product({rows, depth, shape.a_element}),
       pass.has_b ? 0 : saturating_product({shape.b_part_rows(depth), columns, shape.b_element})});
}

std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const gemm::Tile& tile = shape.problem.tile;
  const std::uint64_t y = tile.is_narrow() ? 0 : 2 * sizeof(double);
  return saturating_sum(
      {saturating_product({shape.box.columns - 1, shape.a_part_rows(pass.uploaded_rows),
                           gemm::a_ld(shape.problem.precision, depth, shape.problem.ranks.backend),
                           shape.panel_element}),
       pass.has_b ? 0
                  : saturating_product(
                        {shape.box.rows - 1, shape.b_part_rows(depth), pass.columns,
                         shape.problem.moments.planes,
                         saturating_sum({saturating_product({tile.n, shape.panel_element}), y})})});
}

std::uint64_t sum_over_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                              const Shape& shape, const Pass& pass, std::uint64_t blocks) {
  const std::uint64_t deep = shape.problem.tile.k, of_deep = bytes(shape, pass, deep);
  if (!shape.begins_shallow) return saturating_product({blocks, of_deep});
  return saturating_sum({saturating_product({2, bytes(shape, pass, deep / 4)}),
                         bytes(shape, pass, deep / 2), saturating_product({blocks - 3, of_deep})});
}

std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass) {
  if (shape.box.depth == 1) return 0;
  const std::uint64_t rows = shape.panel_rows(pass.rows);
  const std::uint64_t columns = saturating_product({shape.problem.moments.planes, pass.columns});
  const std::uint64_t sums = saturating_sum({saturating_product({rows, columns}), rows, columns});
  return saturating_product(
      {shape.box.depth - 1,
       saturating_sum({saturating_product({ceil_div(pass.tiles, shape.box.depth), shape.max_nodes,
                                           shape.tile_bytes}),
                       saturating_product({sums, sizeof(double)})})});
}

std::uint64_t min_uploads(const Shape& shape, std::uint64_t row, std::uint64_t column,
                          std::uint64_t layer) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const Range depth = shape.depth(shape.blocks_of(shape.segments_of(layer)));
  const std::uint64_t k = intersection(depth, {0, problem.k}).count;
  const auto of_a = [&](Range rows) {
    return saturating_product({elements_of(rows, tile.m, problem.m).count, k, shape.a_element}) /
           shape.box.columns;
  };
  const auto of_b = [&](Range columns) {
    return saturating_product({elements_of(columns, tile.n, problem.n).count, k, shape.b_element}) /
           shape.box.rows;
  };
  if (!problem.symmetric) {
    return min_of_whole(shape, of_a(shape.rows_of(row)), of_b(shape.columns_of(column)));
  }
  // Cuts into more super-tiles than needed upload more, so only the first ones that fit are
  // considered.
  std::uint64_t min = UINT64_MAX;
  const auto fits = [&](const CutSizes& sizes) {
    return saturating_product({sizes.tiles, shape.accumulator_bytes()}) <=
           problem.ranks.device_memory;
  };
  search_cuts(shape, fits, [&](const Cut& cut) {
    if (!fits(sizes_of(cut, passes_of(shape, cut)))) return false;
    std::uint64_t bytes = 0;
    for (const std::uint64_t pass : passes_with_tiles(shape, cut)) {
      const SuperTile tiles = super_tile_of(shape, cut, pass, row, column);
      bytes = saturating_sum(
          {bytes, shape.a_from_b(tiles) ? 0 : of_a(tiles.rows), of_b(tiles.columns)});
    }
    min = std::min(min, bytes);
    return true;
  });
  return min;
}

}  // namespace shardstream::workloads::product
