// The kernels of the rounds of a schedule, with the memory that they need.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "kernels/cells/cells.hpp"

#include "workloads/reduce/cells/schedule.hpp"

namespace shardstream::workloads {

/// Arrays of `values` accumulators or moments in device memory, which kernels are the first to
/// touch.
class DeviceStates {
 public:
  DeviceStates() = default;
  DeviceStates(device::Device& device, unsigned words, std::uint64_t values)
      : words_(device, device::Memory::untouched, words * values), values_(values) {}
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

/// Blocks and tasks in device memory.
class DeviceTasks {
 public:
  DeviceTasks() = default;
  /// Blocks until they are there.
  DeviceTasks(device::Device& device, device::Stream& stream, const cells::TaskList& tasks)
      : blocks_(uploaded(device, stream, tasks.block_words())),
        tasks_(uploaded(device, stream, tasks.task_words())),
        dense_(uploaded(device, stream, tasks.dense())) {}

  /// Some tasks of the list, of which this has a copy.
  cells::Tasks of(const cells::TaskList& list, const cells::TaskSpan& span) const {
    return list.in_memory(span, blocks_.data(), tasks_.data(), dense_.data());
  }

 private:
  device::Buffer<std::uint64_t> blocks_, tasks_;
  device::Buffer<cells::DenseTask> dense_;
};

/// The choice for lanes, which do not have units.
inline cells::Choice of_lanes(cells::Choice choice) {
  choice.quantities = choice.quantities.without(cells::Quantity::units);
  return choice;
}

/// The neighbouring lanes or units that a kernel joins.
struct Joins {
  std::uint64_t lanes = 1, units = 1;
};

/// The most of them, if tasks are whole and have one block.
inline Joins joins_of(const device::Device& device, const cells::Layout& layout) {
  const bool is_host = device.info().backend == "host";
  const std::uint64_t lanes = is_host ? cells::max_host_joined_lanes : cells::max_joined_lanes;
  if (!layout.has_one_column()) return {};
  if (layout.run() > 1) return {.lanes = std::min(layout.lanes, lanes)};
  if (is_host) return {};
  return {.units = layout.lanes == 1 && !layout.by_rows ? cells::max_joined_units : 1};
}

/// Adds the batches of a schedule to accumulators, and folds ended units into nodes.
template <class T>
class CellLaunches {
 public:
  /// `schedule` has all batches. It and `layout`, with pointers to device memory, must outlive the
  /// object. `depth`: the maximum number of nodes.
  CellLaunches(device::Device& device, device::Stream& stream, const CellSchedule& schedule,
               const cells::Layout& layout, const cells::Choice& choice, std::uint64_t slots,
               std::uint64_t depth)
      : schedule_(schedule),
        layout_(layout),
        choice_(of_lanes(choice)),
        quantities_(choice.quantities),
        slots_(slots) {
    if (schedule.is_whole() && schedule.has_one_block()) {
      joins_ = joins_of(device, layout);
    }
    writes_cells_ = schedule.is_whole() && !joins_lanes() && makes_each_cell_once();
    tasks_ = {device, stream, schedule.tasks()};
    upload_items(device, stream);
    const unsigned words = cells::moment_words<T>(quantities_);
    const std::uint64_t unit = slots * schedule.max_unit_groups() * schedule.max_unit_cells();
    accumulators_ = {device, cells::moment_words<T>(choice_.quantities),
                     writes_cells_ ? 0 : unit * unit_parts()};
    unit_moments_ = {device, words, joins_lanes() ? unit : 0};
    nodes_ = {device, words, depth * layout.groups * schedule.cells().count};
    const bool joins = joins_lanes() || slots > 1;
    if (writes_cells_ || (schedule.is_whole() && !joins)) return;
    stream.launch(cells::Kernels<T>::clear(),
                  {.accumulators = accumulators_, .quantities = choice_.quantities});
  }

  /// Enqueues the kernels of a batch, which has `elements` in device memory.
  void enqueue(device::Stream& stream, std::uint64_t batch, const T* elements) {
    for (const CellSchedule::Round& round : schedule_.rounds(batch)) {
      accumulate(stream, round, elements);
      if (round.ended.count > 0 && !writes_cells_) end_units(stream, round);
    }
  }
  /// The moments of the nodes, from left to right, for the cells of the schedule.
  cells::States nodes() const { return nodes_; }

 private:
  /// Accumulators of a cell of a unit and a group in memory.
  std::uint64_t unit_parts() const { return layout_.lanes / joins_.lanes; }
  /// Whether the moments of units are made from them by a kernel of their own.
  bool joins_lanes() const { return unit_parts() > 1 || marks_units(); }
  bool marks_units() const { return quantities_.has(cells::Quantity::units); }
  std::uint64_t joined_units_of(const CellSchedule::Round& round) const {
    if (!round.has_one_task_each) return 1;
    return std::min(joins_.units, std::uint64_t{1} << round.level);
  }

  /// Whether all units form one node, and each of its cells is in one unit, or in units that a
  /// block of threads joins. The node then needs no fold.
  bool makes_each_cell_once() const {
    if (schedule_.nodes().size() != 1) return false;
    if (schedule_.units() == 1) return true;
    const CellSchedule::Round& first = schedule_.rounds(0).front();
    if (first.ended.count == schedule_.units() && joined_units_of(first) == schedule_.units()) {
      return true;
    }
    const std::vector<cells::OutputRange>& units = schedule_.unit_outputs();
    for (std::size_t u = 1; u < units.size(); ++u) {
      const cells::CellRange& before = units[u - 1].cells;
      if (units[u].cells.first != before.first + before.count) return false;
    }
    return true;
  }

  void accumulate(device::Stream& stream, const CellSchedule::Round& round, const T* elements) {
    if (round.tasks.count == 0) return;
    using Kind = cells::UnitStates::Kind;
    const Kind kind = writes_cells_          ? Kind::outputs
                      : schedule_.is_whole() ? Kind::moments
                                             : Kind::accumulators;
    stream.launch(cells::Kernels<T>::accumulate(),
                  {.elements = elements,
                   .tasks = tasks_.of(schedule_.tasks(), round.tasks),
                   .layout = layout_,
                   .units = {.states = writes_cells_ ? nodes_ : accumulators_,
                             .kind = kind,
                             .cells = schedule_.max_unit_cells(),
                             .groups = round.groups,
                             .joined_lanes = joins_.lanes,
                             .joined_units = joined_units_of(round)},
                   .cells = schedule_.cells(),
                   .choice = choice_});
  }

  /// The items that rounds fold: subtrees, or else units.
  void upload_items(device::Device& device, device::Stream& stream) {
    std::vector<cells::Node> places = schedule_.trees();
    if (places.empty()) {
      for (std::uint64_t i = 0; i < schedule_.units(); ++i) {
        places.push_back({schedule_.first_unit() + i, 0});
      }
    }
    std::vector<std::uint64_t> slots;
    std::vector<cells::OutputRange> outputs;
    for (const cells::Node& place : places) {
      slots.push_back(place.first % slots_);
      outputs.push_back(schedule_.unit_outputs()[place.first - schedule_.first_unit()]);
    }
    item_places_ = uploaded(device, stream, places);
    item_slots_ = uploaded(device, stream, slots);
    item_outputs_ = uploaded(device, stream, outputs);
  }

  void end_units(device::Stream& stream, const CellSchedule::Round& round) {
    const bool are_moments = joins_lanes() || schedule_.is_whole();
    const cells::States items = joins_lanes() ? unit_moments_ : accumulators_;
    const unsigned level = are_moments ? round.level : 0;
    if (joins_lanes()) join_lanes(stream, round);
    if (round.trees.count > 0) {
      join_trees(stream, round, items);
    } else {
      const auto joined = static_cast<unsigned>(std::countr_zero(joined_units_of(round)));
      join_units(stream, round.ended, joined, level, items);
    }
    const Range folded = round.trees.count > 0
                             ? round.trees
                             : Range{round.ended.first - schedule_.first_unit(), round.ended.count};
    cells::FoldArgs<T> fold{
        .nodes = {.states = nodes_, .cells = schedule_.cells(), .groups = layout_.groups},
        .outputs = round.folded,
        .stack = {.kept = round.kept, .depth = round.depth},
        .items = {.states = items,
                  .are_accumulators = !are_moments,
                  .first = folded.first,
                  .count = folded.count,
                  .cells = schedule_.max_unit_cells(),
                  .groups = schedule_.max_unit_groups(),
                  .places = item_places_.data(),
                  .outputs = item_outputs_.data(),
                  .slots = item_slots_.data(),
                  .joined_level = level},
        .quantities = quantities_};
    std::ranges::copy(round.stack, fold.stack.nodes + round.kept);
    stream.launch(cells::Kernels<T>::fold(), fold);
  }

  cells::JoinArgs<T> join_args(Range units, const cells::States& from,
                               const cells::States& moments) const {
    return {.from = from,
            .moments = moments,
            .takes_accumulators = false,
            .first_unit = units.first,
            .units = units.count,
            .unit_step = 1,
            .unit_slots = slots_,
            .groups = schedule_.max_unit_groups(),
            .unit_cells = schedule_.max_unit_cells(),
            .unit_parts = 1,
            .parts = unit_parts(),
            .step = schedule_.max_unit_cells(),
            .quantities = choice_.quantities};
  }
  void join_lanes(device::Stream& stream, const CellSchedule::Round& round) {
    auto args = join_args(round.ended, accumulators_, unit_moments_);
    args.takes_accumulators = !schedule_.is_whole();
    args.unit_parts = unit_parts();
    args.marks_units = marks_units();
    stream.launch(cells::Kernels<T>::join(), args);
  }
  /// The levels that a launch joins.
  static constexpr unsigned max_join_levels = 8;
  /// Joins subtrees of 2^from units to subtrees of 2^to units, a few levels at a time.
  void join_units(device::Stream& stream, Range units, unsigned from, unsigned to,
                  const cells::States& items) {
    for (unsigned done = from, next; done < to; done = next) {
      next = std::min(to, done + max_join_levels);
      auto args = join_args(units, items, items);
      args.unit_step = std::uint64_t{1} << next;
      args.units = units.count >> next;
      args.parts = std::uint64_t{1} << (next - done);
      args.step = (std::uint64_t{1} << done) * args.groups * args.unit_cells;
      args.quantities = quantities_;
      stream.launch(cells::Kernels<T>::join(), args);
    }
  }
  /// Joins the units of each subtree. The first levels of the large ones, which are neighbours, are
  /// joined together.
  void join_trees(device::Stream& stream, const CellSchedule::Round& round,
                  const cells::States& items) {
    Range large{0, 0};
    const auto for_trees = [&](const auto& use) {
      for (std::uint64_t i = round.trees.first; i < round.trees.end(); ++i) {
        const cells::Node& tree = schedule_.trees()[i];
        use(Range{tree.first, std::uint64_t{1} << tree.level}, static_cast<unsigned>(tree.level));
      }
    };
    for_trees([&](Range units, unsigned level) {
      if (level <= max_join_levels) return;
      if (large.count == 0) large.first = units.first;
      large.count = units.end() - large.first;
    });
    if (large.count > 0) join_units(stream, large, 0, max_join_levels, items);
    for_trees([&](Range units, unsigned level) {
      join_units(stream, units, level > max_join_levels ? max_join_levels : 0, level, items);
    });
  }

  const CellSchedule& schedule_;
  const cells::Layout& layout_;
  const cells::Choice choice_;          // of lanes
  const cells::Quantities quantities_;  // of units
  const std::uint64_t slots_;
  Joins joins_;
  bool writes_cells_ = false;
  DeviceTasks tasks_;
  device::Buffer<std::uint64_t> item_slots_;
  device::Buffer<cells::Node> item_places_;
  device::Buffer<cells::OutputRange> item_outputs_;
  DeviceStates accumulators_, unit_moments_, nodes_;
};

}  // namespace shardstream::workloads
