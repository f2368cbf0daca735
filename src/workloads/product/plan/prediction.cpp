#include "workloads/product/plan/prediction.hpp"

#include <algorithm>

#include "workloads/product/plan/traffic.hpp"

namespace shardstream::workloads::product {
namespace {

double real(std::uint64_t number) {
  return static_cast<double>(number);
}

/// Seconds of one super-tile; `upload`, `gather` and `compute` are those of one of its batches with
/// a whole block.
struct Effort {
  double upload = 0, gather = 0, compute = 0;
  double drain = 0, tile_drain = 0, exchange = 0;
  double late_gather = 0;  ///< gathers that wait for the exchange of the super-tile before
  double blocking = 0;     ///< gathers during which nothing is enqueued
  double blocks = 0, tiles = 0;
};

Effort effort_of(const Shape& shape, const Rates& rates, const Pass& pass) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  Effort effort;
  effort.blocks = real(shape.max_blocks) - (shape.begins_shallow ? 2 : 0);  // whole ones
  effort.tiles = real(pass.tiles);
  effort.upload = real(upload_bytes(shape, pass, tile.k)) / rates.link_up;
  effort.gather = real(gather_bytes(shape, pass, tile.k)) / rates.gather;
  effort.exchange = real(exchange_bytes(shape, pass)) / rates.gather;
  effort.late_gather = shape.box.depth > 1 ? effort.gather : 0;
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
class Timeline {
 public:
  Timeline(const Shape& shape, std::uint64_t super_tiles, std::uint64_t ring, std::uint64_t window)
      : ring_(real(ring)),
        window_(real(depth_of_last(shape, window)) / real(shape.problem.tile.k)),
        first_(shape.begins_shallow ? 0.25 : 1),
        reused_(saturating_product({super_tiles, shape.max_blocks}) > ring),
        free_(real(ring - window)) {}

  /// Until the first batch has arrived.
  double begin(const Effort& effort) const { return first_ * (effort.upload + effort.gather); }

  /// From one batch to the next. In a ring that is reused a buffer goes through all three in turn.
  double period(const Effort& effort) const {
    const double slowest = std::max({effort.upload, effort.gather, effort.compute});
    if (!reused_) return slowest;
    return std::max(slowest, (effort.upload + effort.gather + effort.compute) / ring_);
  }

  /// From one super-tile to the next. Readers copy the next panels while writers take tiles away;
  /// they share the rank's CPUs and host memory.
  double step(const Effort& effort) const {
    const double steady = effort.blocks * period(effort) + effort.exchange + effort.late_gather;
    return std::max(steady + separate_drain(effort) + stall(effort),
                    effort.blocks * effort.upload + effort.drain);
  }

  /// The last super-tile, with the drain of its tiles.
  double last(const Effort& effort) const {
    const double rest = rest_of_window(effort);
    const double overlapped = effort.tiles > 0 ? rest * (effort.tiles - 1) / effort.tiles : 0;
    return window_begins(effort) + wait_for_last(effort) + rest + effort.exchange +
           std::max(effort.tile_drain, effort.drain - overlapped);
  }

  /// All super-tiles if B is kept: each has its own accumulators, only the first one uploads B, and
  /// the panels of one arrive while the tiles of the one before leave.
  double keeping(const std::vector<Effort>& efforts) const {
    // Readers and writers share the host's memory, so uploads and downloads slow each other down.
    constexpr double share_of_both = 0.65;
    double uploaded = 0, computed = begin(efforts.front()), drained = 0, both = 0;
    for (const Effort& effort : efforts) {
      uploaded += effort.blocks * std::max(effort.upload, effort.gather);
      both += effort.blocks * effort.upload + effort.drain;
      computed = std::max(computed + effort.blocks * effort.compute, uploaded + effort.compute) +
                 effort.blocking;
      const double rest = std::min(window_, effort.blocks) * effort.compute;
      const double overlapped = effort.tiles > 0 ? rest * (effort.tiles - 1) / effort.tiles : 0;
      drained = std::max(std::max(drained, computed - overlapped) + effort.drain,
                         computed + effort.tile_drain);
    }
    return std::max(drained, share_of_both * both);
  }

 private:
  /// The time at which the batches before the window have been computed.
  double window_begins(const Effort& effort) const {
    return (effort.blocks - window_) * period(effort);
  }

  /// From then until the last batch has arrived, after which tiles leave. If the ring has no
  /// buffers besides the window's, the last batch needs a buffer that was used until then.
  double wait_for_last(const Effort& effort) const {
    const double arrival = (effort.blocks - first_) * std::max(effort.upload, effort.gather);
    const double reuse = reused_ && free_ == 0 ? effort.upload + effort.gather : 0;
    return std::max({0.0, arrival - window_begins(effort), reuse});
  }

  /// Seconds of computing after the last batch has arrived. The window's other batches are
  /// multiplied until then.
  double rest_of_window(const Effort& effort) const {
    const double meanwhile = std::max(0.0, wait_for_last(effort) - effort.blocking);
    return std::max(effort.compute, window_ * effort.compute - meanwhile);
  }

  /// The part of the drain that overlaps neither with the window nor with the next super-tile's
  /// first batch (or its window, if that is all of it), which are computed tile by tile. The next
  /// super-tile waits for this part.
  double separate_drain(const Effort& effort) const {
    const double next = window_ < effort.blocks ? 1 : window_;
    return std::max(0.0, effort.drain - rest_of_window(effort) - next * effort.compute);
  }

  /// While a window is computed, only the rest of the ring is filled. If filling is the slowest
  /// stage, it stalls once the rest is full. If there is no rest, the first batch of the next
  /// super-tile is late.
  double stall(const Effort& effort) const {
    const double fill = std::max(effort.upload, effort.gather);
    if (!reused_) return 0;
    if (fill < effort.compute) return free_ == 0 ? begin(effort) : 0;
    return std::max(0.0, rest_of_window(effort) - free_ * fill);
  }

  double ring_;    ///< batches
  double window_;  ///< whole blocks
  double first_;   ///< how deep the first block is, in whole ones
  bool reused_;
  double free_;  ///< batches of the ring besides the window
};

}  // namespace

TimePrediction predict(const Shape& shape, const Rates& rates, const std::vector<Pass>& passes,
                       std::uint64_t ring, std::uint64_t window) {
  std::uint64_t super_tiles = 0;
  for (const Pass& pass : passes) super_tiles += pass.count;
  const Timeline timeline(shape, super_tiles, ring, window);
  TimePrediction prediction;
  std::vector<Effort> efforts;
  for (const Pass& pass : passes) {
    const Effort effort = effort_of(shape, rates, pass);
    const double count = real(pass.count);
    prediction.compute_seconds += count * effort.blocks * effort.compute;
    prediction.upload_seconds += count * effort.blocks * effort.upload;
    prediction.gather_seconds += count * effort.blocks * effort.gather;
    prediction.exchange_seconds += count * effort.exchange;
    prediction.drain_seconds += count * effort.drain;
    prediction.seconds += count * timeline.step(effort);
    efforts.push_back(effort);
  }
  if (shape.problem.reads_c) {
    const std::uint64_t rows =
        std::min(saturating_product({shape.max_rows, shape.problem.tile.m}), shape.problem.m);
    const std::uint64_t columns =
        std::min(saturating_product({shape.max_columns, shape.problem.tile.n}), shape.problem.n);
    prediction.upload_seconds +=
        real(saturating_product({rows, columns, shape.c_element}) / shape.box.depth) /
        rates.link_up;
  }
  const Effort first = effort_of(shape, rates, passes.front());
  const Effort last = effort_of(shape, rates, passes.back());
  prediction.seconds += timeline.begin(first) - timeline.step(last) + timeline.last(last);
  if (passes.back().has_b) prediction.seconds = timeline.keeping(efforts);
  return prediction;
}

std::uint64_t max_window(const Shape& shape, std::uint64_t ring) {
  if (shape.box.depth > 1) return 1;
  return std::min(shape.blocks / shape.segments, ring);  // of the shortest segment
}

std::string_view TimePrediction::bound_by() const {
  const double longest =
      std::max({compute_seconds, upload_seconds, gather_seconds, exchange_seconds, drain_seconds});
  if (compute_seconds == longest) return "computing";
  if (upload_seconds == longest) return "host link";
  if (gather_seconds == longest) return "all-gathers";
  return exchange_seconds == longest ? "exchange" : "download";
}

}  // namespace shardstream::workloads::product
