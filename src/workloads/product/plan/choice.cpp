#include "workloads/product/plan/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/units.hpp"
#include "workloads/product/plan/boxes.hpp"
#include "workloads/product/plan/buffers.hpp"
#include "workloads/product/plan/traffic.hpp"

namespace shardstream::workloads::product {
namespace {

constexpr double prediction_error = 1.08;                    // a ratio of times
constexpr double busy_cost = 1.2;                            // see keep_busy()
constexpr double equal_times = 1.002, equal_uploads = 1.01;  // ratios that count as 1
constexpr std::uint64_t longest_ring = 8;                    // for a window

std::uint64_t batches_of(const Shape& shape, const CutSizes& sizes) {
  return saturating_product({sizes.super_tiles, shape.max_blocks});
}

/// The rings to consider, in batches.
struct Rings {
  std::uint64_t shortest, longest, usual;
};

/// The usual ring has one batch in each of three stages, and those that readers fill. If there are
/// fewer, readers wait for batches. The window of a long ring hides a slow download.
Rings rings_of(const Shape& shape, const CutSizes& sizes) {
  const std::uint64_t batches = batches_of(shape, sizes);
  const std::uint64_t usual = 3 + batches_of_readers(shape, sizes);
  return {std::min<std::uint64_t>(2, batches), std::min(std::max(longest_ring, usual), batches),
          std::min(usual, batches)};
}

struct Candidate {
  Cut cut;
  CutSizes sizes;
  std::uint64_t ring, usual_ring, window;
  TimePrediction prediction;
  std::uint64_t uploads;

  double seconds() const { return prediction.seconds; }
};

std::uint64_t uploads_of(const Shape& shape, const std::vector<Pass>& passes) {
  std::uint64_t bytes = 0;
  for (const Pass& pass : passes) {
    const std::uint64_t of_pass = sum_over_blocks(upload_bytes, shape, pass, shape.max_blocks);
    bytes = saturating_sum({bytes, saturating_product({pass.count, of_pass})});
  }
  return bytes;
}

/// All cuts, rings and windows that fit.
std::vector<Candidate> candidates_of(const Shape& shape, const Rates& rates) {
  std::vector<Candidate> candidates;
  const auto fits = [&](const CutSizes& sizes, std::uint64_t ring) {
    return device_bytes(shape, sizes, ring) <= shape.problem.ranks.device_memory;
  };
  const auto may_fit = [&](const CutSizes& sizes) { return fits(sizes, 1); };
  search_cuts(shape, may_fit, [&](const Cut& cut) {
    const std::vector<Pass> passes = passes_of(shape, cut);
    const CutSizes sizes = sizes_of(cut, passes);
    const std::uint64_t uploads = uploads_of(shape, passes);
    auto [shortest, longest, usual] = rings_of(shape, sizes);
    if (cut.keeps_b) {  // uploads of the next super-tile must go on during this one's window
      while (longest > shortest && !fits(sizes, longest)) --longest;
      shortest = longest;
    }
    std::uint64_t ring = shortest;
    for (; ring <= longest && fits(sizes, ring); ++ring) {
      const std::uint64_t windows = cut.keeps_b
                                        ? std::min(max_window(shape, ring), ring > 4 ? ring - 4 : 1)
                                        : max_window(shape, ring);
      for (std::uint64_t window = 1; window <= windows; ++window) {
        candidates.push_back({cut, sizes, ring, usual, window,
                              predict(shape, rates, cut, passes, ring, window), uploads});
      }
    }
    return ring > shortest;
  });
  return candidates;
}

/// The minimum memory that any cut needs.
std::uint64_t min_memory(const Shape& shape) {
  std::uint64_t min = UINT64_MAX;
  std::vector<Cut> cuts = cuts_of(shape);
  std::ranges::reverse(cuts);
  for (const Cut& cut : cuts) {
    if (device_bytes(shape, min_sizes(shape, cut), 1) >= min) continue;
    const CutSizes sizes = sizes_of(cut, passes_of(shape, cut));
    min = std::min(min, device_bytes(shape, sizes, rings_of(shape, sizes).shortest));
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
  keep_fast(candidates, prediction_error);
  const std::uint64_t min = std::ranges::min_element(candidates, {}, &Candidate::uploads)->uploads;
  std::erase_if(candidates, [&](const Candidate& each) {
    return static_cast<double>(each.uploads) > equal_uploads * static_cast<double>(min);
  });
  keep_fast(candidates, equal_times);
  return *std::ranges::min_element(candidates, {}, [](const Candidate& each) {
    // The usual ring, else a longer one, else the longest one.
    const std::uint64_t ring = each.ring < each.usual_ring ? UINT64_MAX - each.ring : each.ring;
    // If B is kept, smaller super-tiles upload nothing more, and their tiles leave earlier.
    const std::uint64_t tiles = each.cut.keeps_b ? each.sizes.tiles : UINT64_MAX - each.sizes.tiles;
    return std::tuple(each.uploads, each.cut.keeps_b, tiles, ring, each.window);
  });
}

/// A box in which the product is possible, with the best candidate.
struct Possible {
  Decomposition decomposition;
  Shape shape;
  Candidate best;

  double seconds() const { return best.seconds(); }
};

/// Keeps the boxes in which the most ranks compute, among those whose time is at most `busy_cost`
/// times the shortest. Returns whether others were among them.
bool keep_busy(std::vector<Possible>& possible) {
  const double fastest = std::ranges::min_element(possible, {}, &Possible::seconds)->seconds();
  std::erase_if(possible,
                [&](const Possible& each) { return each.seconds() > busy_cost * fastest; });
  std::uint64_t busy = 0;
  for (const Possible& each : possible) busy = std::max(busy, each.shape.busy_ranks());
  return std::erase_if(possible,
                       [&](const Possible& each) { return each.shape.busy_ranks() < busy; }) > 0;
}

/// Keeps one box of split-k: the first that is about as fast as the fastest, because in smaller
/// layers fewer ranks wait for one another. Returns whether it is the fastest itself.
bool keep_one_split(std::vector<Possible>& possible) {
  const auto is_split = [](const Possible& each) {
    return each.decomposition == Decomposition::split_k;
  };
  double fastest = std::numeric_limits<double>::infinity();
  for (const Possible& each : possible) {
    if (is_split(each)) fastest = std::min(fastest, each.seconds());
  }
  std::optional<double> kept;
  std::erase_if(possible, [&](const Possible& each) {
    if (!is_split(each)) return false;
    if (kept || each.seconds() > prediction_error * fastest) return true;
    kept = each.seconds();
    return false;
  });
  return kept == fastest;
}

/// Keeps a few boxes of split-k for the description: the winner and the fastest, or the first if
/// none is possible.
void shorten(std::vector<Alternative>& considered, const Possible& winner) {
  constexpr std::size_t max_splits = 3;
  std::vector<Alternative> splits;
  std::erase_if(considered, [&](const Alternative& each) {
    if (each.decomposition != Decomposition::split_k) return false;
    splits.push_back(each);
    return true;
  });
  std::ranges::stable_sort(splits, {}, [&](const Alternative& each) {
    const bool is_winner =
        winner.decomposition == Decomposition::split_k && each.box == winner.shape.box;
    return std::tuple(!is_winner, !each.why_not.empty(), each.seconds);
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
        format_size(need), problem.tile.m, problem.tile.n, word_of(problem.precision),
        format_size(ranks.host_bytes), format_size(ranks.device_memory),
        std::max(saturating_sum({need, ranks.host_bytes}), with_tenth)));
  }
  throw UsageError(fmt::format(
      "a rank needs {} of device memory for a tile of {} x {} in {} with its panels, and may use "
      "{}: pass --pipeline.gpu-memory {}B or more",
      format_size(need), problem.tile.m, problem.tile.n, word_of(problem.precision),
      format_size(problem.ranks.device_memory), need));
}

/// The boxes in which the product is possible. All others are appended to `considered`, too.
/// Throws UsageError if there is none.
std::vector<Possible> possible_boxes(const Problem& problem, const Rates& rates,
                                     std::vector<Alternative>& considered) {
  std::vector<Alternative> impossible;
  std::vector<Possible> possible;
  std::uint64_t need = UINT64_MAX;
  for (const auto& [decomposition, box] : places_of(problem, impossible)) {
    Shape shape(problem, box);
    const std::optional<Candidate> best = best_of(candidates_of(shape, rates));
    if (!best) {
      const std::uint64_t min = min_memory(shape);
      need = std::min(need, min);
      considered.push_back(
          {decomposition, box, 0, fmt::format("it needs {} of device memory", format_size(min))});
      continue;
    }
    considered.push_back({decomposition, box, best->seconds(), {}});
    possible.push_back({decomposition, std::move(shape), *best});
  }
  if (possible.empty()) reject(problem, need);
  std::ranges::move(impossible, std::back_inserter(considered));
  return possible;
}

/// The steps of the choice that have left out boxes, or could have.
struct Filters {
  bool had_choice;         ///< several boxes were possible
  bool left_out_idle;      ///< by keep_busy()
  bool has_fastest_split;  ///< after keep_one_split()
};

/// The reason for the choice of `winner`: Decision::why.
std::string why_best(const Possible& winner, const Possible& fastest, const Filters& filters) {
  const Problem& problem = winner.shape.problem;
  const Decomposition requested = problem.requested.decomposition;
  if (problem.requested.box) return "as requested by product.box";
  if (requested == Decomposition::split_k && problem.ranks.count == 1) {
    return "one rank has all of K, so split-k has nothing to share";
  }
  if (requested != Decomposition::automatic) return "as requested by product.decomposition";
  if (!filters.had_choice) {
    return problem.ranks.count == 1 ? "one rank has all rows" : "the only candidate";
  }
  const double percent = (prediction_error - 1) * 100;
  if (&winner != &fastest) {
    return fmt::format("the simplest, and predicted to be at most {:.0f} % slower than {}", percent,
                       words_of(fastest.decomposition, fastest.shape.box));
  }
  if (winner.decomposition == Decomposition::split_k && !filters.has_fastest_split) {
    return fmt::format("within {:.0f} % of the shortest predicted time, with the smallest layers",
                       percent);
  }
  if (filters.left_out_idle) {
    const std::uint64_t busy = winner.shape.busy_ranks(), all = problem.ranks.count;
    return fmt::format("the shortest predicted time with {} ranks at work",
                       busy == all ? "all" : fmt::format("{} of {}", busy, all));
  }
  return "the shortest predicted time";
}

}  // namespace

Choice choose(const Problem& problem, const Rates& rates) {
  Decision decision;
  std::vector<Possible> possible = possible_boxes(problem, rates, decision.alternatives);
  Filters filters{.had_choice = possible.size() > 1,
                  .left_out_idle = keep_busy(possible),
                  .has_fastest_split = true};
  filters.has_fastest_split = keep_one_split(possible);
  const Possible& fastest = *std::ranges::min_element(possible, {}, &Possible::seconds);
  const Possible& first = possible.front();
  const bool rows_suffice = first.decomposition == Decomposition::rows &&
                            first.seconds() <= prediction_error * fastest.seconds();
  const Possible& winner = rows_suffice ? first : fastest;
  decision.decomposition = winner.decomposition;
  decision.why = why_best(winner, fastest, filters);
  shorten(decision.alternatives, winner);
  const Candidate& best = winner.best;
  return {.decision = std::move(decision),
          .shape = winner.shape,
          .schedule = {.cut = best.cut,
                       .sizes = best.sizes,
                       .passes = passes_with_tiles(winner.shape, best.cut),
                       .ring_batches = best.ring,
                       .window = best.window},
          .prediction = best.prediction};
}

}  // namespace shardstream::workloads::product
