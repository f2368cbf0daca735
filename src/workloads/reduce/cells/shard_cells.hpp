// One rank's pass over its shard: the kernels that add batches to the accumulators of cells, and
// fold units into the nodes of a tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "kernels/cells/cells.hpp"
#include "kernels/cells/dispatch.hpp"
#include "runtime/runtime.hpp"
#include "workloads/reduce/cells/schedule.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

/// Arrays of `values` accumulators or moments in device memory.
class DeviceStates {
 public:
  DeviceStates() = default;
  DeviceStates(device::Device& device, unsigned words, std::uint64_t values)
      : words_(device, device::Memory::device, words * values), values_(values) {}
  operator cells::States() const { return {words_.data(), values_}; }

 private:
  device::Buffer<std::uint64_t> words_;
  std::uint64_t values_ = 0;
};

/// Copies values to device memory. Blocks until they are there.
template <class V>
device::Buffer<V> uploaded(device::Device& device, device::Stream& stream,
                           const std::vector<V>& values) {
  device::Buffer<V> buffer(device, device::Memory::device, values.size());
  if (values.empty()) return buffer;
  stream.upload(buffer.data(), values.data(), buffer.bytes());
  stream.synchronize();
  return buffer;
}

/// The sampled boxes of a shard.
struct SampledBoxes {
  std::vector<CellPlan::Box> boxes;
  std::uint64_t max_cells = 0;

  /// Boxes of up to `cells` cells.
  SampledBoxes(const CellPlan& plan, const stream::SampledRanges& samples, std::uint64_t cells) {
    for (const Range& range : samples.ranges()) {
      boxes.push_back(plan.largest_box(range, cells));
      max_cells = std::max(max_cells, boxes.back().cells.count);
    }
  }
};

template <class T>
class ShardCells {
 public:
  /// `layout` is that of the plan, with pointers to device memory. Everything must outlive it.
  ShardCells(const stream::ShardContext& context, const CellPlan& plan, const cells::Layout& layout,
             const cells::Choice& choice, const SampledBoxes& samples, cells::CellRange pass,
             std::uint64_t slots)
      : context_(context),
        layout_(layout),
        choice_(choice),
        slots_(slots),
        schedule_(plan, context.shard, pass, slots),
        max_depth_(max_depth(plan, context.shard)),
        samples_(samples) {
    append_batches(plan);
    device::Device& device = *context.runtime.device;
    device::Stream& stream = context.feed.compute();
    blocks_ = uploaded(device, stream, tasks().blocks);
    tasks_ = uploaded(device, stream, tasks().tasks);
    sample_blocks_ = uploaded(device, stream, sample_tasks_.blocks);
    sample_task_words_ = uploaded(device, stream, sample_tasks_.tasks);
    allocate_states(device);
    upload_units(device, stream);
    clear(stream, accumulators_);
    clear(stream, sample_accumulators_);
    stream.synchronize();
  }

  /// Enqueues the kernels for a batch.
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) {
    auto args = accumulate_args(batch);
    for (const CellSchedule::Round& round : schedule_.rounds(batch.number)) {
      launch(compute, args, tasks_.data(), round.tasks);
      if (round.ended.count > 0) end_units(compute, round);
    }
    args.blocks = sample_blocks_.data();
    args.accumulators = sample_accumulators_;
    args.unit_cells = samples_.max_cells;
    launch(compute, args, sample_task_words_.data(), sampled_[batch.number]);
  }

  /// Enqueues the download of the samples after the last batch.
  void end_pass(device::Stream& compute) {
    const std::uint64_t count = samples_.boxes.size();
    if (count == 0 || downloaded_samples_.size() == 0) return;
    compute.launch(cells::Kernels<T>::join_lanes(), {.accumulators = sample_accumulators_,
                                                     .moments = sample_moments_,
                                                     .first_unit = 0,
                                                     .units = count,
                                                     .unit_slots = count,
                                                     .groups = layout_.groups,
                                                     .lanes = layout_.lanes,
                                                     .unit_cells = samples_.max_cells,
                                                     .set = choice_.set});
    compute.download(downloaded_samples_.data(), cells::States(sample_moments_).words,
                     downloaded_samples_.bytes());
  }

  /// The moments of the nodes, from left to right, for the cells cells().
  cells::States nodes() const { return nodes_; }
  const std::vector<cells::FoldNode>& places() const { return schedule_.nodes(); }
  cells::CellRange cells() const { return schedule_.cells(); }
  /// The moments of the samples, after end_pass() and all work on the stream. That of a cell of
  /// sample s is number (s * groups + group) * max_cells + cell - first cell of the box.
  cells::States samples() const {
    return {downloaded_samples_.data(), cells::States(sample_moments_).values};
  }

 private:
  const CellTasks& tasks() const { return schedule_.tasks(); }

  void append_batches(const CellPlan& plan) {
    for (std::uint64_t b = 0; b < context_.feed.batches(); ++b) {
      const Range batch = context_.feed.batch(b);
      schedule_.append(batch);
      CellTasks::Span& span = sampled_.emplace_back();
      span.first = sample_tasks_.tasks.size();
      for (std::size_t s = 0; s < samples_.boxes.size(); ++s) {
        const CellPlan::Box& box = samples_.boxes[s];
        const Range common = shardstream::intersection(batch, box.elements);
        plan.append(common, batch.first, s, box.cells.first, sample_tasks_, span);
      }
    }
  }

  void allocate_states(device::Device& device) {
    const unsigned words = cells::moment_words<T>(choice_.set);
    const std::uint64_t unit = layout_.groups * schedule_.max_unit_cells();
    const std::uint64_t sample = samples_.boxes.size() * layout_.groups * samples_.max_cells;
    accumulators_ = {device, words, slots_ * unit * layout_.lanes};
    unit_moments_ = {device, words, layout_.lanes > 1 ? slots_ * unit : 0};
    nodes_ = {device, words, max_depth_ * layout_.groups * schedule_.cells().count};
    sample_accumulators_ = {device, words, sample * layout_.lanes};
    sample_moments_ = {device, words, sample};
    downloaded_samples_ = {device, device::Memory::pinned, words * sample};
  }

  void upload_units(device::Device& device, device::Stream& stream) {
    std::vector<cells::Node> places;
    std::vector<std::uint64_t> slots;
    for (std::uint64_t i = 0; i < schedule_.units(); ++i) {
      const std::uint64_t unit = schedule_.first_unit() + i;
      places.push_back({unit, 0});
      slots.push_back(unit % slots_);
    }
    unit_places_ = uploaded(device, stream, places);
    unit_slots_ = uploaded(device, stream, slots);
    unit_cells_ = uploaded(device, stream, schedule_.unit_cells());
  }

  void clear(device::Stream& stream, const DeviceStates& states) {
    stream.launch(cells::Kernels<T>::clear(), {.accumulators = states, .set = choice_.set});
  }

  cells::AccumulateArgs<T> accumulate_args(const pipeline::Batch& batch) const {
    return {.elements = reinterpret_cast<const T*>(batch.data),
            .blocks = blocks_.data(),
            .tasks = nullptr,
            .task_count = 0,
            .max_items = 0,
            .layout = layout_,
            .accumulators = accumulators_,
            .unit_cells = schedule_.max_unit_cells(),
            .cells = schedule_.cells(),
            .choice = choice_};
  }
  static void launch(device::Stream& compute, cells::AccumulateArgs<T>& args,
                     const std::uint64_t* tasks, const CellTasks::Span& span) {
    if (span.count == 0) return;
    args.tasks = tasks + span.first;
    args.task_count = span.count;
    args.max_items = span.max_items;
    compute.launch(cells::Kernels<T>::accumulate(), args);
  }

  void end_units(device::Stream& compute, const CellSchedule::Round& round) {
    const bool has_lanes = layout_.lanes > 1;
    if (has_lanes) {
      compute.launch(cells::Kernels<T>::join_lanes(), {.accumulators = accumulators_,
                                                       .moments = unit_moments_,
                                                       .first_unit = round.ended.first,
                                                       .units = round.ended.count,
                                                       .unit_slots = slots_,
                                                       .groups = layout_.groups,
                                                       .lanes = layout_.lanes,
                                                       .unit_cells = schedule_.max_unit_cells(),
                                                       .set = choice_.set});
    }
    cells::FoldArgs<T> args{.nodes = nodes_,
                            .node_cells = schedule_.cells(),
                            .cells = round.cells,
                            .groups = layout_.groups,
                            .kept = round.kept,
                            .depth = round.depth,
                            .stack = {},
                            .items = has_lanes ? unit_moments_ : accumulators_,
                            .first_item = round.ended.first - schedule_.first_unit(),
                            .item_count = round.ended.count,
                            .item_cells = schedule_.max_unit_cells(),
                            .item_places = unit_places_.data(),
                            .item_ranges = unit_cells_.data(),
                            .item_slots = unit_slots_.data(),
                            .takes_accumulators = !has_lanes,
                            .to_root = false,
                            .roots = {},
                            .set = choice_.set};
    std::ranges::copy(round.stack, args.stack + round.kept);
    compute.launch(cells::Kernels<T>::fold(), args);
  }

  const stream::ShardContext& context_;
  const cells::Layout& layout_;
  const cells::Choice choice_;
  const std::uint64_t slots_;
  CellSchedule schedule_;
  const std::uint64_t max_depth_;
  const SampledBoxes& samples_;
  CellTasks sample_tasks_;
  std::vector<CellTasks::Span> sampled_;  // of each batch
  device::Buffer<std::uint64_t> blocks_, tasks_, sample_blocks_, sample_task_words_, unit_slots_;
  device::Buffer<cells::Node> unit_places_;
  device::Buffer<cells::CellRange> unit_cells_;
  DeviceStates accumulators_, unit_moments_, nodes_, sample_accumulators_, sample_moments_;
  device::Buffer<std::uint64_t> downloaded_samples_;
};

}  // namespace shardstream::workloads
