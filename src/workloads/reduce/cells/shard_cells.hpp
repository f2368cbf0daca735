// One rank's pass over its shard: the kernels that add batches to the accumulators of cells, and
// fold units into the nodes of a tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/shard.hpp"
#include "kernels/cells/cells.hpp"

#include "runtime/runtime.hpp"
#include "workloads/reduce/cells/launches.hpp"
#include "workloads/reduce/cells/schedule.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

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

/// A single unit of a host has memory for its own groups. Other units have accumulators of all.
inline UnitGroups unit_groups_of(const device::Device& device, std::uint64_t slots) {
  return device.info().backend == "host" && slots == 1 ? UnitGroups::own : UnitGroups::all;
}

template <class T>
class ShardCells {
 public:
  /// `layout` is that of the plan, with pointers to device memory. Everything must outlive it.
  ShardCells(const stream::ShardContext& context, const CellPlan& plan, const cells::Layout& layout,
             const cells::Choice& choice, const SampledBoxes& samples, cells::CellRange pass,
             std::uint64_t slots)
      : context_(context),
        layout_(layout),
        choice_(of_lanes(choice)),
        schedule_(plan, context.shard, pass, slots, unit_groups_of(*context.runtime.device, slots)),
        samples_(samples),
        sample_tasks_(layout.axes) {
    append_batches(plan);
    device::Device& device = *context.runtime.device;
    if (are_whole_) joined_lanes_ = joins_of(device, layout).lanes;
    device::Stream& stream = context.feed.compute();
    launches_.emplace(device, stream, schedule_, layout_, choice, slots,
                      max_depth(plan, context.shard));
    tasks_of_samples_ = {device, stream, sample_tasks_};
    allocate_samples(device);
    stream.launch(cells::Kernels<T>::clear(),
                  {.accumulators = sample_accumulators_, .quantities = choice_.quantities});
    stream.synchronize();
  }

  /// Enqueues the kernels for a batch.
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) {
    const auto* const elements = reinterpret_cast<const T*>(batch.data);
    launches_->enqueue(compute, batch.number, elements);
    const cells::TaskSpan& sampled = sampled_[batch.number];
    if (sampled.count == 0) return;
    using Kind = cells::UnitStates::Kind;
    compute.launch(cells::Kernels<T>::accumulate(),
                   {.elements = elements,
                    .tasks = tasks_of_samples_.of(sample_tasks_, sampled),
                    .layout = layout_,
                    .units = {.states = sample_accumulators_,
                              .kind = are_whole_ ? Kind::moments : Kind::accumulators,
                              .cells = samples_.max_cells,
                              .groups = {0, layout_.groups},
                              .joined_lanes = joined_lanes_},
                    .cells = schedule_.cells(),
                    .choice = choice_});
  }

  /// Enqueues the joins of the samples after the last batch.
  void end_pass(device::Stream& compute) {
    const std::uint64_t count = samples_.boxes.size();
    if (count == 0) return;
    compute.launch(cells::Kernels<T>::join(), {.from = sample_accumulators_,
                                               .moments = sample_moments_,
                                               .takes_accumulators = !are_whole_,
                                               .first_unit = 0,
                                               .units = count,
                                               .unit_step = 1,
                                               .unit_slots = count,
                                               .groups = layout_.groups,
                                               .unit_cells = samples_.max_cells,
                                               .unit_parts = layout_.lanes / joined_lanes_,
                                               .parts = layout_.lanes / joined_lanes_,
                                               .step = samples_.max_cells,
                                               .quantities = choice_.quantities});
  }

  /// The moments of the nodes, from left to right, for the cells cells().
  cells::States nodes() const { return launches_->nodes(); }
  const std::vector<cells::FoldNode>& places() const { return schedule_.nodes(); }
  cells::CellRange cells() const { return schedule_.cells(); }
  /// The moments of the samples, in device memory, after end_pass(). That of a cell of sample s is
  /// number (s * groups + group) * max_cells + cell - first cell of the box.
  cells::States samples() const { return sample_moments_; }

 private:
  void append_batches(const CellPlan& plan) {
    for (std::uint64_t b = 0; b < context_.feed.batches(); ++b) {
      const Range batch = context_.feed.batch(b);
      schedule_.append(batch);
      cells::TaskSpan& span = sampled_.emplace_back();
      span.first = sample_tasks_.count();
      for (std::size_t s = 0; s < samples_.boxes.size(); ++s) {
        const CellPlan::Box& box = samples_.boxes[s];
        const Range common = shardstream::intersection(batch, box.elements);
        plan.append(common, batch.first, s, box.cells.first, sample_tasks_, span);
        are_whole_ = are_whole_ && (common.count == 0 || common == box.elements);
      }
      are_whole_ = are_whole_ && span.has_one_block;
    }
    are_whole_ = are_whole_ && cells().count == plan.cells();
  }

  void allocate_samples(device::Device& device) {
    const unsigned words = cells::moment_words<T>(choice_.quantities);
    const std::uint64_t sample = samples_.boxes.size() * layout_.groups * samples_.max_cells;
    sample_accumulators_ = {device, words, sample * layout_.lanes / joined_lanes_};
    sample_moments_ = {device, words, sample};
  }

  const stream::ShardContext& context_;
  const cells::Layout& layout_;
  const cells::Choice choice_;  // of lanes
  CellSchedule schedule_;
  const SampledBoxes& samples_;
  cells::TaskList sample_tasks_;
  std::vector<cells::TaskSpan> sampled_;  // of each batch
  /// Whether each sample is one block of one batch, with all its cells.
  bool are_whole_ = true;
  std::uint64_t joined_lanes_ = 1;
  std::optional<CellLaunches<T>> launches_;
  DeviceTasks tasks_of_samples_;
  DeviceStates sample_accumulators_, sample_moments_;
};

}  // namespace shardstream::workloads
