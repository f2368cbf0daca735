#include "workloads/product/plan/schedule.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/gemm/multiply/factor.hpp"

namespace shardstream::workloads::product {
namespace {

Range within(Range of, std::uint64_t part, std::uint64_t parts) {
  Range own = share(of.count, part, parts);
  own.first += of.first;
  return own;
}

/// The rows of a row pass.
Range rows_within(Range of, const Cut& cut, std::uint64_t pass) {
  if (cut.first_rows == 0) return within(of, pass, cut.row_passes);
  const std::uint64_t first = of.count * cut.first_rows / cut.first_of;
  if (pass == 0) return {of.first, first};
  return within({of.first + first, of.count - first}, pass - 1, cut.row_passes - 1);
}

/// Adds cuts that keep B. The first row pass computes while most data are uploaded. The tiles of
/// each pass leave while the panels of the next one arrive.
void add_keeping(std::vector<Cut>& cuts, const Shape& shape) {
  constexpr std::uint64_t max_parts = 4, max_firsts = 16;
  const std::uint64_t rows = shape.max_rows, firsts = std::min(rows, max_firsts);
  const gemm::Precision precision = shape.problem.precision;
  if (shape.problem.symmetric || shape.box.depth > 1 || gemm::splits(precision) ||
      gemm::multiplies_residues(precision)) {
    return;
  }
  for (std::uint64_t first = 1; first < firsts; ++first) {
    const std::uint64_t rest = rows - rows * first / firsts;
    for (const std::uint64_t parts : numbers_of_parts(rest)) {
      if (parts > max_parts) break;
      cuts.push_back({parts + 1, 1, first, firsts, true});
    }
  }
}

/// The smallest range that contains both.
Range hull(Range a, Range b) {
  if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
  const std::uint64_t first = std::min(a.first, b.first);
  return {first, std::max(a.end(), b.end()) - first};
}

struct PartSize {
  std::uint64_t size, parts;
};

/// The two sizes of the parts of `count`, and the number of parts of each size.
std::array<PartSize, 2> parts_of(std::uint64_t count, std::uint64_t parts) {
  return {{{count / parts + 1, count % parts}, {count / parts, parts - count % parts}}};
}

/// Raises the maxima over all ranks to those of one rank's super-tile.
void widen(Pass& pass, const Shape& shape, const SuperTile& tiles) {
  const std::uint64_t count = shape.count_tiles(tiles);
  const bool mirrored = shape.problem.symmetric && shape.problem.stores_c;
  const std::uint64_t diagonal = intersection(tiles.rows, tiles.columns).count;
  pass.rows = std::max(pass.rows, tiles.rows.count);
  pass.columns = std::max(pass.columns, tiles.columns.count);
  pass.tiles = std::max(pass.tiles, count);
  pass.drained = std::max(pass.drained, mirrored ? 2 * count - diagonal : count);
  std::uint64_t& rows = shape.a_from_b(tiles) ? pass.transposed_rows : pass.uploaded_rows;
  rows = std::max(rows, tiles.rows.count);
}

/// The cost of passes_of(), in a unit of its own.
std::uint64_t cost_of(const Shape& shape, const Cut& cut) {
  if (!shape.problem.symmetric) return 1;
  const Box& box = shape.box;
  return saturating_sum({saturating_product({shape.tile_rows, cut.column_passes, box.columns}),
                         saturating_product({cut.passes(), box.rows, box.rows, box.columns})});
}

}  // namespace

std::vector<Cut> cuts_of(const Shape& shape) {
  std::vector<Cut> cuts;
  const std::vector<std::uint64_t> column_passes = numbers_of_parts(shape.max_columns);
  for (const std::uint64_t row_passes : numbers_of_parts(shape.max_rows)) {
    for (const std::uint64_t each : column_passes) cuts.push_back({row_passes, each});
  }
  std::ranges::stable_sort(cuts, {}, &Cut::passes);
  add_keeping(cuts, shape);
  return cuts;
}

SuperTile super_tile_of(const Shape& shape, const Cut& cut, std::uint64_t pass, std::uint64_t row,
                        std::uint64_t column) {
  const std::uint64_t row_pass = pass / cut.column_passes, column_pass = pass % cut.column_passes;
  const auto rows_of = [&](std::uint64_t grid_row) {
    return rows_within(shape.rows_of(grid_row), cut, row_pass);
  };
  SuperTile tiles{rows_of(row), within(shape.columns_of(column), column_pass, cut.column_passes)};
  if (!shape.problem.symmetric) return tiles;
  Range needed;
  for (std::uint64_t each = 0; each < shape.box.rows; ++each) {
    const Range rows = rows_of(each);
    if (rows.count == 0) continue;
    // The columns of all rows form one range that may wrap around the end: from the first column of
    // the first row to the last column of the last row.
    const auto last = shape.computed(rows.end() - 1);
    const std::uint64_t end = last[0].count > 0 ? shape.tile_columns : last[1].end();
    needed = hull(needed, intersection({rows.first, end - rows.first}, tiles.columns));
    needed = hull(needed, intersection(last[0], tiles.columns));
  }
  tiles.columns = needed;
  return tiles;
}

std::vector<std::uint64_t> passes_with_tiles(const Shape& shape, const Cut& cut) {
  std::vector<std::uint64_t> passes(cut.passes());
  std::iota(passes.begin(), passes.end(), std::uint64_t{0});
  if (!shape.problem.symmetric) return passes;
  std::erase_if(passes, [&](std::uint64_t pass) {
    for (std::uint64_t column = 0; column < shape.box.columns; ++column) {
      if (super_tile_of(shape, cut, pass, 0, column).columns.count > 0) return false;
    }
    return true;
  });
  return passes;
}

std::vector<Pass> passes_of(const Shape& shape, const Cut& cut) {
  std::vector<Pass> passes;
  const auto add_rectangle = [&](std::uint64_t rows, std::uint64_t columns) -> Pass& {
    const std::uint64_t tiles = saturating_product({rows, columns});
    passes.push_back({.rows = rows,
                      .columns = columns,
                      .tiles = tiles,
                      .drained = tiles,
                      .uploaded_rows = rows});
    return passes.back();
  };
  if (cut.keeps_b) {
    for (std::uint64_t pass = 0; pass < cut.row_passes; ++pass) {
      // Rank 0 has the most rows, so its passes are taken for the largest; those of other ranks
      // have at most one row more.
      const std::uint64_t rows = rows_within({0, shape.max_rows}, cut, pass).count;
      add_rectangle(rows, shape.max_columns).has_b = pass > 0;
    }
    return passes;
  }
  if (!shape.problem.symmetric) {  // rank 0 has the most of everything
    for (const PartSize rows : parts_of(shape.max_rows, cut.row_passes)) {
      for (const PartSize columns : parts_of(shape.max_columns, cut.column_passes)) {
        const std::uint64_t count = rows.parts * columns.parts;
        if (count > 0) add_rectangle(rows.size, columns.size).count = count;
      }
    }
    return passes;
  }
  for (const std::uint64_t number : passes_with_tiles(shape, cut)) {
    Pass pass;
    for (std::uint64_t row = 0; row < shape.box.rows; ++row) {
      for (std::uint64_t column = 0; column < shape.box.columns; ++column) {
        widen(pass, shape, super_tile_of(shape, cut, number, row, column));
      }
    }
    passes.push_back(pass);
  }
  return passes;
}

CutSizes sizes_of(const Cut& cut, const std::vector<Pass>& passes) {
  CutSizes sizes;
  sizes.keeps_b = cut.keeps_b;
  for (const Pass& pass : passes) {
    sizes.rows = std::max(sizes.rows, pass.rows);
    sizes.columns = std::max(sizes.columns, pass.columns);
    sizes.tiles = std::max(sizes.tiles, pass.tiles);
    sizes.uploaded_rows = std::max(sizes.uploaded_rows, pass.uploaded_rows);
    sizes.transposed_rows = std::max(sizes.transposed_rows, pass.transposed_rows);
    sizes.super_tiles += pass.count;
    sizes.held_tiles = cut.keeps_b ? sizes.held_tiles + pass.tiles : sizes.tiles;
  }
  return sizes;
}

std::uint64_t batches_of_readers(const Shape& shape, const CutSizes& sizes) {
  constexpr std::uint64_t max_batches = 13;
  const gemm::Tile& tile = shape.problem.tile;
  const std::uint64_t rows = shape.a_part_rows(sizes.uploaded_rows);
  const std::uint64_t uploaded = saturating_sum(
      {saturating_product({rows, tile.k, shape.a_element}),
       saturating_product({shape.b_part_rows(tile.k), sizes.columns, tile.n, shape.b_element})});
  const std::uint64_t bytes = shape.problem.ranks.read_bytes;
  return std::min(max_batches, bytes / uploaded + (bytes % uploaded > uploaded / 2 ? 1 : 0));
}

CutSizes min_sizes(const Shape& shape, const Cut& cut) {
  if (!shape.problem.symmetric) return sizes_of(cut, passes_of(shape, cut));
  const std::uint64_t all = saturating_product({shape.tile_rows, shape.tile_rows + 1}) / 2;
  const std::uint64_t ranks = shape.box.rows * shape.box.columns;
  const std::uint64_t tiles = ceil_div(all, saturating_product({cut.passes(), ranks}));
  return {.rows = ceil_div(shape.max_rows, cut.row_passes),
          .columns = 1,
          .tiles = tiles,
          .super_tiles = 1,
          .held_tiles = tiles};
}

void search_cuts(const Shape& shape, const std::function<bool(const CutSizes&)>& may_fit,
                 const std::function<bool(const Cut&)>& examine) {
  constexpr std::uint64_t max_cost = 4'000'000;
  std::uint64_t cost = 0;
  bool found = false;
  for (const Cut& cut : cuts_of(shape)) {
    if (cost > max_cost && found) return;
    if (!may_fit(min_sizes(shape, cut))) continue;
    cost += cost_of(shape, cut);
    if (examine(cut)) found = true;
  }
}

}  // namespace shardstream::workloads::product
