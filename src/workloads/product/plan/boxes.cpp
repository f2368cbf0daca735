#include "workloads/product/plan/boxes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "core/error.hpp"
#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads::product {
namespace {

/// Whether boxes with several columns of ranks may be the best: not for symmetric products; if
/// there are many ranks, since the gathers of rows are then slow; and if C has fewer rows of tiles
/// than there are ranks, since some ranks would then be idle.
bool may_have_columns(const Problem& problem) {
  constexpr std::uint64_t many_ranks = 8;
  const std::uint64_t ranks = problem.ranks.count, rows = ceil_div(problem.m, problem.tile.m);
  return !problem.symmetric && ranks > 1 && (ranks >= many_ranks || rows < ranks);
}

/// The grids of all ranks; the first one has a single row.
std::vector<ConsideredBox> grids(std::uint64_t ranks) {
  std::vector<ConsideredBox> all;
  for (std::uint64_t rows = 1; rows < std::max<std::uint64_t>(ranks, 2); ++rows) {
    if (ranks % rows == 0) all.push_back({Decomposition::grid, {rows, ranks / rows, 1}});
  }
  return all;
}

/// The boxes with several layers that could be the best, in the order of the smallest layers, then
/// the fewest columns, then the fewest layers. More layers are left out if the largest number of
/// segments of a layer stays the same. Rows of ranks without tiles compute nothing, but such a box
/// may upload less, so it is considered as well.
std::vector<ConsideredBox> layered(const Problem& problem) {
  const Shape whole(problem, {});
  const bool has_columns = problem.requested.decomposition == Decomposition::split_k
                               ? problem.ranks.count > 1
                               : may_have_columns(problem);
  std::vector<ConsideredBox> all;
  for (const std::uint64_t depth : numbers_of_parts(whole.segments)) {
    const std::uint64_t layer = problem.ranks.count / depth;
    if (depth == 1 || layer == 0) continue;
    const std::uint64_t max_columns =
        has_columns && !problem.symmetric ? std::min(layer, whole.tile_columns) : 1;
    for (std::uint64_t columns = 1; columns <= max_columns; ++columns) {
      const std::uint64_t rows = layer / columns, busy = std::min(rows, whole.tile_rows);
      all.push_back({Decomposition::split_k, {busy, columns, depth}});
      if (rows > busy) all.push_back({Decomposition::split_k, {rows, columns, depth}});
    }
  }
  std::ranges::stable_sort(all, {}, [](const ConsideredBox& place) {
    const Box& box = place.second;
    return std::tuple(box.layer(), box.columns, box.depth);
  });
  return all;
}

/// Why K can't be split among ranks; empty if it can.
std::string why_not_split(const Problem& problem) {
  if (count_segments(problem) > 1) return {};
  return "K is only split if it is at least 8 times M and N and has at least two blocks, and C has "
         "at most 64 tiles";
}

void reject_grid_of_symmetric(const Problem& problem) {
  if (!problem.symmetric) return;
  throw UsageError(
      "--product.decomposition grid and a --product.box with columns are not possible for gram, "
      "covariance and correlation, since the columns of ranks would have unequal numbers of tiles: "
      "pass auto, rows or split-k");
}

/// The place of product.box. Throws UsageError if it is impossible.
ConsideredBox place_of(const Problem& problem, const Box& box) {
  const Decomposition kind = box.depth > 1     ? Decomposition::split_k
                             : box.columns > 1 ? Decomposition::grid
                                               : Decomposition::rows;
  const auto reject = [&](const std::string& why) {
    throw UsageError(
        fmt::format("--product.box {} {}: pass another one, or leave it out", text_of(box), why));
  };
  if (box.columns > 1) reject_grid_of_symmetric(problem);
  if (problem.requested.decomposition != Decomposition::automatic &&
      problem.requested.decomposition != kind) {
    reject(fmt::format("is {}, and --product.decomposition is {}", word_of(kind),
                       word_of(problem.requested.decomposition)));
  }
  if (box.ranks() > problem.ranks.count) {
    reject(fmt::format("needs {} ranks, and there are {}", box.ranks(), problem.ranks.count));
  }
  if (const std::uint64_t segments = count_segments(problem); box.depth > segments) {
    reject(segments == 1 ? fmt::format("is not possible ({})", why_not_split(problem))
                         : fmt::format("splits K among {} layers, and K has {} segments", box.depth,
                                       segments));
  }
  return {kind, box};
}

}  // namespace

std::vector<ConsideredBox> places_of(const Problem& problem, std::vector<Alternative>& considered) {
  if (problem.requested.box) return {place_of(problem, *problem.requested.box)};
  const std::uint64_t ranks = problem.ranks.count;
  const ConsideredBox rows{Decomposition::rows, {ranks, 1, 1}};
  const std::string why_not = why_not_split(problem);
  switch (problem.requested.decomposition) {
    case Decomposition::rows:
      return {rows};
    case Decomposition::grid:
      reject_grid_of_symmetric(problem);
      return grids(ranks);
    case Decomposition::split_k:
      if (why_not.empty()) return ranks > 1 ? layered(problem) : std::vector{rows};
      throw UsageError(fmt::format(
          "--product.decomposition split-k is not possible ({}): pass auto, rows or grid",
          why_not));
    case Decomposition::automatic:
      break;
  }
  std::vector<ConsideredBox> places{rows};
  if (may_have_columns(problem)) {
    for (const ConsideredBox& grid : grids(ranks)) places.push_back(grid);
  }
  if (why_not.empty()) {
    for (const ConsideredBox& split : layered(problem)) places.push_back(split);
  } else if (ranks > 1) {
    considered.push_back({Decomposition::split_k, {}, 0, why_not});
  }
  return places;
}

}  // namespace shardstream::workloads::product
