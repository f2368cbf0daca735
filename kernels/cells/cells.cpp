#include "kernels/cells/cells.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "kernels/cells/add_elements.hpp"
#include "kernels/cells/dispatch.hpp"
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
      const Extent extent(args.blocks + b * block_words(axes) + 1, axes);
      if (extent.count(axes - 1) != task.extent.count(axes - 1)) return false;
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

/// Some items of a row.
template <class T, Set S, bool Skips>
class Tile {
 public:
  static constexpr std::uint64_t max = ItemAccumulators<T, S>::max;
  /// Lanes are not joined if the numbers of values or their weights are used.
  static constexpr bool joins_lanes = !has_indices(S);
  /// With several rows at once, accumulators are loaded and stored less often. But the compiler
  /// makes no vector instructions of squares then.
  static constexpr std::size_t rows_at_once = S == Set::squares ? 1 : 4;

  Tile(const AccumulateArgs<T>& args, const Task& task, const ItemRow& row, std::uint64_t first,
       std::uint64_t count)
      : args_(args),
        row_(row),
        item_(args.layout, task, first),
        column_(first % row.width),
        count_(count) {
    number_ = number_of(args, {task.unit, task.first_cell, item_.group, item_.lane, item_.cell});
    for_words([&](std::uint64_t i, std::uint64_t* words, std::uint64_t pitch) {
      items_.set(i, args_.is_whole ? Accumulator<T, S>{} : Accumulator<T, S>::load(words, pitch));
    });
  }
  void store() {
    add_waiting();
    for_words([&](std::uint64_t i, std::uint64_t* words, std::uint64_t pitch) {
      const Accumulator<T, S> item = items_.get(i);
      if (args_.is_whole) {
        item.moments().store(words, pitch);
      } else {
        item.store(words, pitch);
      }
    });
  }

  void add(const std::uint64_t* block) {
    const Layout& layout = args_.layout;
    const unsigned last = layout.axes - 1;
    Item item = item_;
    std::uint64_t begin = 0, end = count_;
    if (layout.axis[last].is_kept && !row_.has_lanes) {
      const Extent extent(block + 1, layout.axes);
      const std::uint64_t here = item.index[last], first = extent.first(last);
      begin = std::max(here, first);
      end = std::min(here + count_, first + extent.count(last));
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
  /// Calls use(i, words, pitch) with the words of the accumulator of item i, or of its moments.
  template <class Use>
  void for_words(const Use& use) const {
    const auto [words, pitch] = args_.accumulators;
    const std::uint64_t width = row_.width, count = count_;
    for (std::uint64_t i = 0; i < count;) {
      const std::uint64_t lane = (column_ + i) / width;
      const std::uint64_t end = std::min(count, (lane + 1) * width - column_);
      std::uint64_t* const first = words + number_ + lane * args_.unit_cells - lane * width;
      for (; i < end; ++i) use(i, first + i, pitch);
    }
  }
  Neighbours<T> at(const Place& place) const {
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
      Accumulator<T, S> item = items_.get(i);
      for (std::uint64_t s = 0; s < steps.count; ++s) add_element(item, row(s), i - begin);
      items_.set(i, item);
    }
  }
  /// Adds row(0) to row(count - 1), which have an element of each of items [begin, end).
  template <class Row>
  void add_columns(std::uint64_t begin, std::uint64_t end, std::uint64_t count, const Row& row) {
    if (begin != waiting_begin_ || end != waiting_end_) add_waiting();
    waiting_begin_ = begin;
    waiting_end_ = end;
    for (std::uint64_t r = 0; r < count; ++r) {
      waiting_.rows[waiting_rows_++] = row(r);
      if (waiting_rows_ == rows_at_once) add_waiting();
    }
  }
  /// Adds the rows that wait for others, of the same block or of the next ones.
  void add_waiting() {
    if (waiting_rows_ == rows_at_once) {
      add_elements<T, S, Skips>(items_, waiting_begin_, waiting_end_, waiting_, skipped());
    } else {
      for (std::size_t r = 0; r < waiting_rows_; ++r) {
        add_elements<T, S, Skips>(items_, waiting_begin_, waiting_end_,
                                  ColumnElements<T, 1>{waiting_.rows[r]}, skipped());
      }
    }
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
      Place place = walk.at(number / width);
      place.element += number % width - column_;
      return at(place);
    };
    const auto is_whole = [&](std::uint64_t r) {
      return low <= first(r) && first(r) + count_ * row_.each <= high;
    };
    const auto add_part = [&](std::uint64_t r) {
      add_waiting();
      const std::uint64_t end = std::min(first(r) + count_ * row_.each, high);
      for (std::uint64_t j = std::max(first(r), low); j < end; ++j) {
        const std::uint64_t i = (j - first(r)) / row_.each;
        Accumulator<T, S> item = items_.get(i);
        add_element(item, element(j), 0);
        items_.set(i, item);
      }
    };
    std::uint64_t r = low / row, end = (high + row - 1) / row;
    if (r < end && !is_whole(r)) add_part(r++);
    const bool has_last_part = r < end && !is_whole(end - 1);
    if (has_last_part) --end;
    if (row_.each == 1) {
      add_columns(0, count_, end - r, [&](std::uint64_t i) { return element(first(r + i)); });
    } else if (r < end) {
      add_elements<T, S, Skips>(
          items_, 0, count_,
          RunElements<T>{element(first(r)), end - r, static_cast<std::int64_t>(row)}, skipped());
    }
    if (has_last_part) add_part(end);
  }
  void add_element(Accumulator<T, S>& item, const Neighbours<T>& row, std::uint64_t j) const {
    if (skipped().has(row.elements[j])) return;
    const T x = row.elements[j];
    item.add(x, row.number_of(j), is_weighted(S) ? row.weight_of(j) : 0, Skips ? counted(x) : 1);
  }

  const AccumulateArgs<T>& args_;
  const ItemRow& row_;
  const Item item_;                        // the first one
  std::uint64_t column_, count_, number_;  // column: of the first item, within its lane
  ItemAccumulators<T, S> items_;
  /// Rows of items [waiting_begin_, waiting_end_).
  ColumnElements<T, rows_at_once> waiting_;
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
  const std::vector<const std::uint64_t*>& of(std::uint64_t group) {
    if (group == group_) return blocks_;
    group_ = group;
    blocks_.clear();
    for (std::uint64_t b = task_.first_block; b < task_.end_block; ++b) {
      const std::uint64_t* const block = args_.blocks + b * block_words(args_.layout.axes);
      if (has_group(block)) blocks_.push_back(block);
    }
    return blocks_;
  }

 private:
  bool has_group(const std::uint64_t* block) const {
    const Layout& layout = args_.layout;
    if (layout.group_axis == no_axis) return true;
    const Extent extent(block + 1, layout.axes);
    const std::uint64_t first = extent.first(layout.group_axis);
    const std::uint64_t end = layout.first_step[group_ + 1];
    const std::uint64_t at = lower_bound(layout.steps, layout.first_step[group_], end, first);
    return at < end && layout.steps[at] < first + extent.count(layout.group_axis);
  }

  const AccumulateArgs<T>& args_;
  const Task& task_;
  std::uint64_t group_ = UINT64_MAX;
  std::vector<const std::uint64_t*> blocks_;
};

/// A part computes a share of the items of each task. Accumulators without elements stay as they
/// are, unless they are to be written.
template <class T, Set S, bool Skips>
void accumulate_task(const AccumulateArgs<T>& args, const Task& task, Rows items) {
  using OwnTile = Tile<T, S, Skips>;
  const ItemRow row(args, task, OwnTile::joins_lanes);
  BlocksOfGroup<T> blocks(args, task);
  for (std::uint64_t first = items.begin, next; first < items.end; first = next) {
    next = std::min({(first / row.items + 1) * row.items, items.end, first + OwnTile::max});
    const Item item(args.layout, task, first);
    const std::uint64_t cell = item.cell;
    const bool is_written =
        args.is_whole && item.group - args.unit_groups.first < args.unit_groups.count;
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
    OwnTile tile(args, task, row, run.first, run.count);
    for (const std::uint64_t* const block : blocks.of(item.group)) tile.add(block);
    tile.store();
  }
}

template <class T>
void accumulate_host(const AccumulateArgs<T>& args, unsigned part, unsigned parts) {
  const auto add = [&](auto set, auto skips) {
    for (std::uint64_t t = 0; t < args.task_count; ++t) {
      const Task task(args.tasks + t * task_words(args.layout.axes), args.layout.axes);
      const std::uint64_t items = item_count(args.layout, task.extent.counts());
      accumulate_task<T, set(), skips()>(args, task, rows_of(items, part, parts));
    }
  };
  with_set(args.choice.set, [&](auto set) {
    if (args.choice.skip == Skip::none) return add(set, std::false_type{});
    add(set, std::true_type{});
  });
}

template <class T>
void join_host(const JoinArgs<T>& args, unsigned part, unsigned parts) {
  with_set(args.set, [&](auto set) {
    const Rows mine = rows_of(args.units * args.groups * args.unit_cells, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      const JoinPlace place(args, i);
      join_parts<T, set()>(args, place.first_part, args.parts)
          .store(args.moments.words + place.moments, args.moments.values);
    }
  });
}

template <class T>
void clear_host(const ClearArgs<T>& args, unsigned part, unsigned parts) {
  with_set(args.set, [&](auto set) {
    const Rows mine = rows_of(args.accumulators.values, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      Accumulator<T, set()>{}.store(args.accumulators.words + i, args.accumulators.values);
    }
  });
}

template <class T>
void fold_host(const FoldArgs<T>& args, unsigned part, unsigned parts) {
  with_set(args.set, [&](auto set) {
    const Rows mine = rows_of(args.groups * args.cells.count, part, parts);
    for (std::uint64_t i = mine.begin, next; i < mine.end; i = next) {
      const std::uint64_t group = i / args.cells.count, cell = i % args.cells.count;
      next = std::min((group + 1) * args.cells.count, mine.end);
      fold_cells<T, set()>(args, args.first_group + group, args.cells.first + cell, next - i);
    }
  });
}

template <class T>
void pack_host(const PackArgs<T>& args, unsigned part, unsigned parts) {
  with_set(args.set, [&](auto set) {
    const Rows mine = rows_of(args.ranks * args.depth * args.tile, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) pack_output<T, set()>(args, i);
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
