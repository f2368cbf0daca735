#include "workloads/product/plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "workloads/product/plan/choice.hpp"

namespace shardstream::workloads {
namespace {

void check(const GemmProblem& problem, const GemmRates& rates, std::uint64_t rank) {
  const gemm::Tile& tile = problem.tile;
  expect(problem.m > 0 && problem.n > 0 && problem.k > 0, "a product has no empty side");
  expect(tile.m > 0 && tile.n > 0 && tile.k > 0, "a tile has a size");
  expect(rank < problem.ranks, "the rank is one of the ranks");
  expect(rates.link_up > 0 && rates.link_down > 0 && rates.gather > 0 && rates.flops > 0,
         "rates are above 0");
  expect(!problem.symmetric || (problem.m == problem.n && tile.m == tile.n && !problem.reads_c),
         "a symmetric product has square tiles, and adds no C");
  const std::uint64_t panel = gemm::panel_element_bytes(problem.precision, problem.on_host);
  for (const GemmOperand& operand : {problem.a, problem.b}) {
    expect(operand.raw ? operand.element_bytes > 0 : operand.element_bytes == panel,
           "what is uploaded in another type is raw");
  }
}

Shape shape_of(const GemmPlan& plan) {
  return {plan.problem, plan.box};
}

Cut cut_of(const GemmPlan& plan) {
  return {plan.row_passes, plan.column_passes, plan.first_rows, plan.first_of, plan.keeps_b};
}

/// Elements of C that the rank computes products of.
double computed_elements(const GemmPlan& plan) {
  const GemmProblem& problem = plan.problem;
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

/// What is uploaded of the C that is read: for the tiles that the rank finishes.
std::uint64_t c_uploads(const GemmPlan& plan) {
  const GemmProblem& problem = plan.problem;
  if (!problem.reads_c) return 0;
  const std::uint64_t element = gemm::accumulator_bytes(problem.precision);
  const auto elements = [&](Range rows, Range columns) {
    return product({elements_of(rows, problem.tile.m, problem.m).count,
                    elements_of(columns, problem.tile.n, problem.n).count});
  };
  if (plan.box.depth == 1) {
    return product({elements(plan.rows, plan.columns), element});
  }
  std::uint64_t all = 0;
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const std::vector<GemmTile> tiles = plan.tiles(plan.super_tile(number));
    for (std::uint64_t index = 0; index < tiles.size(); ++index) {
      if (!plan.owns(index)) continue;
      all += elements({tiles[index].row, 1}, {tiles[index].column, 1});
    }
  }
  return product({all, element});
}

/// Counts what all batches and exchanges bring.
void count_traffic(GemmPlan& plan, const Shape& shape) {
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const auto [rows, columns] = plan.super_tile(number);
    const bool from_b = shape.a_from_b(rows, columns);
    const Pass a{.uploaded_rows = from_b ? 0 : rows.count};
    const Pass b{.columns = columns.count, .has_b = plan.keeps_b && number > 0};
    const std::uint64_t blocks = plan.own_blocks.count;
    const auto add = [](std::uint64_t& to, std::uint64_t bytes) { to = sum({to, bytes}); };
    add(plan.uploads, of_blocks(upload_bytes, shape, a, blocks));
    add(plan.uploads, of_blocks(upload_bytes, shape, b, blocks));
    add(plan.a_gathered, of_blocks(gather_bytes, shape, a, blocks));
    add(plan.b_gathered, of_blocks(gather_bytes, shape, b, blocks));
    const Pass all{
        .rows = rows.count, .columns = columns.count, .tiles = plan.count_tiles({rows, columns})};
    add(plan.exchanged, exchange_bytes(shape, all));
  }
  const std::uint64_t min = min_uploads(shape, plan.row, plan.column, plan.layer);
  plan.min_uploads = std::min(min, plan.uploads);
  const std::uint64_t c = c_uploads(plan);
  plan.uploads = sum({plan.uploads, c});
  plan.min_uploads = sum({plan.min_uploads, c});
  const Range depth = intersection(plan.depth(plan.own_blocks), {0, plan.problem.k});
  plan.flops = 2 * computed_elements(plan) * static_cast<double>(depth.count);
}

void place(GemmPlan& plan, const Shape& shape) {
  static_cast<GemmLayout&>(plan) = shape;
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

void cut(GemmPlan& plan, const Choice& choice) {
  plan.row_passes = choice.cut.row_passes;
  plan.column_passes = choice.cut.column_passes;
  plan.first_rows = choice.cut.first_rows;
  plan.first_of = choice.cut.first_of;
  plan.keeps_b = choice.cut.keeps_b;
  plan.passes = passes_with_tiles(choice.shape, choice.cut);
  plan.max_rows = choice.extents.rows;
  plan.max_columns = choice.extents.columns;
  plan.max_tiles = choice.extents.tiles;
  plan.held_tiles = choice.extents.held_tiles;
  plan.ring = choice.ring;
  plan.window = choice.window;
  plan.device_bytes = plan.problem.other_bytes;
  if (plan.idle) return;
  plan.buffers = buffers_of(choice.shape, choice.extents);
  plan.device_bytes = device_bytes(choice.shape, choice.extents, choice.ring);
}

}  // namespace

Range elements_of(Range tiles, std::uint64_t edge, std::uint64_t end) {
  return intersection({tiles.first * edge, tiles.count * edge}, {0, end});
}

GemmPlan plan_gemm(const GemmProblem& problem, const GemmRates& rates, std::uint64_t rank) {
  check(problem, rates, rank);
  Choices choices = choose(problem, rates);
  const Choice& chosen = *choices.chosen;
  GemmPlan plan;
  plan.rank = rank;
  plan.decomposition = chosen.decomposition;
  plan.why = std::move(choices.why);
  plan.alternatives = std::move(choices.considered);
  place(plan, chosen.shape);
  cut(plan, chosen);
  if (!plan.idle) count_traffic(plan, chosen.shape);
  static_cast<GemmTimes&>(plan) = chosen.prediction;
  return plan;
}

// ---------------------------------------------------------------- what a plan says

GemmSuperTile GemmPlan::super_tile(std::uint64_t number) const {
  expect(number < super_tiles(), "the super-tile is one of the plan's");
  if (idle) return {};
  return super_tile_of(shape_of(*this), cut_of(*this), passes[number], row, column);
}

bool GemmPlan::computed(GemmTile tile) const {
  for (const Range run : shape_of(*this).computed(tile.row)) {
    if (intersection(run, {tile.column, 1}).count > 0) return true;
  }
  return false;
}

std::vector<GemmRun> GemmPlan::runs(const GemmSuperTile& super_tile) const {
  const Shape shape = shape_of(*this);
  std::vector<GemmRun> runs;
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

std::vector<GemmTile> GemmPlan::tiles(const GemmSuperTile& super_tile) const {
  std::vector<GemmTile> tiles;
  for (const GemmRun& run : runs(super_tile)) {
    for (std::uint64_t i = 0; i < run.columns.count; ++i) {
      tiles.push_back({run.row, run.columns.first + i});
    }
  }
  return tiles;
}

std::uint64_t GemmPlan::count_tiles(const GemmSuperTile& super_tile) const {
  return workloads::count_tiles(shape_of(*this), super_tile);
}

std::uint64_t GemmPlan::a_part_rows(const GemmSuperTile& super_tile) const {
  return shape_of(*this).a_part_rows(super_tile.rows.count);
}

GemmPart GemmPlan::a_part(const GemmSuperTile& super_tile) const {
  if (a_from_b(super_tile)) return {};
  const std::uint64_t edge = problem.tile.m, part = a_part_rows(super_tile);
  const Range panel{super_tile.rows.first * edge, super_tile.rows.count * edge};
  const Range own{panel.first + column * part, part};
  return {own, intersection(intersection(own, panel), {0, problem.m})};
}

Range GemmPlan::depth(Range of) const {
  return depth_of(of, problem.tile.k, begins_shallow);
}

std::uint64_t GemmPlan::b_part_rows(std::uint64_t block) const {
  return ceil_div(depth({block, 1}).count, box.rows);
}

GemmPart GemmPlan::b_part(std::uint64_t block) const {
  const Range panel = depth({block, 1});
  const std::uint64_t part = b_part_rows(block);
  const Range own{panel.first + row * part, part};
  return {own, intersection(intersection(own, panel), {0, problem.k})};
}

bool GemmPlan::a_from_b(const GemmSuperTile& super_tile) const {
  return shape_of(*this).a_from_b(super_tile.rows, super_tile.columns);
}

GemmStep GemmPlan::step(std::uint64_t block) const {
  expect(block >= own_blocks.first && block < own_blocks.end(), "the block is one of the rank's");
  Stack stack;
  std::uint64_t segment = own_segments.first;
  for (; share(blocks, segment, segments).end() <= block; ++segment) stack.push({0, segment});
  const Range of_segment = share(blocks, segment, segments);
  GemmStep step{.level = stack.nodes().size(), .begins = block == of_segment.first};
  step.ends = block + 1 == of_segment.end();
  if (step.ends) step.folds = stack.push({0, segment});
  return step;
}

std::vector<GemmAdd> GemmPlan::fold() const {
  struct Place {
    std::uint64_t layer, node;
  };
  const Shape shape = shape_of(*this);
  Stack stack;
  std::vector<Place> places;  // of the stack's nodes
  std::vector<GemmAdd> adds;
  for (std::uint64_t each = 0; each < box.depth; ++each) {
    std::uint64_t number = 0;
    for (const GemmNode& node : shape.nodes_of(each)) {
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

std::string_view GemmPlan::bound_by() const {
  const double max =
      std::max({compute_seconds, upload_seconds, gather_seconds, exchange_seconds, drain_seconds});
  if (compute_seconds == max) return "computing";
  if (upload_seconds == max) return "host link";
  if (gather_seconds == max) return "all-gathers";
  return exchange_seconds == max ? "exchange" : "download";
}

}  // namespace shardstream::workloads
