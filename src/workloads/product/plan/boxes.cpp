#include "workloads/product/plan/boxes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "core/error.hpp"
#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads::product {
namespace {

/// With fewer ranks, the panels of rows are gathered as quickly as those of a grid.
constexpr std::uint64_t grid_ranks = 8;

std::vector<Place> grids(std::uint64_t ranks) {
  std::vector<Place> all;
  for (std::uint64_t rows = 1; rows <= ranks; ++rows) {
    const bool is_grid = rows > 1 && rows < ranks;
    if (ranks % rows == 0 && is_grid) all.push_back({Decomposition::grid, {rows, ranks / rows, 1}});
  }
  if (all.empty()) all.push_back({Decomposition::grid, {1, ranks, 1}});  // columns alone
  return all;
}

/// Those that could be best, the smallest layers first and the fewest of them. Layers that have no
/// fewer segments each than in a box of fewer layers, or rows and columns of ranks without tiles,
/// would leave nobody less to compute; the latter may upload less.
std::vector<Place> layered(const Problem& problem) {
  const Shape whole(problem, {});
  const bool has_columns = problem.decomposition == Decomposition::split_k
                               ? problem.ranks > 1
                               : problem.ranks >= grid_ranks;
  std::vector<Place> all;
  for (const std::uint64_t depth : numbers_of_parts(whole.segments)) {
    const std::uint64_t layer = problem.ranks / depth;
    if (depth == 1 || layer == 0) continue;
    const std::uint64_t max_columns =
        has_columns && !problem.symmetric ? std::min(layer, whole.tile_columns) : 1;
    for (std::uint64_t columns = 1; columns <= max_columns; ++columns) {
      const std::uint64_t rows = layer / columns, busy = std::min(rows, whole.tile_rows);
      all.push_back({Decomposition::split_k, {busy, columns, depth}});
      if (rows > busy) all.push_back({Decomposition::split_k, {rows, columns, depth}});
    }
  }
  std::ranges::stable_sort(all, {}, [](const Place& place) {
    const Box& box = place.second;
    return std::tuple(box.layer(), box.columns, box.depth);
  });
  return all;
}

/// Why K can't be split among ranks; empty if it can.
std::string why_not_split(const Problem& problem) {
  if (segments_of(problem) > 1) return {};
  return "K is split where it is at least 8 times M and N, in two blocks or more, and C has at "
         "most 64 tiles";
}

void reject_grid_of_symmetric(const Problem& problem) {
  if (!problem.symmetric) return;
  throw UsageError(
      "--product.decomposition grid, or a --product.box with columns, is not for gram, whose tiles "
      "would be unevenly spread over the columns of ranks: pass auto, rows or split-k");
}

/// The box that is asked for.
Place place_of(const Problem& problem, const Box& box) {
  const Decomposition kind = box.depth > 1     ? Decomposition::split_k
                             : box.columns > 1 ? Decomposition::grid
                                               : Decomposition::rows;
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("--product.box {} {}: pass another one, or leave it out", name_of(box), why));
  };
  if (box.columns > 1) reject_grid_of_symmetric(problem);
  if (problem.decomposition != Decomposition::automatic && problem.decomposition != kind) {
    refuse(fmt::format("is {}, and --product.decomposition is {}", name_of(kind),
                       name_of(problem.decomposition)));
  }
  if (box.ranks() > problem.ranks) {
    refuse(fmt::format("takes {} ranks, and there are {}", box.ranks(), problem.ranks));
  }
  if (const std::uint64_t segments = segments_of(problem); box.depth > segments) {
    refuse(segments == 1 ? fmt::format("is not possible ({})", why_not_split(problem))
                         : fmt::format("splits K among {} layers, and it has {} segments",
                                       box.depth, segments));
  }
  return {kind, box};
}

}  // namespace

std::vector<Place> places_of(const Problem& problem, std::vector<Alternative>& considered) {
  if (problem.box) return {place_of(problem, *problem.box)};
  const std::uint64_t ranks = problem.ranks;
  const Place rows{Decomposition::rows, {ranks, 1, 1}};
  const std::string why_not = why_not_split(problem);
  switch (problem.decomposition) {
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
  std::vector<Place> places{rows};
  if (ranks >= grid_ranks && !problem.symmetric) {
    for (const Place& grid : grids(ranks)) places.push_back(grid);
  }
  if (why_not.empty()) {
    for (const Place& split : layered(problem)) places.push_back(split);
  } else if (ranks > 1) {
    considered.push_back({Decomposition::split_k, {}, 0, why_not});
  }
  return places;
}

}  // namespace shardstream::workloads::product
