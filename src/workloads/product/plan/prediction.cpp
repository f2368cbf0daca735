#include "workloads/product/plan/prediction.hpp"

#include <algorithm>

#include "workloads/product/plan/batch_timeline.hpp"
#include "workloads/product/plan/device_work.hpp"
#include "workloads/product/plan/traffic.hpp"

namespace shardstream::workloads::product {
namespace {

/// Writers read what readers write, so that they need about half of a reader's time for a byte.
constexpr double share_of_writers = 0.5;
/// Seconds of a writer for a row of a tile, however short it is; measured.
constexpr double seconds_a_row = 50e-9;

/// Calls of a batch besides those that enqueue kernels: events, and waits for them.
constexpr double other_calls = 12;
/// Calls before the first and after the last batch of a run, with the time in which threads wake up
/// and ranks meet; and those that set the shifts of variables and fetch their sums.
constexpr double calls_of_run = 60, calls_of_variables = 40;

double seconds_of(const DeviceWork& work, const Rates& rates) {
  return work.bytes / rates.device + work.calls * rates.call;
}

Effort effort_of(const Shape& shape, const Rates& rates, const Pass& pass, bool keeps_b) {
  const Problem& problem = shape.problem;
  const gemm::Tile& tile = problem.tile;
  Effort effort;
  effort.upload = real(upload_bytes(shape, pass, tile.k)) / rates.link_up;
  effort.gather = real(gather_bytes(shape, pass, tile.k)) / rates.gather;
  const DeviceWork arrival = arrival_work(shape, pass, tile.k, keeps_b);
  const DeviceWork beside = batch_work(shape, pass, tile.k);
  effort.enqueue =
      (arrival.calls + beside.calls + real(problem.moments.count * pass.tiles) + other_calls) *
      rates.call;
  effort.arrive = arrival.bytes / rates.device;
  effort.compute = 2 * real(problem.moments.count) * real(pass.tiles) * real(tile.m) *
                       real(tile.n) * real(tile.k) / rates.flops +
                   beside.bytes / rates.device;
  effort.finish = seconds_of(tile_work(shape), rates);
  effort.exchange = real(exchange_bytes(shape, pass)) / rates.gather;
  const double bytes = real(shape.result_bytes());
  const double drained = real(ceil_div(pass.drained, shape.box.depth));
  const double rows =
      real(problem.moments.results() * tile.m) * seconds_a_row / real(problem.ranks.writers);
  effort.tile_drain =
      std::max({bytes / rates.link_down, rows, problem.reads_c ? bytes / rates.link_up : 0}) +
      2 * rates.call;  // the tile and its report
  effort.drain = drained * effort.tile_drain;
  effort.write = drained * std::max(share_of_writers * bytes / rates.read, rows);
  effort.tiles = real(ceil_div(pass.tiles, shape.box.depth));
  return effort;
}

/// Super-tiles with the same effort.
struct Group {
  Effort effort;
  std::uint64_t count;
};

/// Replaces all groups but the first ones and the last one by one group of their mean effort.
void shorten(std::vector<Group>& groups) {
  constexpr std::size_t max_groups = 64;
  if (groups.size() <= max_groups) return;
  Group mean{{}, 0};
  for (std::size_t i = max_groups - 2; i + 1 < groups.size(); ++i) mean.count += groups[i].count;
  for (std::size_t i = max_groups - 2; i + 1 < groups.size(); ++i) {
    const double share = real(groups[i].count) / real(mean.count);
    for (double Effort::*const each : efforts) mean.effort.*each += share * groups[i].effort.*each;
  }
  groups[max_groups - 2] = mean;
  groups.erase(groups.begin() + max_groups - 1, groups.end() - 1);
}

/// Bytes of C0 that a rank uploads.
double c_bytes(const Shape& shape) {
  const Problem& problem = shape.problem;
  if (!problem.reads_c) return 0;
  const auto side = [](std::uint64_t tiles, std::uint64_t edge, std::uint64_t all) {
    return std::min(saturating_product({tiles, edge}), all);
  };
  return real(
      saturating_product({side(shape.max_rows, problem.tile.m, problem.m),
                          side(shape.max_columns, problem.tile.n, problem.n), shape.c_element}) /
      shape.box.depth);
}

}  // namespace

TimePrediction predict(const Shape& shape, const Rates& rates, const Cut& cut,
                       const std::vector<Pass>& passes, std::uint64_t ring, std::uint64_t window) {
  const Ranks& ranks = shape.problem.ranks;
  const double blocks = real(shape.max_blocks) - (shape.begins_shallow ? 2 : 0);  // whole ones
  TimePrediction prediction;
  std::vector<Group> groups;
  double drained = 0;  // bytes
  for (const Pass& pass : passes) {
    const Effort effort = effort_of(shape, rates, pass, cut.keeps_b && !pass.has_b);
    const double count = real(pass.count);
    prediction.compute_seconds +=
        count * (blocks * (effort.arrive + effort.compute) + effort.tiles * effort.finish);
    prediction.upload_seconds += count * blocks * effort.upload;
    prediction.gather_seconds += count * blocks * effort.gather;
    prediction.exchange_seconds += count * effort.exchange;
    prediction.drain_seconds += count * effort.drain;
    prediction.call_seconds += count * real(shape.max_blocks) * effort.enqueue;
    drained += count * real(pass.drained) * real(shape.result_bytes()) / real(shape.box.depth);
    if (groups.empty() || !(groups.back().effort == effort)) groups.push_back({effort, 0});
    groups.back().count += pass.count;
  }
  shorten(groups);
  const double uploaded = prediction.upload_seconds * rates.link_up;
  Timeline timeline(
      {.blocks = shape.max_blocks,
       .begins_shallow = shape.begins_shallow,
       .ring = ring,
       .window = window,
       .first_read = std::min(real(ranks.read_bytes), uploaded) / rates.read,
       .last_write = share_of_writers * std::min(real(ranks.written_bytes), drained) / rates.read,
       .keeps_b = cut.keeps_b,
       .gathers_block = rates.gathers_block,
       .splits_k = shape.box.depth > 1});
  for (const Group& group : groups) timeline.add(group.effort, group.count);
  prediction.upload_seconds += c_bytes(shape) / rates.link_up;
  const double calls = calls_of_run + (shape.problem.sums_variables ? calls_of_variables : 0);
  prediction.call_seconds += calls * rates.call;
  prediction.seconds = timeline.end() + calls * rates.call;
  return prediction;
}

std::uint64_t max_window(const Shape& shape, std::uint64_t ring) {
  if (shape.box.depth > 1) return 1;
  return std::min(shape.blocks / shape.segments, ring);  // of the shortest segment
}

std::vector<std::pair<std::string_view, double>> TimePrediction::limits() const {
  std::vector<std::pair<std::string_view, double>> limits = {
      {"computing", compute_seconds}, {"uploads", upload_seconds}, {"all-gathers", gather_seconds},
      {"exchange", exchange_seconds}, {"download", drain_seconds}, {"calls", call_seconds}};
  std::erase_if(limits, [](const auto& limit) { return !(limit.second > 0); });
  return limits;
}

std::string_view TimePrediction::bound_by() const {
  const auto all = limits();
  const auto longest =
      std::ranges::max_element(all, {}, [](const auto& each) { return each.second; });
  return longest == all.end() ? "calls" : longest->first;
}

}  // namespace shardstream::workloads::product
