#include "workloads/product/plan/shape.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::uint64_t exchange_buffer = std::uint64_t{64} << 20;  // fits beside any super-tile

/// Bytes of a buffer.
std::uint64_t room(std::initializer_list<std::uint64_t> factors) {
  return aligned(product(factors));
}

bool siblings(const GemmNode& left, const GemmNode& right) {
  return left.height == right.height && left.index % 2 == 0 && right.index == left.index + 1;
}

Range within(Range of, std::uint64_t part, std::uint64_t parts) {
  Range own = share(of.count, part, parts);
  own.first += of.first;
  return own;
}

/// Those of a row pass.
Range rows_within(Range of, const Cut& cut, std::uint64_t pass) {
  if (cut.first_rows == 0) return within(of, pass, cut.row_passes);
  const std::uint64_t first = of.count * cut.first_rows / cut.first_of;
  if (pass == 0) return {of.first, first};
  return within({of.first + first, of.count - first}, pass - 1, cut.row_passes - 1);
}

/// Cuts that keep B: the first row pass computes while most is uploaded, the others' tiles leave
/// while the next one's panels come.
void add_keeping(std::vector<Cut>& cuts, const Shape& shape) {
  constexpr std::uint64_t max_parts = 4, max_firsts = 16;
  const std::uint64_t rows = shape.max_rows, firsts = std::min(rows, max_firsts);
  if (shape.problem.symmetric || shape.box.depth > 1 || gemm::splits(shape.problem.precision)) {
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

/// The smallest range that has both.
Range hull(Range a, Range b) {
  if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
  const std::uint64_t first = std::min(a.first, b.first);
  return {first, std::max(a.end(), b.end()) - first};
}

struct PartSize {
  std::uint64_t size, parts;
};

/// The two sizes that the parts of `count` have, and how many parts have each.
std::array<PartSize, 2> sizes_of(std::uint64_t count, std::uint64_t parts) {
  return {{{count / parts + 1, count % parts}, {count / parts, parts - count % parts}}};
}

/// Takes one rank's super-tile into what the ranks have at most.
void widen(Pass& pass, const Shape& shape, const GemmSuperTile& tiles) {
  const std::uint64_t count = count_tiles(shape, tiles);
  const bool mirrored = shape.problem.symmetric && shape.problem.stores_c;
  const std::uint64_t diagonal = intersection(tiles.rows, tiles.columns).count;
  pass.rows = std::max(pass.rows, tiles.rows.count);
  pass.columns = std::max(pass.columns, tiles.columns.count);
  pass.tiles = std::max(pass.tiles, count);
  pass.drained = std::max(pass.drained, mirrored ? 2 * count - diagonal : count);
  std::uint64_t& rows =
      shape.a_from_b(tiles.rows, tiles.columns) ? pass.transposed_rows : pass.uploaded_rows;
  rows = std::max(rows, tiles.rows.count);
}

/// Any cut keeps its largest super-tile's accumulators in memory, goes through the rows of A once
/// for each column pass and through B once for each row pass.
std::uint64_t min_of_whole(const Shape& shape, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t tiles =
      shape.problem.device_memory / product({shape.tile_bytes, shape.accumulators()});
  std::uint64_t min = UINT64_MAX;
  for (const std::uint64_t column_passes : numbers_of_parts(shape.max_columns)) {
    const std::uint64_t rows = tiles / ceil_div(shape.max_columns, column_passes);
    if (rows == 0) continue;
    const std::uint64_t row_passes = ceil_div(shape.max_rows, rows);
    min = std::min(min, sum({product({column_passes, a}), product({row_passes, b})}));
  }
  return min;
}

}  // namespace

std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors) result = saturating_product(result, factor);
  return result;
}

std::uint64_t sum(std::initializer_list<std::uint64_t> terms) {
  std::uint64_t result = 0;
  for (const std::uint64_t term : terms) {
    result = term > UINT64_MAX - result ? UINT64_MAX : result + term;
  }
  return result;
}

std::uint64_t Stack::push(GemmNode node) {
  std::uint64_t folds = 0;
  for (; !nodes_.empty() && siblings(nodes_.back(), node); ++folds) {
    node = {node.height + 1, node.index / 2};
    nodes_.pop_back();
  }
  nodes_.push_back(node);
  return folds;
}

std::uint64_t segments_of(const GemmProblem& problem) {
  const gemm::Tile& tile = problem.tile;
  if (!gemm::is_tall(problem.m, problem.n, problem.k, tile)) return 1;
  const std::uint64_t tiles = product({ceil_div(problem.m, tile.m), ceil_div(problem.n, tile.n)});
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

// ---------------------------------------------------------------- who has what

Shape::Shape(const GemmProblem& of, const Box& in)
    : GemmLayout{.problem = of,
                 .box = in,
                 .tile_rows = ceil_div(of.m, of.tile.m),
                 .tile_columns = ceil_div(of.n, of.tile.n),
                 .segments = workloads::segments_of(of),
                 .check_slices = gemm::check_slices(of.m)},
      max_rows(ceil_div(tile_rows, in.rows)),
      max_columns(ceil_div(tile_columns, in.columns)),
      panel_element(gemm::panel_element_bytes(of.precision, of.on_host)),
      a_element(of.a.raw ? of.a.element_bytes : panel_element),
      b_element(of.b.raw ? of.b.element_bytes : panel_element),
      c_element(gemm::accumulator_bytes(of.precision)),
      tile_bytes(product({of.tile.m, of.tile.n, c_element})) {
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
  const std::uint64_t row = product({in.depth, max_nodes, of.tile.n, c_element});
  const std::uint64_t fitting = std::max<std::uint64_t>(exchange_buffer / row / 8 * 8, 8);
  exchange_rows = std::min(fitting, of.tile.m);
}

Range Shape::blocks_of(Range of) const {
  const std::uint64_t first = share(blocks, of.first, segments).first;
  return {first, share(blocks, of.end() - 1, segments).end() - first};
}

std::vector<GemmNode> Shape::nodes_of(std::uint64_t layer) const {
  const Range own = segments_of(layer);
  Stack stack;
  for (std::uint64_t segment = own.first; segment < own.end(); ++segment) stack.push({0, segment});
  return stack.nodes();
}

std::array<Range, 2> Shape::computed(std::uint64_t row) const {
  const std::uint64_t edge = tile_columns;
  if (!problem.symmetric) return {{{0, edge}, {}}};
  const std::uint64_t half = edge / 2;
  // Of the pairs that are half of the edge apart every other one is in the lower rows, so that any
  // rows side by side have as many tiles as others.
  const bool has_pair = edge % 2 == 0 && (row < half ? row % 2 == 0 : (row - half) % 2 == 1);
  const std::uint64_t count = (edge + 1) / 2 + (has_pair ? 1 : 0);
  const std::uint64_t before_end = std::min(count, edge - row);
  return {{{0, count - before_end}, {row, before_end}}};
}

std::uint64_t Shape::a_part_rows(std::uint64_t rows) const {
  return ceil_div(product({rows, problem.tile.m}), box.columns);
}

bool Shape::a_from_b(Range rows, Range columns) const {
  return problem.symmetric && box.columns == 1 && rows.count > 0 &&
         intersection(rows, columns) == rows;
}

// ---------------------------------------------------------------- super-tiles

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

GemmSuperTile super_tile_of(const Shape& shape, const Cut& cut, std::uint64_t pass,
                            std::uint64_t row, std::uint64_t column) {
  const std::uint64_t row_pass = pass / cut.column_passes, column_pass = pass % cut.column_passes;
  const auto rows_of = [&](std::uint64_t grid_row) {
    return rows_within(shape.rows_of(grid_row), cut, row_pass);
  };
  GemmSuperTile tiles{rows_of(row),
                      within(shape.columns_of(column), column_pass, cut.column_passes)};
  if (!shape.problem.symmetric) return tiles;
  Range needed;
  for (std::uint64_t each = 0; each < shape.box.rows; ++each) {
    const Range rows = rows_of(each);
    if (rows.count == 0) continue;
    // All rows' columns together are one range around the end: from the first row's first to the
    // last row's last.
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
  if (cut.keeps_b) {
    for (std::uint64_t pass = 0; pass < cut.row_passes; ++pass) {
      // Rank 0, with the most of all rows, has the most of every pass, or another one a row more.
      const std::uint64_t rows = rows_within({0, shape.max_rows}, cut, pass).count;
      const std::uint64_t tiles = product({rows, shape.max_columns});
      passes.push_back({.rows = rows,
                        .columns = shape.max_columns,
                        .tiles = tiles,
                        .drained = tiles,
                        .uploaded_rows = rows,
                        .has_b = pass > 0});
    }
    return passes;
  }
  if (!shape.problem.symmetric) {  // rank 0 has the most of everything
    for (const PartSize rows : sizes_of(shape.max_rows, cut.row_passes)) {
      for (const PartSize columns : sizes_of(shape.max_columns, cut.column_passes)) {
        const std::uint64_t tiles = rows.size * columns.size, count = rows.parts * columns.parts;
        if (count == 0) continue;
        passes.push_back({.rows = rows.size,
                          .columns = columns.size,
                          .tiles = tiles,
                          .drained = tiles,
                          .uploaded_rows = rows.size,
                          .count = count});
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

std::uint64_t count_tiles(const Shape& shape, const GemmSuperTile& tiles) {
  if (!shape.problem.symmetric) return product({tiles.rows.count, tiles.columns.count});
  std::uint64_t count = 0;
  for (std::uint64_t row = tiles.rows.first; row < tiles.rows.end(); ++row) {
    for (const Range columns : shape.computed(row)) {
      count += intersection(columns, tiles.columns).count;
    }
  }
  return count;
}

std::uint64_t work_of(const Shape& shape, const Cut& cut) {
  if (!shape.problem.symmetric) return 1;
  const Box& box = shape.box;
  return sum({product({shape.tile_rows, cut.column_passes, box.columns}),
              product({cut.passes(), box.rows, box.rows, box.columns})});
}

Extents extents_of(const Cut& cut, const std::vector<Pass>& passes) {
  Extents extents;
  extents.keeps_b = cut.keeps_b;
  for (const Pass& pass : passes) {
    extents.rows = std::max(extents.rows, pass.rows);
    extents.columns = std::max(extents.columns, pass.columns);
    extents.tiles = std::max(extents.tiles, pass.tiles);
    extents.uploaded_rows = std::max(extents.uploaded_rows, pass.uploaded_rows);
    extents.transposed_rows = std::max(extents.transposed_rows, pass.transposed_rows);
    extents.super_tiles += pass.count;
    extents.held_tiles = cut.keeps_b ? extents.held_tiles + pass.tiles : extents.tiles;
  }
  return extents;
}

Extents min_extents(const Shape& shape, const Cut& cut) {
  if (!shape.problem.symmetric) return extents_of(cut, passes_of(shape, cut));
  const std::uint64_t all = product({shape.tile_rows, shape.tile_rows + 1}) / 2;
  const std::uint64_t ranks = shape.box.rows * shape.box.columns;
  const std::uint64_t tiles = ceil_div(all, product({cut.passes(), ranks}));
  return {.rows = ceil_div(shape.max_rows, cut.row_passes),
          .columns = 1,
          .tiles = tiles,
          .super_tiles = 1,
          .held_tiles = tiles};
}

// ---------------------------------------------------------------- memory and traffic

GemmBuffers buffers_of(const Shape& shape, const Extents& extents) {
  const GemmProblem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const gemm::Precision precision = problem.precision;
  const bool transposed_b = gemm::multiplies_transposed_b(precision, problem.on_host);
  const std::uint64_t rows = product({extents.rows, tile.m});
  const std::uint64_t columns = product({extents.columns, tile.n});
  const std::uint64_t depth = gemm::factor_depth(precision, tile.k);
  const std::uint64_t part = shape.a_part_rows(extents.uploaded_rows);
  const std::uint64_t transposed = product({extents.transposed_rows, tile.m});
  const std::uint64_t a_rows =
      std::max(product({part, shape.box.columns}), transposed_b ? 0 : transposed);
  const std::uint64_t b_part = shape.b_part_rows(tile.k);
  const std::uint64_t b_rows = product({b_part, shape.box.rows});
  GemmBuffers buffers;
  if (problem.a.raw) buffers.raw_a = room({part, tile.k, shape.a_element});
  if (problem.b.raw) buffers.raw_b = room({b_part, columns, shape.b_element});
  buffers.a_panel =
      room({a_rows, gemm::a_ld(precision, tile.k, problem.on_host), shape.panel_element});
  buffers.b_panel = room({b_rows, columns, shape.panel_element});
  if (gemm::splits(precision)) {
    buffers.a_factor = room({rows, depth, shape.panel_element});
    buffers.b_factor = room({depth, columns, shape.panel_element});
  }
  if (transposed_b) buffers.b_factor = room({columns, tile.k, shape.panel_element});
  buffers.y = room({b_rows, 2, extents.columns, sizeof(double)});
  buffers.z = room({rows, extents.columns, sizeof(double)});
  buffers.row_squares = room({rows, sizeof(double)});
  buffers.column_squares = room({extents.columns, sizeof(double)});
  buffers.slices = shape.check_slices;
  buffers.verdicts = sum({room({shape.max_rows, shape.max_columns,
                                sizeof(gemm::TileVerdict) + 3 * sizeof(std::uint64_t)}),
                          room({problem.streams, tile.m, sizeof(gemm::RowVerdict)}),
                          room({extents.super_tiles, shape.max_blocks,
                                shape.box.batch_sums(problem.symmetric), sizeof(std::uint64_t)})});
  buffers.accumulators = room({shape.levels, extents.held_tiles, shape.tile_bytes});
  if (extents.keeps_b) {
    buffers.kept_b = product(
        {shape.max_blocks, sum({transposed_b ? buffers.b_factor : buffers.b_panel, buffers.y})});
  }
  if (tile.lanes > 1) buffers.lanes = room({tile.lanes, extents.tiles, shape.tile_bytes});
  if (problem.reads_c) buffers.c_tile = room({shape.tile_bytes});
  if (problem.symmetric && problem.stores_c && shape.tile_rows > 1) {
    buffers.mirrors = room({mirrors_on_their_way, shape.tile_bytes});
  }
  if (shape.box.depth > 1) {
    buffers.gathered_z =
        product({shape.box.depth, sum({buffers.z, buffers.row_squares, buffers.column_squares})});
    buffers.send = buffers.receive =
        room({shape.box.depth, shape.max_nodes, shape.exchange_rows, tile.n, shape.c_element});
  }
  return buffers;
}

std::uint64_t batch_bytes(const GemmBuffers& buffers) {
  return sum({buffers.raw_a, buffers.raw_b, buffers.a_panel, buffers.b_panel, buffers.a_factor,
              buffers.b_factor, buffers.y});
}

std::uint64_t check_bytes(const GemmBuffers& buffers) {
  const std::uint64_t of_slice = sum({buffers.z, buffers.row_squares, buffers.column_squares});
  return sum({product({buffers.slices, of_slice}), buffers.gathered_z, buffers.verdicts});
}

std::uint64_t device_bytes(const Shape& shape, const Extents& extents, std::uint64_t ring) {
  const GemmBuffers buffers = buffers_of(shape, extents);
  return sum({product({ring, batch_bytes(buffers)}), check_bytes(buffers), buffers.accumulators,
              buffers.kept_b, buffers.lanes, buffers.c_tile, buffers.mirrors, buffers.send,
              buffers.receive, shape.problem.other_bytes});
}

std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const gemm::Tile& tile = shape.problem.tile;
  return sum({product({shape.a_part_rows(pass.uploaded_rows), depth, shape.a_element}),
              pass.has_b
                  ? 0
                  : product({shape.b_part_rows(depth), pass.columns, tile.n, shape.b_element})});
}

std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth) {
  const gemm::Tile& tile = shape.problem.tile;
  return sum({product({shape.box.columns - 1, shape.a_part_rows(pass.uploaded_rows),
                       gemm::a_ld(shape.problem.precision, depth, shape.problem.on_host),
                       shape.panel_element}),
              pass.has_b
                  ? 0
                  : product({shape.box.rows - 1, shape.b_part_rows(depth), pass.columns,
                             sum({product({tile.n, shape.panel_element}), 2 * sizeof(double)})})});
}

std::uint64_t of_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                        const Shape& shape, const Pass& pass, std::uint64_t blocks) {
  const std::uint64_t deep = shape.problem.tile.k, of_deep = bytes(shape, pass, deep);
  if (!shape.begins_shallow) return product({blocks, of_deep});
  return sum({product({2, bytes(shape, pass, deep / 4)}), bytes(shape, pass, deep / 2),
              product({blocks - 3, of_deep})});
}

std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass) {
  if (shape.box.depth == 1) return 0;
  const gemm::Tile& tile = shape.problem.tile;
  const std::uint64_t sums =
      sum({product({pass.rows, tile.m, pass.columns}), product({pass.rows, tile.m}), pass.columns});
  return product(
      {shape.box.depth - 1,
       sum({product({ceil_div(pass.tiles, shape.box.depth), shape.max_nodes, shape.tile_bytes}),
            product({sums, sizeof(double)})})});
}

std::uint64_t min_uploads(const Shape& shape, std::uint64_t row, std::uint64_t column,
                          std::uint64_t layer) {
  const GemmProblem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const Range depth = shape.depth(shape.blocks_of(shape.segments_of(layer)));
  const std::uint64_t k = intersection(depth, {0, problem.k}).count;
  const auto of_a = [&](Range rows) {
    return product({elements_of(rows, tile.m, problem.m).count, k, shape.a_element}) /
           shape.box.columns;
  };
  const auto of_b = [&](Range columns) {
    return product({elements_of(columns, tile.n, problem.n).count, k, shape.b_element}) /
           shape.box.rows;
  };
  if (!problem.symmetric) {
    return min_of_whole(shape, of_a(shape.rows_of(row)), of_b(shape.columns_of(column)));
  }
  // Cuts into more super-tiles than needed upload more: the first ones that fit are looked at.
  std::uint64_t min = UINT64_MAX, work = 0;
  for (const Cut& cut : cuts_of(shape)) {
    if (work > max_work && min < UINT64_MAX) break;
    const auto fits = [&](const Extents& extents) {
      return product({extents.tiles, shape.accumulators(), shape.tile_bytes}) <=
             problem.device_memory;
    };
    if (!fits(min_extents(shape, cut))) continue;
    work += work_of(shape, cut);
    if (!fits(extents_of(cut, passes_of(shape, cut)))) continue;
    std::uint64_t bytes = 0;
    for (const std::uint64_t pass : passes_with_tiles(shape, cut)) {
      const auto [rows, columns] = super_tile_of(shape, cut, pass, row, column);
      bytes = sum({bytes, shape.a_from_b(rows, columns) ? 0 : of_a(rows), of_b(columns)});
    }
    min = std::min(min, bytes);
  }
  return min;
}

}  // namespace shardstream::workloads
