#include "workloads/product/plan/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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
  return product({extents.super_tiles, shape.max_blocks});
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
  GemmTimes prediction;
  std::uint64_t uploads;

  double seconds() const { return prediction.seconds; }
};

std::uint64_t uploads_of(const Shape& shape, const std::vector<Pass>& passes) {
  std::uint64_t bytes = 0;
  for (const Pass& pass : passes) {
    const std::uint64_t of_pass = of_blocks(upload_bytes, shape, pass, shape.max_blocks);
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

/// The least that any cut needs.
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

/// None if nothing fits.
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

/// Those that could be best, the smallest layers first and the fewest of them. Layers that have no
/// fewer segments each than in a box of fewer layers, or rows and columns of ranks without tiles,
/// would leave nobody less to compute; the latter may upload less.
std::vector<Place> layered(const GemmProblem& problem) {
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
std::string why_not_split(const GemmProblem& problem) {
  if (segments_of(problem) > 1) return {};
  return "K is split where it is at least 8 times M and N, in two blocks or more, and C has at "
         "most 64 tiles";
}

void reject_grid_of_symmetric(const GemmProblem& problem) {
  if (!problem.symmetric) return;
  throw UsageError(
      "--product.decomposition grid, or a --product.box with columns, is not for gram, whose tiles "
      "would be unevenly spread over the columns of ranks: pass auto, rows or split-k");
}

/// The box that is asked for.
Place place_of(const GemmProblem& problem, const Box& box) {
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

/// The boxes to look at; what is asked for and impossible is refused.
std::vector<Place> places_of(const GemmProblem& problem, std::vector<GemmAlternative>& considered) {
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

/// Leaves of split-k the first box that is about as fast as the fastest: with smaller layers fewer
/// ranks wait for one another. Returns whether it is the fastest itself.
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

/// Leaves of split-k's boxes a few to tell of: the chosen one and the fastest, or where none is
/// possible the first.
void shorten(std::vector<GemmAlternative>& considered, const Choice& chosen) {
  constexpr std::size_t told = 3;
  std::vector<GemmAlternative> splits;
  std::erase_if(considered, [&](const GemmAlternative& each) {
    if (each.decomposition != Decomposition::split_k) return false;
    splits.push_back(each);
    return true;
  });
  std::ranges::stable_sort(splits, {}, [&](const GemmAlternative& each) {
    const bool is_chosen =
        chosen.decomposition == Decomposition::split_k && each.box == chosen.shape.box;
    return std::tuple(!is_chosen, !each.why_not.empty(), each.seconds);
  });
  for (std::size_t i = 0; i < std::min(told, splits.size()); ++i) {
    if (i > 0 && !splits[i].why_not.empty()) break;
    considered.push_back(splits[i]);
  }
}

[[noreturn]] void refuse(const GemmProblem& problem, std::uint64_t need) {
  throw UsageError(fmt::format(
      "{} needs {} of device memory for a tile of {} x {} in {} and its panels, of which {} may be "
      "used: allow --pipeline.gpu-memory {}B or more",
      problem.symmetric ? "gram" : "gemm", format_size(need), problem.tile.m, problem.tile.n,
      name_of(problem.precision), format_size(problem.device_memory), need));
}

double real(std::uint64_t number) {
  return static_cast<double>(number);
}

/// Seconds that one super-tile takes, or, of the first three, one of its batches of a whole block.
struct Effort {
  double upload = 0, gather = 0, compute = 0;
  double drain = 0, tile_drain = 0, exchange = 0;
  double behind = 0;    ///< gathers that wait for the exchange of the super-tile before
  double blocking = 0;  ///< gathers beside which nothing is enqueued
  double blocks = 0, tiles = 0;
};

Effort effort_of(const Shape& shape, const GemmRates& rates, const Pass& pass) {
  const GemmProblem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  Effort effort;
  effort.blocks = real(shape.max_blocks) - (shape.begins_shallow ? 2 : 0);  // whole ones
  effort.tiles = real(pass.tiles);
  effort.upload = real(upload_bytes(shape, pass, tile.k)) / rates.link_up;
  effort.gather = real(gather_bytes(shape, pass, tile.k)) / rates.gather;
  effort.exchange = real(exchange_bytes(shape, pass)) / rates.gather;
  effort.behind = shape.box.depth > 1 ? effort.gather : 0;
  effort.blocking = rates.gathers_block ? effort.gather : 0;
  effort.compute = 2 * effort.tiles * real(tile.m) * real(tile.n) * real(tile.k) / rates.flops;
  const double bytes = real(shape.tile_bytes);
  effort.tile_drain =
      std::max(bytes / rates.link_down, problem.reads_c ? bytes / rates.link_up : 0);
  effort.drain = real(ceil_div(pass.drained, shape.box.depth)) * effort.tile_drain;
  return effort;
}

std::uint64_t depth_of_last(const Shape& shape, std::uint64_t blocks) {
  return shape.depth({shape.max_blocks - blocks, blocks}).count;
}

/// How super-tiles follow one another in a ring.
class Schedule {
 public:
  Schedule(const Shape& shape, std::uint64_t super_tiles, std::uint64_t ring, std::uint64_t window)
      : ring_(real(ring)),
        window_(real(depth_of_last(shape, window)) / real(shape.problem.tile.k)),
        first_(shape.begins_shallow ? 0.25 : 1),
        reused_(product({super_tiles, shape.max_blocks}) > ring),
        free_(real(ring - window)) {}

  /// Until the first batch is there.
  double begin(const Effort& effort) const { return first_ * (effort.upload + effort.gather); }

  /// From one batch to the next. In a ring that is reused a buffer goes through all three in turn.
  double period(const Effort& effort) const {
    const double slowest = std::max({effort.upload, effort.gather, effort.compute});
    if (!reused_) return slowest;
    return std::max(slowest, (effort.upload + effort.gather + effort.compute) / ring_);
  }

  /// From one super-tile to the next, whose panels readers bring while writers take the tiles away:
  /// they share the rank's CPUs and its host's memory.
  double step(const Effort& effort) const {
    const double steady = effort.blocks * period(effort) + effort.exchange + effort.behind;
    return std::max(steady + separate_drain(effort) + stall(effort),
                    effort.blocks * effort.upload + effort.drain);
  }

  /// The last one: behind it nothing computes.
  double last(const Effort& effort) const {
    const double left = left_of_window(effort);
    const double beside = effort.tiles > 0 ? left * (effort.tiles - 1) / effort.tiles : 0;
    return window_begins(effort) + wait_for_last(effort) + left + effort.exchange +
           std::max(effort.tile_drain, effort.drain - beside);
  }

  /// All of them where each has accumulators of its own and only the first one uploads B: the next
  /// one's panels come while tiles of the one before leave.
  double keeping(const std::vector<Effort>& efforts) const {
    // Readers and writers share the host's memory, so that two ways take longer than one.
    constexpr double share_of_both = 0.65;
    double uploaded = 0, computed = begin(efforts.front()), drained = 0, both = 0;
    for (const Effort& effort : efforts) {
      uploaded += effort.blocks * std::max(effort.upload, effort.gather);
      both += effort.blocks * effort.upload + effort.drain;
      computed = std::max(computed + effort.blocks * effort.compute, uploaded + effort.compute) +
                 effort.blocking;
      const double left = std::min(window_, effort.blocks) * effort.compute;
      const double beside = effort.tiles > 0 ? left * (effort.tiles - 1) / effort.tiles : 0;
      drained = std::max(std::max(drained, computed - beside) + effort.drain,
                         computed + effort.tile_drain);
    }
    return std::max(drained, share_of_both * both);
  }

 private:
  /// When the batches before the window are computed.
  double window_begins(const Effort& effort) const {
    return (effort.blocks - window_) * period(effort);
  }

  /// From then on until the last batch is there, and tiles leave. Where the ring holds no more than
  /// the window, its buffer is one that was used until then.
  double wait_for_last(const Effort& effort) const {
    const double arrival = (effort.blocks - first_) * std::max(effort.upload, effort.gather);
    const double reuse = reused_ && free_ == 0 ? effort.upload + effort.gather : 0;
    return std::max({0.0, arrival - window_begins(effort), reuse});
  }

  /// Seconds of computing behind the last batch's arrival. Others of the window are multiplied
  /// while it comes.
  double left_of_window(const Effort& effort) const {
    const double meanwhile = std::max(0.0, wait_for_last(effort) - effort.blocking);
    return std::max(effort.compute, window_ * effort.compute - meanwhile);
  }

  /// What of the drain lies beside neither the window nor the next super-tile's first batch (or its
  /// window, if that is all of it), which compute tile by tile: for that the next one waits.
  double separate_drain(const Effort& effort) const {
    const double next = window_ < effort.blocks ? 1 : window_;
    return std::max(0.0, effort.drain - left_of_window(effort) - next * effort.compute);
  }

  /// While a window computes, only the rest of the ring is filled; where filling it takes longest,
  /// that stands still then. Where there is no rest, the next super-tile's first batch comes late.
  double stall(const Effort& effort) const {
    const double fill = std::max(effort.upload, effort.gather);
    if (!reused_) return 0;
    if (fill < effort.compute) return free_ == 0 ? begin(effort) : 0;
    return std::max(0.0, left_of_window(effort) - free_ * fill);
  }

  double ring_;    ///< batches
  double window_;  ///< whole blocks
  double first_;   ///< how deep the first block is, in whole ones
  bool reused_;
  double free_;  ///< batches of the ring beside the window
};

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
  if (possible.empty()) refuse(problem, need);
  std::ranges::move(impossible, std::back_inserter(choices.considered));
  const bool fastest_split = keep_one_split(possible);
  const auto seconds = [](const Choice& each) { return each.prediction.seconds; };
  const auto fastest = std::ranges::min_element(possible, {}, seconds);
  const bool rows_do = possible.front().decomposition == Decomposition::rows &&
                       seconds(possible.front()) <= as_good * seconds(*fastest);
  choices.chosen = rows_do ? possible.front() : *fastest;
  shorten(choices.considered, *choices.chosen);
  const Decomposition requested = problem.decomposition;
  if (problem.box) {
    choices.why = "as product.box asks for";
  } else if (requested == Decomposition::split_k && problem.ranks == 1) {
    choices.why = "one rank has all of K, so that split-k has nothing to share";
  } else if (requested != Decomposition::automatic) {
    choices.why = "as product.decomposition asks for";
  } else if (possible.size() == 1) {
    choices.why = problem.ranks == 1 ? "one rank has all rows" : "auto considers nothing else here";
  } else if (rows_do && fastest != possible.begin()) {
    choices.why =
        fmt::format("the simplest, and no more than {:.0f} % slower than {}", (as_good - 1) * 100,
                    words_of(fastest->decomposition, fastest->shape.box));
  } else if (choices.chosen->decomposition == Decomposition::split_k && !fastest_split) {
    choices.why =
        fmt::format("no more than {:.0f} % above the least predicted time, in the smallest layers",
                    (as_good - 1) * 100);
  } else {
    choices.why = "the least predicted time";
  }
  return choices;
}

GemmTimes predict(const Shape& shape, const GemmRates& rates, const std::vector<Pass>& passes,
                  std::uint64_t ring, std::uint64_t window) {
  std::uint64_t super_tiles = 0;
  for (const Pass& pass : passes) super_tiles += pass.count;
  const Schedule schedule(shape, super_tiles, ring, window);
  GemmTimes prediction;
  std::vector<Effort> efforts;
  for (const Pass& pass : passes) {
    const Effort effort = effort_of(shape, rates, pass);
    const double count = real(pass.count);
    prediction.compute_seconds += count * effort.blocks * effort.compute;
    prediction.upload_seconds += count * effort.blocks * effort.upload;
    prediction.gather_seconds += count * effort.blocks * effort.gather;
    prediction.exchange_seconds += count * effort.exchange;
    prediction.drain_seconds += count * effort.drain;
    prediction.seconds += count * schedule.step(effort);
    efforts.push_back(effort);
  }
  if (shape.problem.reads_c) {
    const std::uint64_t rows =
        std::min(product({shape.max_rows, shape.problem.tile.m}), shape.problem.m);
    const std::uint64_t columns =
        std::min(product({shape.max_columns, shape.problem.tile.n}), shape.problem.n);
    prediction.upload_seconds +=
        real(product({rows, columns, shape.c_element}) / shape.box.depth) / rates.link_up;
  }
  const Effort first = effort_of(shape, rates, passes.front());
  const Effort last = effort_of(shape, rates, passes.back());
  prediction.seconds += schedule.begin(first) - schedule.step(last) + schedule.last(last);
  if (passes.back().has_b) prediction.seconds = schedule.keeping(efforts);
  return prediction;
}

std::uint64_t max_window(const Shape& shape, std::uint64_t ring) {
  if (shape.box.depth > 1) return 1;
  return std::min(shape.blocks / shape.segments, ring);  // of the shortest segment
}

}  // namespace shardstream::workloads
