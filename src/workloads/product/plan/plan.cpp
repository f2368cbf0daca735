#include "workloads/product/plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "workloads/product/plan/choice.hpp"
#include "workloads/product/plan/memory.hpp"

namespace shardstream::workloads::product {
namespace {

void check(const Problem& problem, const Rates& rates, std::uint64_t rank) {
  const gemm::Tile& tile = problem.tile;
  expect(problem.m > 0 && problem.n > 0 && problem.k > 0, "a product has no empty side");
  expect(tile.m > 0 && tile.n > 0 && tile.k > 0, "a tile has a size");
  expect(rank < problem.ranks.count, "the rank is one of the ranks");
  expect(rates.link_up > 0 && rates.link_down > 0 && rates.gather > 0 && rates.flops > 0,
         "rates are above 0");
  expect(!problem.symmetric || (problem.m == problem.n && tile.m == tile.n && !problem.reads_c),
         "a symmetric product has square tiles, and adds no C");
  const std::uint64_t panel = gemm::panel_element_bytes(problem.precision, problem.ranks.backend);
  for (const UploadedOperand& operand : {problem.a, problem.b}) {
    expect(operand.raw ? operand.element_bytes > 0 : operand.element_bytes == panel,
           "an upload in another type is raw");
  }
}

Shape shape_of(const Plan& plan) {
  return {plan.problem, plan.box};
}

/// The number of elements of C that this rank computes.
double computed_elements(const Plan& plan) {
  const Problem& problem = plan.problem;
  const gemm::Tile& tile = problem.tile;
  const auto columns_of = [&](Range columns) {
    return static_cast<double>(elements_of(columns, tile.n, problem.n).count);
  };
  if (!problem.symmetric) {
    return static_cast<double>(elements_of(plan.rows, tile.m, problem.m).count) *
           columns_of(plan.columns);
  }
  const Shape shape = shape_of(plan);
  double elements = 0;
  for (std::uint64_t row = plan.rows.first; row < plan.rows.end(); ++row) {
    for (const Range columns : shape.computed(row)) {
      elements += static_cast<double>(elements_of({row, 1}, tile.m, problem.m).count) *
                  columns_of(intersection(columns, plan.columns));
    }
  }
  return elements;
}

/// Bytes of C0 that this rank uploads, for the tiles that it finishes.
std::uint64_t c_uploads(const Plan& plan) {
  const Problem& problem = plan.problem;
  if (!problem.reads_c) return 0;
  const std::uint64_t element = gemm::accumulator_bytes(problem.precision);
  const auto elements = [&](Range rows, Range columns) {
    return saturating_product({elements_of(rows, problem.tile.m, problem.m).count,
                               elements_of(columns, problem.tile.n, problem.n).count});
  };
  if (plan.box.depth == 1) {
    return saturating_product({elements(plan.rows, plan.columns), element});
  }
  std::uint64_t all = 0;
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const std::vector<TileIndex> tiles = plan.tiles(plan.super_tile(number));
    for (std::uint64_t index = 0; index < tiles.size(); ++index) {
      if (!plan.owns(index)) continue;
      all += elements({tiles[index].row, 1}, {tiles[index].column, 1});
    }
  }
  return saturating_product({all, element});
}

/// Adds the traffic of all batches and exchanges.
void count_traffic(Plan& plan, const Shape& shape) {
  Traffic& traffic = plan.traffic;
  const auto add = [](std::uint64_t& to, std::uint64_t bytes) { to = saturating_sum({to, bytes}); };
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const auto [rows, columns] = plan.super_tile(number);
    const bool from_b = shape.a_from_b(rows, columns);
    const Pass a{.uploaded_rows = from_b ? 0 : rows.count};
    const Pass b{.columns = columns.count, .has_b = plan.cut.keeps_b && number > 0};
    const std::uint64_t blocks = plan.own_blocks.count;
    add(traffic.uploads, of_blocks(upload_bytes, shape, a, blocks));
    add(traffic.uploads, of_blocks(upload_bytes, shape, b, blocks));
    add(traffic.a_gathered, of_blocks(gather_bytes, shape, a, blocks));
    add(traffic.b_gathered, of_blocks(gather_bytes, shape, b, blocks));
    const Pass all{
        .rows = rows.count, .columns = columns.count, .tiles = plan.count_tiles({rows, columns})};
    add(traffic.exchanged, exchange_bytes(shape, all));
  }
  traffic.min_uploads =
      std::min(min_uploads(shape, plan.row, plan.column, plan.layer), traffic.uploads);
  const std::uint64_t c = c_uploads(plan);
  add(traffic.uploads, c);
  add(traffic.min_uploads, c);
  const Range depth = intersection(plan.depth(plan.own_blocks), {0, plan.problem.k});
  traffic.flops = 2 * computed_elements(plan) * static_cast<double>(depth.count);
}

void place(Plan& plan, const Shape& shape) {
  static_cast<Layout&>(plan) = shape;
  plan.idle = plan.rank >= plan.box.ranks();
  if (!plan.idle) {
    plan.layer = plan.rank / plan.box.layer();
    plan.row = plan.rank % plan.box.layer() / plan.box.columns;
    plan.column = plan.rank % plan.box.columns;
    plan.rows = shape.rows_of(plan.row);
    plan.columns = shape.columns_of(plan.column);
    plan.own_segments = shape.segments_of(plan.layer);
    plan.own_blocks = shape.blocks_of(plan.own_segments);
    plan.nodes = shape.nodes_of(plan.layer);
  }
}

void schedule(Plan& plan, const Choice& choice) {
  static_cast<Schedule&>(plan) = {.cut = choice.cut,
                                  .passes = passes_with_tiles(choice.shape, choice.cut),
                                  .max_rows = choice.extents.rows,
                                  .max_columns = choice.extents.columns,
                                  .max_tiles = choice.extents.tiles,
                                  .held_tiles = choice.extents.held_tiles,
                                  .ring_batches = choice.ring,
                                  .window = choice.window};
}

void add_memory(Plan& plan, const Choice& choice) {
  plan.device_bytes = plan.problem.ranks.other_bytes;
  if (plan.idle) return;
  plan.buffers = buffers_of(choice.shape, choice.extents);
  plan.device_bytes = device_bytes(choice.shape, choice.extents, choice.ring);
}

}  // namespace

Range elements_of(Range tiles, std::uint64_t edge, std::uint64_t end) {
  return intersection({tiles.first * edge, tiles.count * edge}, {0, end});
}

Plan make_plan(const Problem& problem, const Rates& rates, std::uint64_t rank) {
  check(problem, rates, rank);
  Choices choices = choose(problem, rates);
  const Choice& chosen = *choices.chosen;
  Plan plan;
  plan.rank = rank;
  plan.decision = {.decomposition = chosen.decomposition,
                   .why = std::move(choices.why),
                   .alternatives = std::move(choices.considered)};
  place(plan, chosen.shape);
  schedule(plan, chosen);
  add_memory(plan, chosen);
  if (!plan.idle) count_traffic(plan, chosen.shape);
  plan.prediction = chosen.prediction;
  return plan;
}

// ---------------------------------------------------------------- queries

SuperTile Plan::super_tile(std::uint64_t number) const {
  expect(number < super_tiles(), "the super-tile is one of the plan's");
  if (idle) return {};
  return super_tile_of(shape_of(*this), cut, passes[number], row, column);
}

bool Plan::computed(TileIndex tile) const {
  for (const Range run : shape_of(*this).computed(tile.row)) {
    if (intersection(run, {tile.column, 1}).count > 0) return true;
  }
  return false;
}

std::vector<TileRun> Plan::runs(const SuperTile& super_tile) const {
  const Shape shape = shape_of(*this);
  std::vector<TileRun> runs;
  std::uint64_t first = 0;
  for (std::uint64_t i = super_tile.rows.first; i < super_tile.rows.end(); ++i) {
    for (const Range computed : shape.computed(i)) {
      const Range run = intersection(computed, super_tile.columns);
      if (run.count == 0) continue;
      runs.push_back({i, run, first});
      first += run.count;
    }
  }
  return runs;
}

std::vector<TileIndex> Plan::tiles(const SuperTile& super_tile) const {
  std::vector<TileIndex> tiles;
  for (const TileRun& run : runs(super_tile)) {
    for (std::uint64_t i = 0; i < run.columns.count; ++i) {
      tiles.push_back({run.row, run.columns.first + i});
    }
  }
  return tiles;
}

std::uint64_t Plan::count_tiles(const SuperTile& super_tile) const {
  return product::count_tiles(shape_of(*this), super_tile);
}

std::uint64_t Plan::a_part_rows(const SuperTile& super_tile) const {
  return shape_of(*this).a_part_rows(super_tile.rows.count);
}

PanelPart Plan::a_part(const SuperTile& super_tile) const {
  if (a_from_b(super_tile)) return {};
  const std::uint64_t edge = problem.tile.m, part = a_part_rows(super_tile);
  const Range panel{super_tile.rows.first * edge, super_tile.rows.count * edge};
  const Range own{panel.first + column * part, part};
  return {own, intersection(intersection(own, panel), {0, problem.m})};
}

Range Plan::depth(Range some_blocks) const {
  return depth_of(some_blocks, problem.tile.k, begins_shallow);
}

std::uint64_t Plan::b_part_rows(std::uint64_t block) const {
  return ceil_div(depth({block, 1}).count, box.rows);
}

PanelPart Plan::b_part(std::uint64_t block) const {
  const Range panel = depth({block, 1});
  const std::uint64_t part = b_part_rows(block);
  const Range own{panel.first + row * part, part};
  return {own, intersection(intersection(own, panel), {0, problem.k})};
}

bool Plan::a_from_b(const SuperTile& super_tile) const {
  return shape_of(*this).a_from_b(super_tile.rows, super_tile.columns);
}

BlockStep Plan::step(std::uint64_t block) const {
  expect(block >= own_blocks.first && block < own_blocks.end(), "the block is one of the rank's");
  Stack stack;
  std::uint64_t segment = own_segments.first;
  for (; share(blocks, segment, segments).end() <= block; ++segment) stack.push({0, segment});
  const Range of_segment = share(blocks, segment, segments);
  BlockStep step{.level = stack.nodes().size(), .begins = block == of_segment.first};
  step.ends = block + 1 == of_segment.end();
  if (step.ends) step.folds = stack.push({0, segment});
  return step;
}

std::vector<FoldAddition> Plan::fold() const {
  struct Place {
    std::uint64_t layer, node;
  };
  const Shape shape = shape_of(*this);
  Stack stack;
  std::vector<Place> places;  // the layer and number of each node in the stack
  std::vector<FoldAddition> adds;
  for (std::uint64_t each = 0; each < box.depth; ++each) {
    std::uint64_t number = 0;
    for (const TreeNode& node : shape.nodes_of(each)) {
      places.push_back({each, number++});
      for (std::uint64_t folds = stack.push(node); folds > 0; --folds) {
        const Place right = places.back();
        places.pop_back();
        adds.push_back({places.back().layer, places.back().node, right.layer, right.node});
      }
    }
  }
  return adds;
}

}  // namespace shardstream::workloads::product
