#include "workloads/gemm_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::uint64_t alignment = 256, verdict_bytes = 72, row_verdict_bytes = 32;
constexpr double as_good = 1.04;  // predictions are no better than that

/// Sums and products are the largest number where that is too large: more than any memory.
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

std::uint64_t aligned(std::uint64_t bytes) {
  return saturating_product(ceil_div(bytes, alignment), alignment);
}

/// What follows from the problem alone.
struct Shape {
  explicit Shape(const GemmProblem& of)
      : problem(of),
        tile_rows(ceil_div(of.m, of.tile.m)),
        tile_columns(ceil_div(of.n, of.tile.n)),
        blocks(ceil_div(of.k, of.tile.k)),
        most_rows(ceil_div(tile_rows, of.ranks)),
        part_rows(ceil_div(of.tile.k, of.ranks)),
        panel_element(gemm::panel_element_bytes(of.precision, of.on_host)),
        a_element(of.a.raw ? of.a.element_bytes : panel_element),
        b_element(of.b.raw ? of.b.element_bytes : panel_element),
        c_element(gemm::accumulator_bytes(of.precision)),
        tile_bytes(product({of.tile.m, of.tile.n, c_element})) {}

  const GemmProblem& problem;
  std::uint64_t tile_rows, tile_columns, blocks;
  std::uint64_t most_rows;  ///< of any rank: those of rank 0
  std::uint64_t part_rows;
  std::uint64_t panel_element, a_element, b_element, c_element;  ///< bytes, A's and B's as uploaded
  std::uint64_t tile_bytes;                                      ///< of an accumulator

  Range rows_of(std::uint64_t rank) const { return share(tile_rows, rank, problem.ranks); }
  /// Rows of C without padding.
  std::uint64_t valid_rows(std::uint64_t rank) const {
    return shard(problem.m, problem.tile.m, rank, problem.ranks).count;
  }
  /// What is uploaded of the C that is read.
  std::uint64_t c_uploads(std::uint64_t rank) const {
    return problem.reads_c ? product({valid_rows(rank), problem.n, c_element}) : 0;
  }
};

/// A way to cut the tiles of every rank into super-tiles.
struct Cut {
  std::uint64_t row_passes = 1, column_passes = 1, ring = 1;

  std::uint64_t rows(const Shape& shape) const { return ceil_div(shape.most_rows, row_passes); }
  std::uint64_t columns(const Shape& shape) const {
    return ceil_div(shape.tile_columns, column_passes);
  }
  std::uint64_t super_tiles() const { return row_passes * column_passes; }
  std::uint64_t batches(const Shape& shape) const { return product({super_tiles(), shape.blocks}); }
};

GemmBuffers buffers_of(const Shape& shape, const Cut& cut) {
  const GemmProblem& problem = shape.problem;
  const std::uint64_t rows = product({cut.rows(shape), problem.tile.m});
  const std::uint64_t column_tiles = cut.columns(shape);
  const std::uint64_t columns = product({column_tiles, problem.tile.n});
  const std::uint64_t gathered_rows = product({shape.part_rows, problem.ranks});
  const auto bytes = [](std::initializer_list<std::uint64_t> factors) {
    return aligned(product(factors));
  };
  GemmBuffers buffers;
  if (problem.a.raw) buffers.raw_a = bytes({rows, problem.tile.k, shape.a_element});
  if (problem.b.raw) buffers.raw_b = bytes({shape.part_rows, columns, shape.b_element});
  buffers.a_panel = bytes({rows, problem.tile.k, shape.panel_element});
  buffers.b_panel = bytes({gathered_rows, columns, shape.panel_element});
  buffers.y = bytes({gathered_rows, 2 * column_tiles, sizeof(double)});
  buffers.z = bytes({rows, column_tiles, sizeof(double)});
  buffers.row_squares = bytes({rows, sizeof(double)});
  buffers.column_squares = bytes({column_tiles, sizeof(double)});
  buffers.verdicts = bytes({shape.most_rows, shape.tile_columns, verdict_bytes}) +
                     bytes({problem.tile.m, row_verdict_bytes});
  buffers.accumulators = bytes({cut.rows(shape), column_tiles, shape.tile_bytes});
  if (problem.reads_c) buffers.c_tile = aligned(shape.tile_bytes);
  return buffers;
}

std::uint64_t batch_bytes(const GemmBuffers& buffers) {
  return sum({buffers.raw_a, buffers.raw_b, buffers.a_panel, buffers.b_panel, buffers.y});
}

std::uint64_t check_bytes(const GemmBuffers& buffers) {
  return sum({buffers.z, buffers.row_squares, buffers.column_squares, buffers.verdicts});
}

std::uint64_t device_bytes(const Shape& shape, const Cut& cut) {
  const GemmBuffers buffers = buffers_of(shape, cut);
  return sum({product({cut.ring, batch_bytes(buffers)}), check_bytes(buffers), buffers.accumulators,
              buffers.c_tile, shape.problem.other_bytes});
}

std::uint64_t uploads(const Shape& shape, const Cut& cut, std::uint64_t rank) {
  const gemm::Tile& tile = shape.problem.tile;
  return sum({product({cut.column_passes, shape.rows_of(rank).count, tile.m, shape.blocks, tile.k,
                       shape.a_element}),
              product({cut.row_passes, shape.tile_columns, tile.n, shape.blocks, shape.part_rows,
                       shape.b_element}),
              shape.c_uploads(rank)});
}

/// The numbers of parts that give different largest parts of `count` (at least 1), the fewest each.
std::vector<std::uint64_t> cuts_of(std::uint64_t count) {
  std::vector<std::uint64_t> parts{1};
  for (std::uint64_t most = count; most > 1; most = ceil_div(count, parts.back())) {
    parts.push_back(ceil_div(count, most - 1));
  }
  return parts;
}

/// Any cut keeps its largest super-tile's accumulators in memory, goes through the rows of A once
/// for each column pass and through B once for each row pass.
std::uint64_t least_uploads(const Shape& shape, std::uint64_t rank) {
  const GemmProblem& problem = shape.problem;
  const std::uint64_t tiles = problem.device_memory / shape.tile_bytes;
  const std::uint64_t a = product({shape.valid_rows(rank), problem.k, shape.a_element});
  const std::uint64_t b = product({problem.k, problem.n, shape.b_element}) / problem.ranks;
  std::uint64_t least = UINT64_MAX;
  for (const std::uint64_t column_passes : cuts_of(shape.tile_columns)) {
    const std::uint64_t rows = tiles / ceil_div(shape.tile_columns, column_passes);
    if (rows == 0) continue;
    const std::uint64_t row_passes = ceil_div(shape.most_rows, rows);
    least = std::min(least, sum({product({column_passes, a}), product({row_passes, b})}));
  }
  return sum({least, shape.c_uploads(rank)});
}

/// Seconds. `seconds` is the whole.
struct Prediction {
  double compute = 0, upload = 0, gather = 0, drain = 0, seconds = 0;
};

/// Seconds that one super-tile takes, or, of the first three, one of its batches.
struct Effort {
  double upload = 0, gather = 0, compute = 0;
  double drain = 0, tile_drain = 0;
  double blocks = 0;

  /// From one batch to the next. In a ring that is reused a buffer goes through all three in turn.
  double period(const Shape& shape, const Cut& cut) const {
    const double slowest = std::max({upload, gather, compute});
    if (cut.batches(shape) <= cut.ring) return slowest;
    return std::max(slowest, (upload + gather + compute) / static_cast<double>(cut.ring));
  }
  /// What of the drain lies beside neither its last batch nor the next one's first, which both
  /// compute tile by tile: for that the next super-tile waits.
  double drain_apart() const { return std::max(0.0, drain - std::min(2.0, blocks) * compute); }
  /// From one super-tile to the next.
  double step(const Shape& shape, const Cut& cut) const {
    return std::max(blocks * period(shape, cut) + drain_apart(), drain);
  }
};

Effort effort_of(const Shape& shape, const GemmRates& rates, std::uint64_t row_tiles,
                 std::uint64_t column_tiles) {
  const GemmProblem& problem = shape.problem;
  const auto real = [](std::uint64_t number) { return static_cast<double>(number); };
  const double rows = real(row_tiles) * real(problem.tile.m), depth = real(problem.tile.k);
  const double columns = real(column_tiles) * real(problem.tile.n);
  const double part = real(shape.part_rows);
  Effort effort;
  effort.blocks = real(shape.blocks);
  effort.upload = (rows * depth * real(shape.a_element) + part * columns * real(shape.b_element)) /
                  rates.link_up;
  effort.gather = real(problem.ranks - 1) * part *
                  (columns * real(shape.panel_element) + 2 * real(column_tiles) * sizeof(double)) /
                  rates.gather;
  effort.compute = 2 * rows * columns * depth / rates.flops;
  const double tile = real(shape.tile_bytes);
  effort.tile_drain = std::max(tile / rates.link_down, problem.reads_c ? tile / rates.link_up : 0);
  effort.drain = real(row_tiles) * real(column_tiles) * effort.tile_drain;
  return effort;
}

struct PartSize {
  std::uint64_t size, parts;
};

/// The two sizes that the parts of `count` have, and how many parts have each.
std::array<PartSize, 2> sizes_of(std::uint64_t count, std::uint64_t parts) {
  return {{{count / parts + 1, count % parts}, {count / parts, parts - count % parts}}};
}

/// For rank 0, which has the most of everything.
Prediction predict(const Shape& shape, const GemmRates& rates, const Cut& cut) {
  Prediction prediction;
  for (const PartSize rows : sizes_of(shape.most_rows, cut.row_passes)) {
    for (const PartSize columns : sizes_of(shape.tile_columns, cut.column_passes)) {
      const double count = static_cast<double>(rows.parts) * static_cast<double>(columns.parts);
      const Effort effort = effort_of(shape, rates, rows.size, columns.size);
      prediction.compute += count * effort.blocks * effort.compute;
      prediction.upload += count * effort.blocks * effort.upload;
      prediction.gather += count * effort.blocks * effort.gather;
      prediction.drain += count * effort.drain;
      prediction.seconds += count * effort.step(shape, cut);
    }
  }
  if (shape.problem.reads_c) {
    prediction.upload += static_cast<double>(shape.c_uploads(0)) / rates.link_up;
  }
  // The largest super-tile is the first; behind the last one nothing computes.
  const Effort first = effort_of(shape, rates, cut.rows(shape), cut.columns(shape));
  const std::uint64_t last_rows = shape.most_rows / cut.row_passes;
  const std::uint64_t last_columns = shape.tile_columns / cut.column_passes;
  const Effort last = effort_of(shape, rates, last_rows, last_columns);
  const double last_tiles = static_cast<double>(last_rows) * static_cast<double>(last_columns);
  const double beside = last.compute * (last_tiles - 1) / last_tiles;
  prediction.seconds += first.upload + first.gather - last.step(shape, cut) +
                        (last.blocks - 1) * last.period(shape, cut) + last.compute +
                        std::max(last.tile_drain, last.drain - beside);
  return prediction;
}

/// Calls f(cut) for all that differ in their extents or their ring.
template <class F>
void for_each_cut(const Shape& shape, F f) {
  const std::vector<std::uint64_t> column_cuts = cuts_of(shape.tile_columns);
  for (const std::uint64_t row_passes : cuts_of(shape.most_rows)) {
    for (const std::uint64_t column_passes : column_cuts) {
      Cut cut{.row_passes = row_passes, .column_passes = column_passes, .ring = 3};
      const std::uint64_t batches = cut.batches(shape);
      cut.ring = std::min<std::uint64_t>(3, batches);
      f(cut);
      if (cut.ring < 3) continue;
      cut.ring = 2;
      f(cut);
    }
  }
}

[[noreturn]] void refuse(const Shape& shape, std::uint64_t need) {
  const GemmProblem& problem = shape.problem;
  throw UsageError(fmt::format(
      "gemm needs {} of device memory for a tile of {} x {} in {} and its panels, of which {} may "
      "be used: allow --pipeline.gpu-memory {}B or more",
      format_size(need), problem.tile.m, problem.tile.n, name_of(problem.precision),
      format_size(problem.device_memory), need));
}

/// Among those that fit, as plan_gemm() says.
Cut choose(const Shape& shape, const GemmRates& rates) {
  struct Candidate {
    Cut cut;
    double seconds;
    std::uint64_t uploads, tiles;
  };
  std::vector<Candidate> candidates;
  std::uint64_t smallest = UINT64_MAX;
  for_each_cut(shape, [&](const Cut& cut) {
    const std::uint64_t bytes = device_bytes(shape, cut);
    smallest = std::min(smallest, bytes);
    if (bytes > shape.problem.device_memory) return;
    candidates.push_back({cut, predict(shape, rates, cut).seconds, uploads(shape, cut, 0),
                          cut.rows(shape) * cut.columns(shape)});
  });
  if (candidates.empty()) refuse(shape, smallest);
  const double fastest = std::ranges::min_element(candidates, {}, &Candidate::seconds)->seconds;
  std::erase_if(candidates,
                [&](const Candidate& each) { return each.seconds > as_good * fastest; });
  return std::ranges::min_element(candidates,
                                  [](const Candidate& a, const Candidate& b) {
                                    if (a.uploads != b.uploads) return a.uploads < b.uploads;
                                    return a.tiles != b.tiles ? a.tiles > b.tiles
                                                              : a.cut.ring > b.cut.ring;
                                  })
      ->cut;
}

void check(const GemmProblem& problem, const GemmRates& rates, std::uint64_t rank) {
  expect(problem.m > 0 && problem.n > 0 && problem.k > 0, "a product has no empty side");
  expect(problem.tile.m > 0 && problem.tile.n > 0 && problem.tile.k > 0, "a tile has a size");
  expect(rank < problem.ranks, "the rank is one of the ranks");
  expect(rates.link_up > 0 && rates.link_down > 0 && rates.gather > 0 && rates.flops > 0,
         "rates are above 0");
  const std::uint64_t panel = gemm::panel_element_bytes(problem.precision, problem.on_host);
  for (const GemmOperand& operand : {problem.a, problem.b}) {
    expect(operand.raw ? operand.element_bytes > 0 : operand.element_bytes == panel,
           "what is stored in another type is raw");
  }
}

std::string passes(std::uint64_t count, std::string_view of) {
  return fmt::format("{} {} pass{}", count, of, count == 1 ? "" : "es");
}

}  // namespace

GemmSuperTile GemmPlan::super_tile(std::uint64_t number) const {
  expect(number < super_tiles(), "the super-tile is one of the plan's");
  Range own = share(rows.count, number / column_passes, row_passes);
  own.first += rows.first;
  return {own, share(tile_columns, number % column_passes, column_passes)};
}

Range GemmPlan::b_rows(std::uint64_t block) const {
  const std::uint64_t edge = problem.tile.k;
  const Range in_block = intersection({rank * part_rows, part_rows}, {0, edge});
  return intersection({block * edge + in_block.first, in_block.count}, {0, problem.k});
}

std::string_view GemmPlan::bound_by() const {
  const double most = std::max({compute_seconds, upload_seconds, gather_seconds, drain_seconds});
  if (compute_seconds == most) return "computing";
  if (upload_seconds == most) return "host link";
  return gather_seconds == most ? "all-gathers" : "download";
}

GemmPlan plan_gemm(const GemmProblem& problem, const GemmRates& rates, std::uint64_t rank) {
  check(problem, rates, rank);
  const Shape shape(problem);
  const Cut cut = choose(shape, rates);
  const Prediction prediction = predict(shape, rates, cut);
  GemmPlan plan;
  plan.problem = problem;
  plan.rank = rank;
  plan.tile_rows = shape.tile_rows;
  plan.tile_columns = shape.tile_columns;
  plan.blocks = shape.blocks;
  plan.rows = shape.rows_of(rank);
  plan.row_passes = cut.row_passes;
  plan.column_passes = cut.column_passes;
  plan.most_rows = cut.rows(shape);
  plan.most_columns = cut.columns(shape);
  plan.part_rows = shape.part_rows;
  plan.ring = cut.ring;
  plan.buffers = buffers_of(shape, cut);
  plan.device_bytes = device_bytes(shape, cut);
  plan.uploads = uploads(shape, cut, rank);
  plan.least_uploads = least_uploads(shape, rank);
  plan.gathered =
      product({problem.ranks - 1, cut.row_passes, shape.blocks, shape.part_rows, shape.tile_columns,
               sum({product({problem.tile.n, shape.panel_element}), 2 * sizeof(double)})});
  plan.flops = 2 * static_cast<double>(shape.valid_rows(rank)) * static_cast<double>(problem.n) *
               static_cast<double>(problem.k);
  plan.compute_seconds = prediction.compute;
  plan.upload_seconds = prediction.upload;
  plan.gather_seconds = prediction.gather;
  plan.drain_seconds = prediction.drain;
  plan.seconds = prediction.seconds;
  return plan;
}

std::vector<std::string> describe(const GemmPlan& plan) {
  const GemmProblem& problem = plan.problem;
  const GemmBuffers& buffers = plan.buffers;
  const std::string rows = plan.rows.count > 0 ? fmt::format("rows of tiles {} to {}",
                                                             plan.rows.first, plan.rows.end() - 1)
                                               : "no rows of tiles";
  const std::uint64_t batches = product({plan.ring, batch_bytes(buffers)});
  std::vector<std::string> lines{
      fmt::format("C: {} x {} in {}, {} x {} tiles of {} x {}", problem.m, problem.n,
                  name_of(problem.precision), plan.tile_rows, plan.tile_columns, problem.tile.m,
                  problem.tile.n),
      fmt::format("K: {}, in {} blocks of {}", problem.k, plan.blocks, problem.tile.k),
      fmt::format("rank {} of {}: {}", plan.rank, problem.ranks, rows),
      fmt::format("super-tiles: {}, of up to {} x {} tiles ({}, {})", plan.super_tiles(),
                  plan.most_rows, plan.most_columns, passes(plan.row_passes, "row"),
                  passes(plan.column_passes, "column")),
      fmt::format(
          "batches: {}, {} in device memory; each of up to {} of A and {} of B uploaded",
          plan.batches(), plan.ring,
          format_size(plan.most_rows * problem.tile.m * problem.tile.k * problem.a.element_bytes),
          format_size(plan.part_rows * plan.most_columns * problem.tile.n *
                      problem.b.element_bytes)),
      fmt::format("device memory: {} of {}: accumulators {}, batches {}, verification {}, "
                  "other {}",
                  format_size(plan.device_bytes), format_size(problem.device_memory),
                  format_size(buffers.accumulators), format_size(batches),
                  format_size(check_bytes(buffers)),
                  format_size(problem.other_bytes + buffers.c_tile)),
      fmt::format("uploads of rank {}: {}, {:.3f} x the {} that super-tiles in this memory need at "
                  "least",
                  plan.rank, format_size(plan.uploads),
                  static_cast<double>(plan.uploads) / static_cast<double>(plan.least_uploads),
                  format_size(plan.least_uploads))};
  if (problem.ranks > 1) {
    lines.push_back(fmt::format("all-gathers: a rank receives {}", format_size(plan.gathered)));
  }
  lines.push_back(fmt::format(
      "predicted: {}, bound by {} (computing {}, uploads {}, all-gathers {}, download {})",
      format_duration(plan.seconds), plan.bound_by(), format_duration(plan.compute_seconds),
      format_duration(plan.upload_seconds), format_duration(plan.gather_seconds),
      format_duration(plan.drain_seconds)));
  return lines;
}

}  // namespace shardstream::workloads
