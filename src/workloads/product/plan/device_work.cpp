#include "workloads/product/plan/device_work.hpp"

#include <bit>

#include "kernels/gemm/multiply/factor.hpp"

namespace shardstream::workloads::product {
namespace {

/// Adds a kernel that reads and writes so many bytes, if there are any.
void add(DeviceWork& work, double bytes) {
  if (bytes == 0) return;
  work.bytes += bytes;
  work.calls += 1;
}

}  // namespace

DeviceWork arrival_work(const Shape& shape, const Pass& pass, std::uint64_t depth, bool keeps_b) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const double k = real(depth), planes = real(problem.moments.planes);
  const double element = planes * real(shape.panel_element);  // of all planes
  const double a_own = real(shape.a_part_rows(pass.uploaded_rows)) * k;
  const double a = real(pass.rows * tile.m) * k * element;
  const double columns = pass.has_b ? 0 : real(pass.columns * tile.n);
  const double b_own = real(shape.b_part_rows(depth)) * columns, b = k * columns * element;
  const bool transposes_b = gemm::multiplies_transposed_b(problem.precision, problem.ranks.backend);
  DeviceWork work;
  add(work, a_own * real(shape.a_element));  // checksums of the uploads
  add(work, b_own * real(shape.b_element));
  if (problem.a.raw) add(work, a_own * (real(shape.a_element) + element));
  if (problem.b.raw) add(work, b_own * (real(shape.b_element) + element));
  if (!tile.is_narrow()) add(work, b_own * element);          // signed sums
  if (shape.box.columns > 1) add(work, a_own * element + a);  // checksums of gathers
  if (problem.symmetric && shape.box.rows > 1) add(work, b_own * element + b);
  if (transposes_b) add(work, 2 * b);
  if (keeps_b) add(work, 2 * b);
  if (!transposes_b && !tile.is_narrow()) {
    add(work, 2 * real(pass.transposed_rows * tile.m) * k * element);
  }
  if (gemm::splits(problem.precision)) {  // one element becomes three
    add(work, 4 * a);
    add(work, 4 * b);
  }
  if (tile.moduli > 0) {  // rows of A are read once; B is transposed first
    const double residues = real(tile.moduli) / real(shape.panel_element);
    add(work, real(pass.uploaded_rows * tile.m) * k * element * (1 + residues));
    add(work, b * (3 + residues));
  }
  return work;
}

DeviceWork batch_work(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const double panel = real(depth) * real(shape.panel_element);
  DeviceWork work;
  add(work, real(shape.panel_rows(pass.rows)) * panel);
  if (problem.sums_variables) add(work, real(shape.panel_columns(pass.columns)) * panel);
  // At the end of a segment the lanes are added into one sum, and this sum to another segment's.
  const double share = real(shape.segments) / real(shape.blocks);
  const bool folds = shape.segments > 1;
  const double added = real(shape.lanes_bytes()) + (folds ? real(shape.tile_bytes) : 0);
  work.bytes += share * 3 * real(pass.tiles) * added;
  work.calls += share * real(problem.moments.count) *
                (std::bit_width(tile.lanes) - 1 + (tile.is_narrow() ? 1 : 0) + (folds ? 1 : 0));
  return work;
}

DeviceWork tile_work(const Shape& shape) {
  const auto bytes = real(shape.tile_bytes), results = real(shape.result_bytes());
  const gemm::Moments& moments = shape.problem.moments;
  // Products, three kernels that check, two downloads, and the events between their streams.
  DeviceWork work{.bytes = 2 * bytes, .calls = 6 + 4 * real(moments.count)};
  if (shape.problem.symmetric) add(work, 2 * results);
  if (shape.problem.sums_variables || moments.pairwise()) add(work, bytes + results);
  return work;
}

}  // namespace shardstream::workloads::product
