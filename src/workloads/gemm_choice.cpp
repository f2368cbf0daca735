#include "workloads/gemm_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::workloads {
namespace {

constexpr double as_good = 1.08;  // predictions are no better than that
constexpr double alike = 1.002, uploads_alike = 1.01;
constexpr std::uint64_t usual_ring = 3, longest_ring = 8;  // one batch in each of three stages
constexpr std::uint64_t grid_ranks = 8;  // below, the panels of rows are gathered as quickly

std::uint64_t batches_of(const Shape& shape, const Extents& extents) {
  return product({extents.super_tiles, shape.most_blocks});
}

/// Of batches in device memory; the longest ones hide a slow download behind their windows.
std::pair<std::uint64_t, std::uint64_t> rings_of(const Shape& shape, const Extents& extents) {
  const std::uint64_t batches = batches_of(shape, extents);
  return {std::min<std::uint64_t>(2, batches), std::min(longest_ring, batches)};
}

struct Candidate {
  Cut cut;
  Extents extents;
  std::uint64_t ring, window;
  Prediction prediction;
  std::uint64_t uploads;

  double seconds() const { return prediction.seconds; }
};

std::uint64_t uploads_of(const Shape& shape, const std::vector<Pass>& passes) {
  std::uint64_t bytes = 0;
  for (const Pass& pass : passes) {
    const std::uint64_t of_pass = of_blocks(upload_bytes, shape, pass, shape.most_blocks);
    bytes = sum({bytes, product({pass.count, of_pass})});
  }
  return bytes;
}

/// Of all cuts and rings that fit.
std::vector<Candidate> candidates_of(const Shape& shape, const GemmRates& rates) {
  std::vector<Candidate> candidates;
  std::uint64_t work = 0;
  const auto fits = [&](const Extents& extents, std::uint64_t ring) {
    return device_bytes(shape, extents, ring) <= shape.problem.device_memory;
  };
  for (const Cut& cut : cuts_of(shape)) {
    if (work > most_work && !candidates.empty()) break;
    if (!fits(least_extents(shape, cut), 1)) continue;
    work += work_of(shape, cut);
    const std::vector<Pass> passes = passes_of(shape, cut);
    const Extents extents = extents_of(passes);
    const std::uint64_t uploads = uploads_of(shape, passes);
    const auto [shortest, longest] = rings_of(shape, extents);
    for (std::uint64_t ring = shortest; ring <= longest && fits(extents, ring); ++ring) {
      const std::uint64_t windows = most_window(shape, extents, ring);
      for (std::uint64_t window = 1; window <= windows; ++window) {
        candidates.push_back(
            {cut, extents, ring, window, predict(shape, rates, passes, ring, window), uploads});
      }
    }
  }
  return candidates;
}

/// The least that any cut needs.
std::uint64_t least_memory(const Shape& shape) {
  std::uint64_t least = UINT64_MAX;
  std::vector<Cut> cuts = cuts_of(shape);
  std::ranges::reverse(cuts);
  for (const Cut& cut : cuts) {
    if (device_bytes(shape, least_extents(shape, cut), 1) >= least) continue;
    const Extents extents = extents_of(passes_of(shape, cut));
    least = std::min(least, device_bytes(shape, extents, rings_of(shape, extents).first));
  }
  return least;
}

void keep_fast(std::vector<Candidate>& candidates, double tolerance) {
  const double fastest = std::ranges::min_element(candidates, {}, &Candidate::seconds)->seconds();
  std::erase_if(candidates,
                [&](const Candidate& each) { return each.seconds() > tolerance * fastest; });
}

/// None if nothing fits.
std::optional<Candidate> best_of(std::vector<Candidate> candidates) {
  if (candidates.empty()) return std::nullopt;
  keep_fast(candidates, as_good);
  const std::uint64_t least =
      std::ranges::min_element(candidates, {}, &Candidate::uploads)->uploads;
  std::erase_if(candidates, [&](const Candidate& each) {
    return static_cast<double>(each.uploads) > uploads_alike * static_cast<double>(least);
  });
  keep_fast(candidates, alike);
  return *std::ranges::min_element(candidates, {}, [](const Candidate& each) {
    const std::uint64_t ring = each.ring < usual_ring ? longest_ring + 1 : each.ring;
    return std::tuple(each.uploads, UINT64_MAX - each.extents.tiles, ring, each.window);
  });
}

using Place = std::pair<Decomposition, Box>;

std::vector<Place> grids(std::uint64_t ranks) {
  std::vector<Place> all;
  for (std::uint64_t rows = 1; rows <= ranks; ++rows) {
    const bool is_grid = rows > 1 && rows < ranks;
    if (ranks % rows == 0 && is_grid) all.push_back({Decomposition::grid, {rows, ranks / rows, 1}});
  }
  if (all.empty()) all.push_back({Decomposition::grid, {1, ranks, 1}});  // columns alone
  return all;
}

/// Why K can't be split among the ranks; empty if it can.
std::string why_not_split(const GemmProblem& problem) {
  const std::uint64_t segments = segments_of(problem);
  if (segments >= problem.ranks) return {};
  if (segments > 1) return fmt::format("K has {} segments for {} ranks", segments, problem.ranks);
  return "K is split where it is at least 8 times M and N, in two blocks or more, and C has at "
         "most 64 tiles";
}

/// The boxes to look at; what is asked for and impossible is refused.
std::vector<Place> places_of(const GemmProblem& problem, std::vector<GemmAlternative>& considered) {
  const std::uint64_t ranks = problem.ranks;
  const Place rows{Decomposition::rows, {ranks, 1, 1}};
  const Place split{Decomposition::split_k, {1, 1, ranks}};
  const std::string why_not = why_not_split(problem);
  switch (problem.decomposition) {
    case Decomposition::rows:
      return {rows};
    case Decomposition::grid:
      if (!problem.symmetric) return grids(ranks);
      throw UsageError(
          "--gemm.decomposition grid is not for gram, whose tiles would be unevenly spread over "
          "the "
          "columns of ranks: pass auto, rows or split-k");
    case Decomposition::split_k:
      if (why_not.empty()) return {split};
      throw UsageError(fmt::format(
          "--gemm.decomposition split-k is not possible ({}): pass auto, rows or grid", why_not));
    case Decomposition::automatic:
      break;
  }
  std::vector<Place> places{rows};
  if (ranks >= grid_ranks && !problem.symmetric) {
    for (const Place& grid : grids(ranks)) places.push_back(grid);
  }
  if (ranks > 1 && why_not.empty()) places.push_back(split);
  if (ranks > 1 && !why_not.empty()) {
    considered.push_back({split.first, split.second, 0, why_not});
  }
  return places;
}

[[noreturn]] void refuse(const GemmProblem& problem, std::uint64_t need) {
  throw UsageError(fmt::format(
      "{} needs {} of device memory for a tile of {} x {} in {} and its panels, of which {} may "
      "be used: allow --pipeline.gpu-memory {}B or more",
      problem.symmetric ? "gram" : "gemm", format_size(need), problem.tile.m, problem.tile.n,
      name_of(problem.precision), format_size(problem.device_memory), need));
}

}  // namespace

Choices choose(const GemmProblem& problem, const GemmRates& rates) {
  std::vector<GemmAlternative> impossible;
  const std::vector<Place> places = places_of(problem, impossible);
  std::vector<Choice> possible;
  Choices choices;
  std::uint64_t need = UINT64_MAX;
  for (const Place& place : places) {
    const Shape shape(problem, place.second);
    const std::optional<Candidate> best = best_of(candidates_of(shape, rates));
    if (!best) {
      const std::uint64_t least = least_memory(shape);
      need = std::min(need, least);
      choices.considered.push_back(
          {place.first, place.second, 0,
           fmt::format("it needs {} of device memory", format_size(least))});
      continue;
    }
    choices.considered.push_back({place.first, place.second, best->seconds(), {}});
    possible.push_back(
        {place.first, shape, best->cut, best->extents, best->ring, best->window, best->prediction});
  }
  if (possible.empty()) refuse(problem, need);
  std::ranges::move(impossible, std::back_inserter(choices.considered));
  const auto seconds = [](const Choice& each) { return each.prediction.seconds; };
  const auto fastest = std::ranges::min_element(possible, {}, seconds);
  const bool rows_do = possible.front().decomposition == Decomposition::rows &&
                       seconds(possible.front()) <= as_good * seconds(*fastest);
  choices.chosen = rows_do ? possible.front() : *fastest;
  if (problem.decomposition != Decomposition::automatic) {
    choices.why = "as gemm.decomposition asks for";
  } else if (possible.size() == 1) {
    choices.why = problem.ranks == 1 ? "one rank has all rows" : "nothing else is possible";
  } else if (rows_do && fastest != possible.begin()) {
    choices.why =
        fmt::format("the simplest, and no more than {:.0f} % slower than {}", (as_good - 1) * 100,
                    words_of(fastest->decomposition, fastest->shape.box));
  } else {
    choices.why = "the least predicted time";
  }
  return choices;
}

}  // namespace shardstream::workloads
