#include "workloads/product/plan/buffers.hpp"

#include <algorithm>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/residues/residues.hpp"
#include "workloads/product/plan/tile_report.hpp"

namespace shardstream::workloads::product {
namespace {

/// Bytes of a buffer: the product of the factors, aligned.
std::uint64_t buffer_bytes(std::initializer_list<std::uint64_t> factors) {
  return aligned(saturating_product(factors));
}

/// The buffers of one batch in the ring.
BatchBuffers batch_buffers(const Shape& shape, const CutSizes& sizes) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const gemm::Precision precision = problem.precision;
  const bool transposed_b = gemm::multiplies_transposed_b(precision, problem.ranks.backend);
  const std::uint64_t planes = problem.moments.planes;
  const std::uint64_t rows = shape.panel_rows(sizes.rows);
  const std::uint64_t columns = shape.panel_columns(sizes.columns);
  const std::uint64_t depth = gemm::factor_depth(precision, tile.k);
  const std::uint64_t part = shape.a_part_rows(sizes.uploaded_rows);
  const std::uint64_t transposed = shape.panel_rows(sizes.transposed_rows);
  const std::uint64_t a_rows = std::max(saturating_product({part, planes, shape.box.columns}),
                                        transposed_b ? 0 : transposed);
  const std::uint64_t b_part = shape.b_part_rows(tile.k);
  const std::uint64_t b_rows = saturating_product({b_part, shape.box.rows});
  BatchBuffers batch;
  if (problem.a.raw) batch.raw_a = buffer_bytes({part, tile.k, shape.a_element});
  if (problem.b.raw) batch.raw_b = buffer_bytes({b_part, columns / planes, shape.b_element});
  batch.b_panel = buffer_bytes({b_rows, columns, shape.panel_element});
  if (gemm::splits(precision)) {
    batch.a_factor = buffer_bytes({rows, depth, shape.panel_element});
    batch.b_factor = buffer_bytes({depth, columns, shape.panel_element});
  }
  if (gemm::multiplies_residues(precision)) {
    const bool has_a = sizes.uploaded_rows > 0;  // otherwise A's residues are some of B's
    if (has_a) batch.a_factor = residue_parts(problem, gemm::Side::a, rows).bytes();
    batch.b_factor = residue_parts(problem, gemm::Side::b, columns).bytes();
  }
  if (transposed_b) batch.b_factor = buffer_bytes({columns, tile.k, shape.panel_element});
  if (tile.is_narrow()) return batch;  // its check needs B's panel alone
  batch.a_panel = buffer_bytes(
      {a_rows, gemm::a_ld(precision, tile.k, problem.ranks.backend), shape.panel_element});
  batch.y = buffer_bytes({b_rows, 2, planes, sizes.columns, sizeof(double)});
  return batch;
}

/// Buffers of the verification.
CheckBuffers check_buffers(const Shape& shape, const CutSizes& sizes) {
  const Problem& problem = shape.problem;
  const std::uint64_t rows = shape.panel_rows(sizes.rows);
  const std::uint64_t columns = saturating_product({problem.moments.planes, sizes.columns});
  CheckBuffers check;
  check.z = buffer_bytes({rows, columns, sizeof(double)});
  check.row_squares = buffer_bytes({rows, sizeof(double)});
  check.column_squares = buffer_bytes({columns, sizeof(double)});
  check.slices = shape.check_slices;
  check.verdicts = saturating_sum(
      {buffer_bytes({shape.max_rows, shape.max_columns, sizeof(TileReport)}),
       buffer_bytes({problem.ranks.streams, problem.tile.m, sizeof(gemm::RowVerdict)}),
       buffer_bytes(
           {sizes.super_tiles, shape.max_blocks, shape.batch_checksums(), sizeof(std::uint64_t)})});
  if (shape.box.depth > 1) {
    check.gathered_z = saturating_product(
        {shape.box.depth, saturating_sum({check.z, check.row_squares, check.column_squares})});
  }
  return check;
}

}  // namespace

ResidueParts residue_parts(const Problem& problem, gemm::Side side, std::uint64_t lines) {
  const gemm::Tile& tile = problem.tile;
  const Backend backend = problem.ranks.backend;
  const bool transposes = side == gemm::Side::b && backend != Backend::host;
  return {.planes = buffer_bytes({tile.moduli, lines, tile.k}),
          .exponents = buffer_bytes({lines, sizeof(std::int32_t)}),
          .scratch = transposes
                         ? buffer_bytes({gemm::residue_scratch_lines, tile.k,
                                         gemm::panel_element_bytes(problem.precision, backend)})
                         : 0};
}

Buffers buffers_of(const Shape& shape, const CutSizes& sizes) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const bool transposed_b = gemm::multiplies_transposed_b(problem.precision, problem.ranks.backend);
  Buffers buffers{.batch = batch_buffers(shape, sizes), .check = check_buffers(shape, sizes)};
  buffers.accumulators = buffer_bytes({shape.levels, sizes.held_tiles, shape.tile_bytes});
  if (sizes.keeps_b) {
    const BatchBuffers& batch = buffers.batch;
    buffers.kept_b = saturating_product(
        {shape.max_blocks,
         saturating_sum({transposed_b ? batch.b_factor : batch.b_panel, batch.y})});
  }
  if (tile.has_lanes()) buffers.lanes = buffer_bytes({sizes.tiles, shape.lanes_bytes()});
  if (problem.reads_c) buffers.c_tile = buffer_bytes({shape.tile_bytes});
  if (problem.symmetric && problem.stores_c && shape.tile_rows > 1) {
    buffers.mirrors = buffer_bytes({max_mirrors, shape.result_bytes()});
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

std::uint64_t device_bytes(const Shape& shape, const CutSizes& sizes, std::uint64_t ring) {
  const Buffers buffers = buffers_of(shape, sizes);
  return saturating_sum({saturating_product({ring, batch_bytes(buffers.batch)}),
                         check_bytes(buffers.check), buffers.accumulators, buffers.kept_b,
                         buffers.lanes, buffers.c_tile, buffers.mirrors, buffers.send,
                         buffers.receive, shape.problem.ranks.other_bytes});
}

}  // namespace shardstream::workloads::product
