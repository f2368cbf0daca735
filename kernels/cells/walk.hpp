// Which elements of a block belong to one accumulator, and in which order. Both backends use it.
#pragma once

#include <cstdint>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/tasks.hpp"

namespace shardstream::cells {

/// Takes the lane and the group of a reduced axis from the number of an item.
constexpr void take_parts(const Layout& layout, unsigned axis, std::uint64_t& number,
                          std::uint64_t& lane, std::uint64_t& group) {
  if (axis == layout.lane_axis) {
    lane = number % layout.lanes;
    number /= layout.lanes;
  }
  if (axis == layout.group_axis) {
    group = number % layout.groups;
    number /= layout.groups;
  }
}

/// One accumulator of a task: its indices along kept axes, its lane and its group.
struct Item {
  std::uint64_t index[max_axes];
  std::uint64_t lane = 0, group = 0;
  std::uint64_t cell = 0;  ///< its number in the whole array

  /// The item's number follows the order of memory, with the lane and the group in the places of
  /// their axes.
  constexpr Item(const Layout& layout, const Task& task, std::uint64_t number) {
    for (unsigned a = layout.axes; a-- > 0;) {
      index[a] = 0;
      if (layout.axis[a].is_kept) {
        const std::uint64_t count = task.extent.count(a);
        index[a] = task.extent.first(a) + number % count;
        number /= count;
        cell += index[a] * layout.axis[a].cell_step;
      } else {
        take_parts(layout, a, number, lane, group);
      }
    }
  }
};

/// The indices along a reduced axis that belong to an item: first, first + step, ..., as positions
/// in `list` if there is one.
struct Steps {
  std::uint64_t first = 0, step = 1, count = 0;
  const std::uint64_t* list = nullptr;

  constexpr std::uint64_t operator[](std::uint64_t i) const {
    const std::uint64_t at = first + i * step;
    return list == nullptr ? at : list[at];
  }
};

/// The multiples of `lanes`, a power of two, plus `lane`, from `begin` to `end`.
constexpr Steps every(std::uint64_t begin, std::uint64_t end, std::uint64_t lanes,
                      std::uint64_t lane) {
  const std::uint64_t first = begin + ((lane - begin) & (lanes - 1));
  return {first, lanes, first < end ? (end - first + lanes - 1) / lanes : 0, nullptr};
}

/// The first position in [begin, end) of an ascending list with a value of at least `value`.
constexpr std::uint64_t lower_bound(const std::uint64_t* list, std::uint64_t begin,
                                    std::uint64_t end, std::uint64_t value) {
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (list[middle] < value) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

/// The indices of an item from `first` on, `count` indices of a reduced axis. Lanes with runs are
/// not considered.
template <class AnyItem>
constexpr Steps steps_of(const Layout& layout, unsigned axis, const AnyItem& item,
                         std::uint64_t first, std::uint64_t count) {
  const bool has_lanes = axis == layout.lane_axis && layout.run() == 1;
  const std::uint64_t lanes = has_lanes ? layout.lanes : 1, lane = has_lanes ? item.lane : 0;
  if (axis != layout.group_axis) return every(first, first + count, lanes, lane);
  const std::uint64_t base = layout.first_step[item.group];
  const std::uint64_t last = layout.first_step[item.group + 1];
  const std::uint64_t* const list = layout.steps + base;
  const std::uint64_t begin = lower_bound(list, 0, last - base, first);
  const std::uint64_t end = lower_bound(list, begin, last - base, first + count);
  Steps steps = every(begin, end, lanes, lane);
  steps.list = list;
  return steps;
}

/// A sum of an index and its steps: the position of an element in the batch, its number within the
/// cell, and its weight's position.
struct ElementPosition {
  std::uint64_t element = 0, value = 0, weight = 0;

  constexpr ElementPosition plus(const ElementPosition& step, std::uint64_t index) const {
    return {element + index * step.element, value + index * step.value,
            weight + index * step.weight};
  }
};

/// Elements of a block along one reduced axis.
struct Column {
  ElementPosition place;                           ///< of index 0; its element: of inner_first
  std::uint64_t inner_first = 0, inner_count = 0;  ///< of the block
  ElementPosition inner_step;

  /// The place of an index.
  constexpr ElementPosition at(std::uint64_t index) const {
    return {place.element + (index - inner_first) * inner_step.element,
            place.value + index * inner_step.value, place.weight + index * inner_step.weight};
  }
};

/// An item of a task with one block, if there is one reduced axis: the same as Item and Walk, with
/// fewer registers.
struct ColumnItem {
  std::uint64_t lane = 0, group = 0, cell = 0;
  bool is_in_block = true;  ///< otherwise there is no column
  unsigned axis = no_axis;  ///< the reduced one
  Column column;

  constexpr ColumnItem(const Layout& layout, const Task& task, const Block& block,
                       std::uint64_t number) {
    const Extent extent = block.extent();
    column.place.element = block.first_element();
    std::uint64_t stride = 1;
    for (unsigned a = layout.axes; a-- > 0;) {
      const Axis& each = layout.axis[a];
      const std::uint64_t first = extent.first(a), count = extent.count(a);
      if (each.is_kept) {
        const std::uint64_t of_task = task.extent.count(a);
        const std::uint64_t index = task.extent.first(a) + number % of_task;
        number /= of_task;
        cell += index * each.cell_step;
        is_in_block = is_in_block && index - first < count;
        column.place.element += (index - first) * stride;
        column.place.weight += index * each.weight_step;
      } else {
        take_parts(layout, a, number, lane, group);
        axis = a;
        column.inner_first = first;
        column.inner_count = count;
        column.inner_step = {stride, each.value_step, each.weight_step};
      }
      stride *= count;
    }
  }
};

/// The elements of a block that belong to an item. The innermost reduced axis is left to the
/// caller; next() goes through the others in the order of storage.
class Walk : public Column {
 public:
  /// Whether the block has the cell, and elements of the lane and the group. Otherwise the object
  /// must not be used.
  constexpr bool begin(const Layout& layout, const Block& block, const Item& item) {
    const Extent extent = block.extent();
    outer_ = 0;
    innermost = no_axis;
    place = {block.first_element(), 0, 0};
    std::uint64_t stride = 1;
    for (unsigned a = layout.axes; a-- > 0;) {
      const Axis& axis = layout.axis[a];
      const std::uint64_t first = extent.first(a), count = extent.count(a);
      if (axis.is_kept) {
        const std::uint64_t offset = item.index[a] - first;
        if (offset >= count) return false;
        place.element += offset * stride;
        place.weight += item.index[a] * axis.weight_step;
      } else if (innermost == no_axis) {
        innermost = a;
        inner_first = first;
        inner_count = count;
        inner_step = {stride, axis.value_step, axis.weight_step};
      } else {
        Outer& outer = outer_axes_[outer_++];
        outer.steps = steps_of(layout, a, item, first, count);
        if (outer.steps.count == 0) return false;
        outer.step = {stride, axis.value_step, axis.weight_step};
        outer.first = first;
        outer.at = 0;
        add(outer);
      }
      stride *= count;
    }
    return true;
  }
  /// Goes to the next combination of outer indices. Returns whether there is one.
  constexpr bool next() {
    for (unsigned o = 0; o < outer_; ++o) {
      Outer& outer = outer_axes_[o];
      remove(outer);
      outer.at = outer.at + 1 < outer.steps.count ? outer.at + 1 : 0;
      add(outer);
      if (outer.at > 0) return true;
    }
    return false;
  }

  unsigned innermost = no_axis;  ///< reduced axis

 private:
  struct Outer {
    Steps steps;
    ElementPosition step;
    std::uint64_t first, at;
  };
  constexpr void add(const Outer& outer) {
    const std::uint64_t index = outer.steps[outer.at];
    place.element += (index - outer.first) * outer.step.element;
    place.value += index * outer.step.value;
    place.weight += index * outer.step.weight;
  }
  constexpr void remove(const Outer& outer) {
    const std::uint64_t index = outer.steps[outer.at];
    place.element -= (index - outer.first) * outer.step.element;
    place.value -= index * outer.step.value;
    place.weight -= index * outer.step.weight;
  }

  Outer outer_axes_[max_axes - 1];  // from the innermost to the outermost
  unsigned outer_ = 0;
};

}  // namespace shardstream::cells
