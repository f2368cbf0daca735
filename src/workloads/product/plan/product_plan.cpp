#include "workloads/product/plan/product_plan.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

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
  expect(!problem.moments.pairwise() ||
             (problem.symmetric && problem.a.raw && problem.b.raw && !tile.is_narrow()),
         "a pairwise product is symmetric, and kernels make its panels");
  const std::uint64_t panel = gemm::panel_element_bytes(problem.precision, problem.ranks.backend);
  for (const UploadedOperand& operand : {problem.a, problem.b}) {
    expect(operand.raw ? operand.element_bytes > 0 : operand.element_bytes == panel,
           "an upload in another type is raw");
  }
}

/// The number of elements of C that this rank computes.
double computed_elements(const Shape& shape, const RankPart& part) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  const auto columns_of = [&](Range columns) {
    return static_cast<double>(elements_of(columns, tile.n, problem.n).count);
  };
  if (!problem.symmetric) {
    return static_cast<double>(elements_of(part.rows, tile.m, problem.m).count) *
           columns_of(part.columns);
  }
  double elements = 0;
  for (std::uint64_t row = part.rows.first; row < part.rows.end(); ++row) {
    for (const Range columns : shape.computed(row)) {
      elements += static_cast<double>(elements_of({row, 1}, tile.m, problem.m).count) *
                  columns_of(intersection(columns, part.columns));
    }
  }
  return elements;
}

/// Bytes of C0 that this rank uploads, for the tiles that it finishes.
std::uint64_t c_uploads(const Plan& plan) {
  const Problem& problem = plan.problem();
  if (!problem.reads_c) return 0;
  const std::uint64_t element = plan.shape.c_element;
  const auto elements = [&](Range rows, Range columns) {
    return saturating_product({elements_of(rows, problem.tile.m, problem.m).count,
                               elements_of(columns, problem.tile.n, problem.n).count});
  };
  if (plan.shape.box.depth == 1) {
    return saturating_product({elements(plan.part.rows, plan.part.columns), element});
  }
  std::uint64_t all = 0;
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const std::vector<TileIndex> tiles = plan.shape.tiles(plan.super_tile(number));
    for (std::uint64_t index = 0; index < tiles.size(); ++index) {
      if (!plan.owns(index)) continue;
      all += elements({tiles[index].row, 1}, {tiles[index].column, 1});
    }
  }
  return saturating_product({all, element});
}

/// Bytes of A and B that this rank uploads for the batches of a super-tile.
std::uint64_t panel_uploads(const Plan& plan, const SuperTile& tiles, bool has_b) {
  const Problem& problem = plan.problem();
  const auto bytes = [](const UploadedOperand& operand, std::uint64_t element, Range rows,
                        Range columns, Range valid_rows, Range valid_columns) {
    return operand.raw ? saturating_product({valid_rows.count, valid_columns.count, element})
                       : saturating_product({rows.count, columns.count, element});
  };
  const Range columns = elements_of(tiles.columns, problem.tile.n);
  const PanelPart a = plan.a_part(tiles);
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < plan.part.blocks.count; ++i) {
    const std::uint64_t block = plan.part.blocks.first + i;
    const Range depth = plan.shape.depth({block, 1});
    const PanelPart b = has_b ? PanelPart{} : plan.b_part(block);
    all = saturating_sum({all,
                          bytes(problem.a, plan.shape.a_element, a.rows, depth, a.valid,
                                intersection(depth, {0, problem.k})),
                          bytes(problem.b, plan.shape.b_element, b.rows, columns, b.valid,
                                intersection(columns, {0, problem.n}))});
  }
  return all;
}

/// The traffic of all batches and exchanges.
Traffic traffic_of(const Plan& plan) {
  const Shape& shape = plan.shape;
  const RankPart& part = plan.part;
  Traffic traffic;
  const auto add = [](std::uint64_t& to, std::uint64_t bytes) { to = saturating_sum({to, bytes}); };
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const SuperTile tiles = plan.super_tile(number);
    const std::uint64_t rows = tiles.rows.count, columns = tiles.columns.count;
    const Pass a{.uploaded_rows = shape.a_from_b(tiles) ? 0 : rows};
    const Pass b{.columns = columns, .has_b = plan.schedule.cut.keeps_b && number > 0};
    const std::uint64_t blocks = part.blocks.count;
    add(traffic.uploads, panel_uploads(plan, tiles, b.has_b));
    add(traffic.a_gathered, sum_over_blocks(gather_bytes, shape, a, blocks));
    add(traffic.b_gathered, sum_over_blocks(gather_bytes, shape, b, blocks));
    const Pass all{.rows = rows, .columns = columns, .tiles = shape.count_tiles(tiles)};
    add(traffic.exchanged, exchange_bytes(shape, all));
  }
  traffic.min_uploads =
      std::min(min_uploads(shape, part.row, part.column, part.layer), traffic.uploads);
  const std::uint64_t c = c_uploads(plan);
  add(traffic.uploads, c);
  add(traffic.min_uploads, c);
  const Range depth = intersection(shape.depth(part.blocks), {0, shape.problem.k});
  traffic.flops = 2 * static_cast<double>(shape.problem.moments.count) *
                  computed_elements(shape, part) * static_cast<double>(depth.count);
  return traffic;
}

RankPart part_of(const Shape& shape, std::uint64_t rank) {
  const Box& box = shape.box;
  RankPart part;
  part.rank = rank;
  part.idle = rank >= box.ranks();
  if (part.idle) return part;
  part.layer = rank / box.layer();
  part.row = rank % box.layer() / box.columns;
  part.column = rank % box.columns;
  part.segments = shape.segments_of(part.layer);
  part.blocks = shape.blocks_of(part.segments);
  part.rows = shape.rows_of(part.row);
  part.columns = shape.columns_of(part.column);
  part.nodes = shape.nodes_of(part.layer);
  return part;
}

}  // namespace

Plan make_plan(const Problem& problem, const Rates& rates, std::uint64_t rank) {
  check(problem, rates, rank);
  Choice choice = choose(problem, rates);
  Plan plan;
  plan.shape = std::move(choice.shape);
  plan.schedule = std::move(choice.schedule);
  plan.decision = std::move(choice.decision);
  plan.prediction = choice.prediction;
  return plan_of_rank(std::move(plan), rank);
}

Plan plan_of_rank(Plan plan, std::uint64_t rank) {
  const CutSizes& sizes = plan.schedule.sizes;
  plan.part = part_of(plan.shape, rank);
  plan.buffers = {};
  plan.device_bytes = plan.problem().ranks.other_bytes;
  plan.traffic = {};
  if (plan.part.idle) return plan;
  plan.buffers = buffers_of(plan.shape, sizes);
  plan.device_bytes = device_bytes(plan.shape, sizes, plan.schedule.ring_batches);
  plan.traffic = traffic_of(plan);
  return plan;
}

SuperTile Plan::super_tile(std::uint64_t number) const {
  expect(number < super_tiles(), "the super-tile is one of the plan's");
  if (part.idle) return {};
  return super_tile_of(shape, schedule.cut, schedule.passes[number], part.row, part.column);
}

PanelPart Plan::a_part(const SuperTile& super_tile) const {
  if (shape.a_from_b(super_tile)) return {};
  const Problem& product = problem();
  const std::uint64_t edge = product.tile.m, rows = shape.a_part_rows(super_tile.rows.count);
  const Range panel{super_tile.rows.first * edge, super_tile.rows.count * edge};
  const Range own{panel.first + part.column * rows, rows};
  return {own, intersection(intersection(own, panel), {0, product.m})};
}

PanelPart Plan::b_part(std::uint64_t block) const {
  const Range panel = shape.depth({block, 1});
  const std::uint64_t rows = shape.b_part_rows(panel.count);
  const Range own{panel.first + part.row * rows, rows};
  return {own, intersection(intersection(own, panel), {0, problem().k})};
}

BlockStep Plan::step(std::uint64_t block) const {
  expect(block >= part.blocks.first && block < part.blocks.end(), "the block is one of the rank's");
  NodeStack stack;
  std::uint64_t segment = part.segments.first;
  for (; share(shape.blocks, segment, shape.segments).end() <= block; ++segment) {
    stack.push({0, segment});
  }
  const Range of_segment = share(shape.blocks, segment, shape.segments);
  BlockStep step{.level = stack.nodes().size(), .begins = block == of_segment.first};
  step.ends = block + 1 == of_segment.end();
  if (step.ends) step.folds = stack.push({0, segment});
  return step;
}

}  // namespace shardstream::workloads::product
