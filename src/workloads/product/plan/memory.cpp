#include "workloads/product/plan/memory.hpp"

#include <algorithm>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"

namespace shardstream::workloads::product {
namespace {

/// Bytes of a buffer: the product of the factors, aligned.
std::uint64_t buffer_bytes(std::initializer_list<std::uint64_t> factors) {
  return aligned(saturating_product(factors));
}

/// The buffers of one batch in the ring.
BatchBuffers batch_buffers(const Shape& shape, const Extents& extents) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const gemm::Precision precision = problem.precision;
  const bool transposed_b = gemm::multiplies_transposed_b(precision, problem.ranks.backend);
  const std::uint64_t rows = saturating_product({extents.rows, tile.m});
  const std::uint64_t columns = saturating_product({extents.columns, tile.n});
  const std::uint64_t depth = gemm::factor_depth(precision, tile.k);
  const std::uint64_t part = shape.a_part_rows(extents.uploaded_rows);
  const std::uint64_t transposed = saturating_product({extents.transposed_rows, tile.m});
  const std::uint64_t a_rows =
      std::max(saturating_product({part, shape.box.columns}), transposed_b ? 0 : transposed);
  const std::uint64_t b_part = shape.b_part_rows(tile.k);
  const std::uint64_t b_rows = saturating_product({b_part, shape.box.rows});
  BatchBuffers batch;
  if (problem.a.raw) batch.raw_a = buffer_bytes({part, tile.k, shape.a_element});
  if (problem.b.raw) batch.raw_b = buffer_bytes({b_part, columns, shape.b_element});
  batch.a_panel = buffer_bytes(
      {a_rows, gemm::a_ld(precision, tile.k, problem.ranks.backend), shape.panel_element});
  batch.b_panel = buffer_bytes({b_rows, columns, shape.panel_element});
  if (gemm::splits(precision)) {
    batch.a_factor = buffer_bytes({rows, depth, shape.panel_element});
    batch.b_factor = buffer_bytes({depth, columns, shape.panel_element});
  }
  if (transposed_b) batch.b_factor = buffer_bytes({columns, tile.k, shape.panel_element});
  batch.y = buffer_bytes({b_rows, 2, extents.columns, sizeof(double)});
  return batch;
}

/// Buffers of the verification.
CheckBuffers check_buffers(const Shape& shape, const Extents& extents) {
  const Problem& problem = shape.problem;
  const std::uint64_t rows = saturating_product({extents.rows, problem.tile.m});
  CheckBuffers check;
  check.z = buffer_bytes({rows, extents.columns, sizeof(double)});
  check.row_squares = buffer_bytes({rows, sizeof(double)});
  check.column_squares = buffer_bytes({extents.columns, sizeof(double)});
  check.slices = shape.check_slices;
  check.verdicts = saturating_sum(
      {buffer_bytes({shape.max_rows, shape.max_columns,
                     sizeof(gemm::TileVerdict) + 3 * sizeof(std::uint64_t)}),
       buffer_bytes({problem.ranks.streams, problem.tile.m, sizeof(gemm::RowVerdict)}),
       buffer_bytes({extents.super_tiles, shape.max_blocks,
                     shape.box.batch_checksums(problem.symmetric), sizeof(std::uint64_t)})});
  if (shape.box.depth > 1) {
    check.gathered_z = saturating_product(
        {shape.box.depth, saturating_sum({check.z, check.row_squares, check.column_squares})});
  }
  return check;
}

/// The minimum uploads of a product that is not symmetric. Every cut keeps the accumulators of its
/// largest super-tile in memory, and uploads A once per column pass and B once per row pass.
std::uint64_t min_of_whole(const Shape& shape, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t tiles = shape.problem.ranks.device_memory /
                              saturating_product({shape.tile_bytes, shape.accumulators()});
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

Buffers buffers_of(const Shape& shape, const Extents& extents) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const bool transposed_b = gemm::multiplies_transposed_b(problem.precision, problem.ranks.backend);
  Buffers buffers{.batch = batch_buffers(shape, extents), .check = check_buffers(shape, extents)};
  buffers.accumulators = buffer_bytes({shape.levels, extents.held_tiles, shape.tile_bytes});
  if (extents.keeps_b) {
    const BatchBuffers& batch = buffers.batch;
    buffers.kept_b = saturating_product(
        {shape.max_blocks,
         saturating_sum({transposed_b ? batch.b_factor : batch.b_panel, batch.y})});
  }
  if (tile.lanes > 1) buffers.lanes = buffer_bytes({tile.lanes, extents.tiles, shape.tile_bytes});
  if (problem.reads_c) buffers.c_tile = buffer_bytes({shape.tile_bytes});
  if (problem.symmetric && problem.stores_c && shape.tile_rows > 1) {
    buffers.mirrors = buffer_bytes({max_mirrors, shape.tile_bytes});
  }
  if (shape.box.depth > 1) {
    buffers.send = buffers.receive = buffer_bytes(
        {shape.box.depth, shape.max_nodes, shape.exchange_rows, tile.n, shape.c_element});
  }
  return buffers;
}

std::uint64_t batch_bytes(const BatchBuffers& batch) {
  return saturating_sum({batch.raw_a, batch.raw_b, batch.a_panel, batch.b_panel, batch.a_factor,
                         batch.b_factor, batch.y});
}

std::uint64_t check_bytes(const CheckBuffers& check) {
  const std::uint64_t slice = saturating_sum({check.z, check.row_squares, check.column_squares});
  return saturating_sum(
      {saturating_product({check.slices, slice}), check.gathered_z, check.verdicts});
}

std::uint64_t device_bytes(const Shape& shape, const Extents& extents, std::uint64_t ring) {
  const Buffers buffers = buffers_of(shape, extents);
  return saturating_sum({saturating_product({ring, batch_bytes(buffers.batch)}),
                         check_bytes(buffers.check), buffers.accumulators, buffers.kept_b,
                         buffers.lanes, buffers.c_tile, buffers.mirrors, buffers.send,
                         buffers.receive, shape.problem.ranks.other_bytes});
}

std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const gemm::Tile& tile = shape.problem.tile;
  return saturating_sum(
      {saturating_product({shape.a_part_rows(pass.uploaded_rows), depth, shape.a_element}),
       pass.has_b ? 0
                  : saturating_product(
                        {shape.b_part_rows(depth), pass.columns, tile.n, shape.b_element})});
}

std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const gemm::Tile& tile = shape.problem.tile;
  return saturating_sum(
      {saturating_product({shape.box.columns - 1, shape.a_part_rows(pass.uploaded_rows),
                           gemm::a_ld(shape.problem.precision, depth, shape.problem.ranks.backend),
                           shape.panel_element}),
       pass.has_b
           ? 0
           : saturating_product({shape.box.rows - 1, shape.b_part_rows(depth), pass.columns,
                                 saturating_sum({saturating_product({tile.n, shape.panel_element}),
                                                 2 * sizeof(double)})})});
}

std::uint64_t of_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                        const Shape& shape, const Pass& pass, std::uint64_t blocks) {
  const std::uint64_t deep = shape.problem.tile.k, of_deep = bytes(shape, pass, deep);
  if (!shape.begins_shallow) return saturating_product({blocks, of_deep});
  return saturating_sum({saturating_product({2, bytes(shape, pass, deep / 4)}),
                         bytes(shape, pass, deep / 2), saturating_product({blocks - 3, of_deep})});
}

std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass) {
  if (shape.box.depth == 1) return 0;
  const gemm::Tile& tile = shape.problem.tile;
  const std::uint64_t sums =
      saturating_sum({saturating_product({pass.rows, tile.m, pass.columns}),
                      saturating_product({pass.rows, tile.m}), pass.columns});
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
  std::uint64_t min = UINT64_MAX, work = 0;
  for (const Cut& cut : cuts_of(shape)) {
    if (work > max_work && min < UINT64_MAX) break;
    const auto fits = [&](const Extents& extents) {
      return saturating_product({extents.tiles, shape.accumulators(), shape.tile_bytes}) <=
             problem.ranks.device_memory;
    };
    if (!fits(min_extents(shape, cut))) continue;
    work += work_of(shape, cut);
    if (!fits(extents_of(cut, passes_of(shape, cut)))) continue;
    std::uint64_t bytes = 0;
    for (const std::uint64_t pass : passes_with_tiles(shape, cut)) {
      const auto [rows, columns] = super_tile_of(shape, cut, pass, row, column);
      bytes =
          saturating_sum({bytes, shape.a_from_b(rows, columns) ? 0 : of_a(rows), of_b(columns)});
    }
    min = std::min(min, bytes);
  }
  return min;
}

}  // namespace shardstream::workloads::product
