#include "kernels/cells/cells.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "kernels/cells/add_elements.hpp"
#include "kernels/cells/add_runs.hpp"
#include "kernels/cells/tree.hpp"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells {
namespace {

/// Items whose elements follow one another in memory, `each` of every item. Rows of a task begin
/// with multiples of `items`.
struct ItemRow {
  std::uint64_t items = 1;
  std::uint64_t width = 1;  ///< items of a lane
  unsigned each = 1;
  bool has_lanes = false;  ///< whether a row has all lanes

  /// The cells of a row along the innermost axis, and of all lanes if `joins_lanes` and the task
  /// allows it; or all lanes of a row with runs.
  template <class T>
  ItemRow(const AccumulateArgs<T>& args, const Task& task, bool joins_lanes) {
    const Layout& layout = args.layout;
    const unsigned last = layout.axes - 1;
    if (layout.axis[last].is_kept) {
      width = task.extent.count(last);
      has_lanes = joins_lanes && layout.lane_axis + 1 == last &&
                  layout.group_axis != layout.lane_axis && has_whole_rows(args, task);
    } else if (layout.run() > 1) {
      each = row_run;
      has_lanes = true;
    }
    items = width * (has_lanes ? layout.lanes : 1);
  }

 private:
  /// Whether the rows of all blocks have all cells of the task along the innermost axis, and the
  /// pass has the cells of the task.
  template <class T>
  static bool has_whole_rows(const AccumulateArgs<T>& args, const Task& task) {
    const unsigned axes = args.layout.axes;
    for (std::uint64_t b = task.first_block; b < task.end_block; ++b) {
      if (args.tasks.block(b).extent().count(axes - 1) != task.extent.count(axes - 1)) return false;
    }
    std::uint64_t low = 0, high = 0;
    for (unsigned a = 0; a < axes; ++a) {
      const std::uint64_t first = task.extent.first(a), step = args.layout.axis[a].cell_step;
      low += first * step;
      high += (first + task.extent.count(a) - 1) * step;
    }
    return is_in(args.cells, low) && is_in(args.cells, high);
  }
};

/// The number of element j of a row in its cell, and its weight.
template <class T>
struct RowAt {
  const Neighbours<T>& row;
  std::uint64_t j;
  std::int64_t number() const { return row.number_of(j); }
  double weight() const { return row.weight_of(j); }
};

/// Some items of a row.
template <class T, bool Skips>
class Tile {
 public:
  Tile(const AccumulateArgs<T>& args, const Task& task, const ItemRow& row, std::uint64_t first,
       std::uint64_t count)
      : args_(args),
        row_(row),
        item_(args.layout, task, first),
        column_(first % row.width),
        count_(count),
        items_(args.choice.quantities) {
    number_ = number_of(args, {task.unit, task.first_cell, item_.group, item_.lane, item_.cell});
    if (args_.units.is_whole()) {
      items_.clear(0, count_);
    } else {
      for_lanes([&](std::uint64_t begin, std::uint64_t end, std::uint64_t number) {
        items_.load(begin, end, args_.units.states, number);
      });
    }
  }
  void store() {
    add_waiting();
    if (args_.units.joined_lanes > 1) {
      items_.store_joined(count_, args_.units.joined_lanes, args_.units.states, number_,
                          args_.units.cells);
      return;
    }
    for_lanes([&](std::uint64_t begin, std::uint64_t end, std::uint64_t number) {
      if (args_.units.is_whole()) {
        items_.store_moments(begin, end, args_.units.states, number);
      } else {
        items_.store(begin, end, args_.units.states, number);
      }
    });
  }

  void add(const Block& block) {
    const Layout& layout = args_.layout;
    const unsigned last = layout.axes - 1;
    Item item = item_;
    std::uint64_t begin = 0, end = count_;
    if (layout.axis[last].is_kept && !row_.has_lanes) {
      const std::uint64_t here = item.index[last], first = block.extent().first(last);
      begin = std::max(here, first);
      end = std::min(here + count_, first + block.extent().count(last));
      if (begin >= end) return;
      item.index[last] = begin;
      begin -= here;
      end -= here;
    }
    Walk walk;
    if (!walk.begin(layout, block, item)) return;
    do {
      if (row_.has_lanes) {
        add_lanes(walk);
      } else {
        add_steps(walk, begin, end);
      }
    } while (walk.next());
  }

 private:
  /// Calls use(begin, end, number) for the items of each lane. `number` is that of the first one's
  /// accumulator, and the others follow it.
  template <class Use>
  void for_lanes(const Use& use) const {
    for (std::uint64_t begin = 0, end; begin < count_; begin = end) {
      const std::uint64_t lane = (column_ + begin) / row_.width;
      end = std::min(count_, (lane + 1) * row_.width - column_);
      use(begin, end, number_ + lane * args_.units.cells + begin - lane * row_.width);
    }
  }
  Neighbours<T> at(const ElementPosition& place) const {
    const Axis& last = args_.layout.axis[args_.layout.axes - 1];
    return {args_.elements + place.element, static_cast<std::int64_t>(place.value),
            args_.layout.weights + place.weight, static_cast<std::int64_t>(last.value_step),
            static_cast<std::int64_t>(last.weight_step)};
  }
  Skipped<T, Skips> skipped() const {
    return {args_.choice.skip, static_cast<T>(args_.choice.marker)};
  }

  /// Adds the elements of items [begin, end) of one lane, for each of their steps.
  void add_steps(const Walk& walk, std::uint64_t begin, std::uint64_t end) {
    const Steps steps =
        steps_of(args_.layout, walk.innermost, item_, walk.inner_first, walk.inner_count);
    const auto row = [&](std::uint64_t s) { return at(walk.at(steps[s])); };
    constexpr std::uint64_t few = 4;
    if (end - begin >= few) return add_columns(begin, end, steps.count, row);
    add_waiting();
    for (std::uint64_t i = begin; i < end; ++i) {
      add_to_item(i, [&](const auto& use) {
        for (std::uint64_t s = 0; s < steps.count; ++s) use(row(s), i - begin);
      });
    }
  }
  /// Adds row(0) to row(count - 1), which have an element of each of items [begin, end).
  template <class Row>
  void add_columns(std::uint64_t begin, std::uint64_t end, std::uint64_t count, const Row& row) {
    if (begin != waiting_begin_ || end != waiting_end_) add_waiting();
    waiting_begin_ = begin;
    waiting_end_ = end;
    for (std::uint64_t r = 0; r < count; ++r) {
      waiting_[waiting_rows_++] = row(r);
      if (waiting_rows_ == most_rows) add_waiting();
    }
  }
  /// Adds the rows that wait for others, of the same block or of the next ones.
  void add_waiting() {
    add_elements(items_, waiting_begin_, waiting_end_, waiting_.data(), waiting_rows_, skipped());
    waiting_rows_ = 0;
  }
  /// Adds rows with all lanes. The first and the last one may be parts of rows.
  void add_lanes(const Walk& walk) {
    // Elements are numbered from index 0 of the lane axis on, and `width` of them have an index.
    const std::uint64_t width = row_.width, row = row_.items * row_.each;
    const std::uint64_t low = walk.inner_first * width, high = low + walk.inner_count * width;
    const std::uint64_t first_item = (item_.lane * width + column_) * row_.each;
    const auto first = [&](std::uint64_t r) { return r * row + first_item; };
    const auto element = [&](std::uint64_t number) {
      ElementPosition place = walk.at(number / width);
      place.element += number % width - column_;
      return at(place);
    };
    const auto is_whole = [&](std::uint64_t r) {
      return low <= first(r) && first(r) + count_ * row_.each <= high;
    };
    const auto add_part = [&](std::uint64_t r) {
      const std::uint64_t begin = std::max(first(r), low) - first(r);
      const std::uint64_t end = std::min(first(r) + count_ * row_.each, high) - first(r);
      if (first(r) >= high || begin >= end) return;
      add_waiting();
      // The items with all elements of the row, and one before and after them with some.
      const std::uint64_t whole = (begin + row_.each - 1) / row_.each, last = end / row_.each;
      const auto add_some = [&](std::uint64_t from, std::uint64_t to) {
        if (from >= to) return;
        add_to_item(from / row_.each, [&](const auto& use) {
          for (std::uint64_t j = from; j < to; ++j) use(element(first(r) + j), 0);
        });
      };
      add_some(begin, std::min(whole * row_.each, end));
      if (whole < last) add_whole(whole, last, element(first(r) + whole * row_.each), 1, row);
      if (whole <= last) add_some(last * row_.each, end);
    };
    std::uint64_t r = low / row, end = (high + row - 1) / row;
    if (r < end && !is_whole(r)) add_part(r++);
    const bool has_last_part = r < end && !is_whole(end - 1);
    if (has_last_part) --end;
    if (row_.each == 1) {
      add_columns(0, count_, end - r, [&](std::uint64_t i) { return element(first(r + i)); });
    } else if (r < end) {
      add_whole(0, count_, element(first(r)), end - r, row);
    }
    if (has_last_part) add_part(end);
  }
  /// Adds `count` rows, `step` elements apart, with an element or a run of each of items [begin,
  /// end).
  void add_whole(std::uint64_t begin, std::uint64_t end, const Neighbours<T>& first_row,
                 std::uint64_t count, std::uint64_t step) {
    if (row_.each == 1) {
      add_elements(items_, begin, end, &first_row, count, skipped());
    } else {
      add_runs(items_, RunRows<T>{begin, end, first_row, count, static_cast<std::int64_t>(step)},
               skipped());
    }
  }
  /// Adds elements to an item. each(use) calls use(row, j) for every one: element j of a row.
  template <class Each>
  void add_to_item(std::uint64_t i, const Each& each) {
    const Quantities quantities = items_.quantities();
    Accumulator<T> item = items_.get(i);
    each([&](const Neighbours<T>& row, std::uint64_t j) {
      const T x = row.elements[j];
      if (!skipped().has(x)) item.begin(quantities, x, Skips ? counted(x) : 1);
    });
    item.add_each(quantities, [&](const auto& add) {
      each([&](const Neighbours<T>& row, std::uint64_t j) {
        if (!skipped().has(row.elements[j])) add(row.elements[j], RowAt<T>{row, j});
      });
    });
    items_.set(i, item);
  }

  const AccumulateArgs<T>& args_;
  const ItemRow& row_;
  const Item item_;                        // the first one
  std::uint64_t column_, count_, number_;  // column: of the first item, within its lane
  ItemAccumulators<T> items_;
  /// Rows of items [waiting_begin_, waiting_end_).
  std::array<Neighbours<T>, most_rows> waiting_;
  std::size_t waiting_rows_ = 0;
  std::uint64_t waiting_begin_ = 0, waiting_end_ = 0;
};

/// The items of a row of cells that a pass computes: `first` and those after it, up to `count`.
struct Run {
  std::uint64_t first, count;
};
/// `cell` is the cell of item `first`. The following items have the next cells.
constexpr Run in_pass(std::uint64_t first, std::uint64_t count, std::uint64_t cell,
                      const CellRange& pass) {
  const std::uint64_t before = cell < pass.first ? std::min(pass.first - cell, count) : 0;
  const std::uint64_t end = pass.first + pass.count;
  const std::uint64_t within = cell < end ? std::min(end - cell, count) : 0;
  return {first + before, within > before ? within - before : 0};
}

/// The blocks of a task that have elements of a group.
template <class T>
class BlocksOfGroup {
 public:
  BlocksOfGroup(const AccumulateArgs<T>& args, const Task& task) : args_(args), task_(task) {}

  /// For one group after another, each of which has many items.
  const std::vector<Block>& of(std::uint64_t group) {
    if (group == group_) return blocks_;
    group_ = group;
    blocks_.clear();
    for (std::uint64_t b = task_.first_block; b < task_.end_block; ++b) {
      const Block block = args_.tasks.block(b);
      if (has_group(block)) blocks_.push_back(block);
    }
    return blocks_;
  }

 private:
  bool has_group(const Block& block) const {
    const Layout& layout = args_.layout;
    if (layout.group_axis == no_axis) return true;
    const std::uint64_t first = block.extent().first(layout.group_axis);
    const std::uint64_t end = layout.first_step[group_ + 1];
    const std::uint64_t at = lower_bound(layout.steps, layout.first_step[group_], end, first);
    return at < end && layout.steps[at] < first + block.extent().count(layout.group_axis);
  }

  const AccumulateArgs<T>& args_;
  const Task& task_;
  std::uint64_t group_ = UINT64_MAX;
  std::vector<Block> blocks_;
};

/// A part computes a share of the items of each task. Accumulators without elements stay as they
/// are, unless they are to be written.
template <class T, bool Skips>
void accumulate_task(const AccumulateArgs<T>& args, const Task& task, Rows items) {
  const Quantities quantities = args.choice.quantities;
  const std::uint64_t most = ItemAccumulators<T>::max_for(quantities);
  // Lanes are not joined if the numbers of values or their weights are used.
  const bool joins_lanes =
      !quantities.has(Quantity::positions) && !quantities.has(Quantity::weights);
  const ItemRow row(args, task, joins_lanes);
  BlocksOfGroup<T> blocks(args, task);
  for (std::uint64_t first = items.begin, next; first < items.end; first = next) {
    next = std::min({(first / row.items + 1) * row.items, items.end, first + most});
    const Item item(args.layout, task, first);
    const std::uint64_t cell = item.cell;
    const bool is_written =
        args.units.is_whole() && item.group - args.units.groups.first < args.units.groups.count;
    if (!is_written && blocks.of(item.group).empty()) {
      next = std::min((first / row.items + 1) * row.items, items.end);
      continue;
    }
    Run run{first, next - first};
    if (row.has_lanes) {
      if (!is_in(args.cells, cell)) continue;
    } else {
      run = in_pass(first, next - first, cell, args.cells);
    }
    if (run.count == 0) continue;
    Tile<T, Skips> tile(args, task, row, run.first, run.count);
    for (const Block& block : blocks.of(item.group)) tile.add(block);
    tile.store();
  }
}

/// Calls use(task, items) for the items of the tasks that a part computes. If units are whole,
/// these are neighbours; otherwise it is the same share of each task, so that a thread uses the
/// same accumulators in each batch.
template <class T, class Use>
void for_items(const AccumulateArgs<T>& args, unsigned part, unsigned parts, const Use& use) {
  const auto joins_of = [&](const Task& task) {
    return item_count(args.layout, task.extent.counts()) / args.units.joined_lanes;
  };
  std::uint64_t all = 0, first = 0;
  if (args.units.is_whole()) {
    for (std::uint64_t t = 0; t < args.tasks.count; ++t) all += joins_of(args.tasks[t]);
  }
  const Rows mine = rows_of(all, part, parts);
  for (std::uint64_t t = 0; t < args.tasks.count; ++t) {
    const Task task = args.tasks[t];
    const std::uint64_t joins = joins_of(task), end = first + joins;
    Rows own = rows_of(joins, part, parts);
    if (args.units.is_whole()) {
      own = {std::clamp(mine.begin, first, end) - first, std::clamp(mine.end, first, end) - first};
    }
    first = end;
    if (own.begin < own.end) {
      use(task, Rows{own.begin * args.units.joined_lanes, own.end * args.units.joined_lanes});
    }
  }
}

template <class T>
void accumulate_host(const AccumulateArgs<T>& args, unsigned part, unsigned parts) {
  for_items(args, part, parts, [&](const Task& task, Rows items) {
    if (args.choice.skip == Skip::none) {
      accumulate_task<T, false>(args, task, items);
    } else {
      accumulate_task<T, true>(args, task, items);
    }
  });
}

template <class T>
void join_host(const JoinArgs<T>& args, unsigned part, unsigned parts) {
  with_common_quantities(args.quantities, [&](auto quantities) {
    const Rows mine = rows_of(args.units * args.groups * args.unit_cells, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      const JoinPlace place(args, i);
      store_joined(args, quantities, place,
                   join_parts(args, quantities, place.first_part, args.parts));
    }
  });
}

template <class T>
void clear_host(const ClearArgs<T>& args, unsigned part, unsigned parts) {
  with_common_quantities(args.quantities, [&](auto quantities) {
    const Rows mine = rows_of(args.accumulators.values, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      Accumulator<T>{}.store(quantities, args.accumulators.words + i, args.accumulators.values);
    }
  });
}

template <class T>
void fold_host(const FoldArgs<T>& args, unsigned part, unsigned parts) {
  const auto [cells, groups] = args.outputs;
  with_common_quantities(args.quantities, [&](auto quantities) {
    const Rows mine = rows_of(groups.count * cells.count, part, parts);
    for (std::uint64_t i = mine.begin, next; i < mine.end; i = next) {
      const std::uint64_t group = i / cells.count, cell = i % cells.count;
      next = std::min((group + 1) * cells.count, mine.end);
      fold_cells(args, quantities, groups.first + group, cells.first + cell, next - i);
    }
  });
}

template <class T>
void pack_host(const PackArgs<T>& args, unsigned part, unsigned parts) {
  with_common_quantities(args.quantities, [&](auto quantities) {
    const Rows mine = rows_of(args.ranks * args.depth * args.tile, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) pack_output(args, quantities, i);
  });
}

}  // namespace

template <class T>
Kernel<AccumulateArgs<T>> Kernels<T>::accumulate() {
  return {"cells_accumulate", accumulate_host<T>, with_cuda<cuda::Launchers<T>::accumulate>()};
}
template <class T>
Kernel<JoinArgs<T>> Kernels<T>::join() {
  return {"cells_join", join_host<T>, with_cuda<cuda::Launchers<T>::join>()};
}
template <class T>
Kernel<ClearArgs<T>> Kernels<T>::clear() {
  return {"cells_clear", clear_host<T>, with_cuda<cuda::Launchers<T>::clear>()};
}
template <class T>
Kernel<FoldArgs<T>> Kernels<T>::fold() {
  return {"cells_fold", fold_host<T>, with_cuda<cuda::Launchers<T>::fold>()};
}

template <class T>
Kernel<PackArgs<T>> Kernels<T>::pack() {
  return {"cells_pack", pack_host<T>, with_cuda<cuda::Launchers<T>::pack>()};
}

template struct Kernels<float>;
template struct Kernels<double>;
template struct Kernels<std::int32_t>;
template struct Kernels<std::int64_t>;
template struct Kernels<std::int8_t>;
template struct Kernels<std::uint8_t>;
template struct Kernels<std::uint64_t>;

}  // namespace shardstream::cells
