#include "workloads/product/plan/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/units.hpp"
#include "workloads/product/plan/boxes.hpp"
#include "workloads/product/plan/memory.hpp"
#include "workloads/product/plan/predict.hpp"

namespace shardstream::workloads::product {
namespace {

constexpr double as_good = 1.08;  // predictions are no more exact
constexpr double alike = 1.002, uploads_alike = 1.01;
constexpr std::uint64_t usual_ring = 3, longest_ring = 8;  // one batch in each of three stages

std::uint64_t batches_of(const Shape& shape, const Extents& extents) {
  return saturating_product({extents.super_tiles, shape.max_blocks});
}

/// The shortest and the longest ring, in batches. The window of a long ring hides a slow download.
std::pair<std::uint64_t, std::uint64_t> rings_of(const Shape& shape, const Extents& extents) {
  const std::uint64_t batches = batches_of(shape, extents);
  return {std::min<std::uint64_t>(2, batches), std::min(longest_ring, batches)};
}

struct Candidate {
  Cut cut;
  Extents extents;
  std::uint64_t ring, window;
  TimePrediction prediction;
  std::uint64_t uploads;

  double seconds() const { return prediction.seconds; }
};

std::uint64_t uploads_of(const Shape& shape, const std::vector<Pass>& passes) {
  std::uint64_t bytes = 0;
  for (const Pass& pass : passes) {
    const std::uint64_t of_pass = of_blocks(upload_bytes, shape, pass, shape.max_blocks);
    bytes = saturating_sum({bytes, saturating_product({pass.count, of_pass})});
  }
  return bytes;
}

/// All cuts, rings and windows that fit.
std::vector<Candidate> candidates_of(const Shape& shape, const Rates& rates) {
  std::vector<Candidate> candidates;
  std::uint64_t work = 0;
  const auto fits = [&](const Extents& extents, std::uint64_t ring) {
    return device_bytes(shape, extents, ring) <= shape.problem.ranks.device_memory;
  };
  for (const Cut& cut : cuts_of(shape)) {
    if (work > max_work && !candidates.empty()) break;
    if (!fits(min_extents(shape, cut), 1)) continue;
    work += work_of(shape, cut);
    const std::vector<Pass> passes = passes_of(shape, cut);
    const Extents extents = extents_of(cut, passes);
    const std::uint64_t uploads = uploads_of(shape, passes);
    auto [shortest, longest] = rings_of(shape, extents);
    if (cut.keeps_b) {  // uploads of the next super-tile must go on beside this one's window
      while (longest > shortest && !fits(extents, longest)) --longest;
      shortest = longest;
    }
    for (std::uint64_t ring = shortest; ring <= longest && fits(extents, ring); ++ring) {
      const std::uint64_t windows = cut.keeps_b
                                        ? std::min(max_window(shape, ring), ring > 4 ? ring - 4 : 1)
                                        : max_window(shape, ring);
      for (std::uint64_t window = 1; window <= windows; ++window) {
        candidates.push_back(
            {cut, extents, ring, window, predict(shape, rates, passes, ring, window), uploads});
      }
    }
  }
  return candidates;
}

/// The minimum memory that any cut needs.
std::uint64_t min_memory(const Shape& shape) {
  std::uint64_t min = UINT64_MAX;
  std::vector<Cut> cuts = cuts_of(shape);
  std::ranges::reverse(cuts);
  for (const Cut& cut : cuts) {
    if (device_bytes(shape, min_extents(shape, cut), 1) >= min) continue;
    const Extents extents = extents_of(cut, passes_of(shape, cut));
    min = std::min(min, device_bytes(shape, extents, rings_of(shape, extents).first));
  }
  return min;
}

void keep_fast(std::vector<Candidate>& candidates, double tolerance) {
  const double fastest = std::ranges::min_element(candidates, {}, &Candidate::seconds)->seconds();
  std::erase_if(candidates,
                [&](const Candidate& each) { return each.seconds() > tolerance * fastest; });
}

/// The best candidate; nothing if there is none.
std::optional<Candidate> best_of(std::vector<Candidate> candidates) {
  if (candidates.empty()) return std::nullopt;
  keep_fast(candidates, as_good);
  const std::uint64_t min = std::ranges::min_element(candidates, {}, &Candidate::uploads)->uploads;
  std::erase_if(candidates, [&](const Candidate& each) {
    return static_cast<double>(each.uploads) > uploads_alike * static_cast<double>(min);
  });
  keep_fast(candidates, alike);
  return *std::ranges::min_element(candidates, {}, [](const Candidate& each) {
    const std::uint64_t ring = each.ring < usual_ring ? longest_ring + 1 : each.ring;
    return std::tuple(each.uploads, UINT64_MAX - each.extents.tiles, ring, each.window);
  });
}

/// Keeps one box of split-k: the first that is about as fast as the fastest, because in smaller
/// layers fewer ranks wait for one another. Returns whether it is the fastest itself.
bool keep_one_split(std::vector<Choice>& possible) {
  const auto is_split = [](const Choice& each) {
    return each.decomposition == Decomposition::split_k;
  };
  double fastest = std::numeric_limits<double>::infinity();
  for (const Choice& each : possible) {
    if (is_split(each)) fastest = std::min(fastest, each.prediction.seconds);
  }
  std::optional<double> kept;
  std::erase_if(possible, [&](const Choice& each) {
    if (!is_split(each)) return false;
    if (kept || each.prediction.seconds > as_good * fastest) return true;
    kept = each.prediction.seconds;
    return false;
  });
  return kept == fastest;
}

/// Keeps a few boxes of split-k for the description: the chosen one and the fastest, or the first
/// if none is possible.
void shorten(std::vector<Alternative>& considered, const Choice& chosen) {
  constexpr std::size_t max_splits = 3;
  std::vector<Alternative> splits;
  std::erase_if(considered, [&](const Alternative& each) {
    if (each.decomposition != Decomposition::split_k) return false;
    splits.push_back(each);
    return true;
  });
  std::ranges::stable_sort(splits, {}, [&](const Alternative& each) {
    const bool is_chosen =
        chosen.decomposition == Decomposition::split_k && each.box == chosen.shape.box;
    return std::tuple(!is_chosen, !each.why_not.empty(), each.seconds);
  });
  for (std::size_t i = 0; i < std::min(max_splits, splits.size()); ++i) {
    if (i > 0 && !splits[i].why_not.empty()) break;
    considered.push_back(splits[i]);
  }
}

[[noreturn]] void reject(const Problem& problem, std::uint64_t need) {
  const Ranks& ranks = problem.ranks;
  if (ranks.host_bytes > 0) {
    const std::uint64_t with_tenth = saturating_sum({need, need / 9, 10});  // auto is 90 %
    throw UsageError(fmt::format(
        "a rank needs {} of memory for a tile of {} x {} in {} with its panels, and {} for itself "
        "and its slots, but it may use {} for tiles: give each rank {}B of memory (raise the "
        "memory limit of the job, or start fewer ranks per host)",
        format_size(need), problem.tile.m, problem.tile.n, name_of(problem.precision),
        format_size(ranks.host_bytes), format_size(ranks.device_memory),
        std::max(saturating_sum({need, ranks.host_bytes}), with_tenth)));
  }
  throw UsageError(fmt::format(
      "a rank needs {} of device memory for a tile of {} x {} in {} with its panels, and may use "
      "{}: pass --pipeline.gpu-memory {}B or more",
      format_size(need), problem.tile.m, problem.tile.n, name_of(problem.precision),
      format_size(problem.ranks.device_memory), need));
}

}  // namespace

Choices choose(const Problem& problem, const Rates& rates) {
  std::vector<Alternative> impossible;
  const std::vector<Place> places = places_of(problem, impossible);
  std::vector<Choice> possible;
  Choices choices;
  std::uint64_t need = UINT64_MAX;
  for (const Place& place : places) {
    const Shape shape(problem, place.second);
    const std::optional<Candidate> best = best_of(candidates_of(shape, rates));
    if (!best) {
      const std::uint64_t min = min_memory(shape);
      need = std::min(need, min);
      choices.considered.push_back({place.first, place.second, 0,
                                    fmt::format("it needs {} of device memory", format_size(min))});
      continue;
    }
    choices.considered.push_back({place.first, place.second, best->seconds(), {}});
    possible.push_back(
        {place.first, shape, best->cut, best->extents, best->ring, best->window, best->prediction});
  }
  if (possible.empty()) reject(problem, need);
  std::ranges::move(impossible, std::back_inserter(choices.considered));
  const bool fastest_split = keep_one_split(possible);
  const auto seconds = [](const Choice& each) { return each.prediction.seconds; };
  const auto fastest = std::ranges::min_element(possible, {}, seconds);
  const bool rows_do = possible.front().decomposition == Decomposition::rows &&
                       seconds(possible.front()) <= as_good * seconds(*fastest);
  choices.chosen = rows_do ? possible.front() : *fastest;
  shorten(choices.considered, *choices.chosen);
  const Decomposition requested = problem.requested.decomposition;
  if (problem.requested.box) {
    choices.why = "as requested by product.box";
  } else if (requested == Decomposition::split_k && problem.ranks.count == 1) {
    choices.why = "one rank has all of K, so split-k has nothing to share";
  } else if (requested != Decomposition::automatic) {
    choices.why = "as requested by product.decomposition";
  } else if (possible.size() == 1) {
    choices.why = problem.ranks.count == 1 ? "one rank has all rows" : "the only candidate";
  } else if (rows_do && fastest != possible.begin()) {
    choices.why =
        fmt::format("the simplest, and predicted to be at most {:.0f} % slower than {}",
                    (as_good - 1) * 100, words_of(fastest->decomposition, fastest->shape.box));
  } else if (choices.chosen->decomposition == Decomposition::split_k && !fastest_split) {
    choices.why =
        fmt::format("within {:.0f} % of the shortest predicted time, with the smallest layers",
                    (as_good - 1) * 100);
  } else {
    choices.why = "the shortest predicted time";
  }
  return choices;
}

}  // namespace shardstream::workloads::product
