#include "kernels/cells/cells.hpp"

#include <algorithm>
#include <array>

#include "kernels/cells/dispatch.hpp"
#include "kernels/cells/tree.hpp"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells {
namespace {

/// Items that are neighbours along the innermost axis, which is kept; or one item.
template <class T, Set S, bool Skips>
class Tile {
 public:
  static constexpr std::uint64_t max = 64;

  Tile(const AccumulateArgs<T>& args, const Task& task, std::uint64_t first, std::uint64_t count)
      : args_(args), task_(task), item_(args.layout, task, first), count_(count) {
    number_ = number_of(args, {task.unit, task.first_cell, item_.group, item_.lane, item_.cell});
    if (args.is_whole) return;
    for (std::uint64_t i = 0; i < count_; ++i) {
      values_[i] = Accumulator<T, S>::load(args_.accumulators.words + number_ + i * pitch(),
                                           args_.accumulators.values);
    }
  }
  void store() {
    for (std::uint64_t i = 0; i < count_; ++i) {
      std::uint64_t* const to = args_.accumulators.words + number_ + i * pitch();
      if (args_.is_whole) {
        values_[i].moments().store(to, args_.accumulators.values);
      } else {
        values_[i].store(to, args_.accumulators.values);
      }
    }
  }

  void add(const std::uint64_t* block) {
    const Layout& layout = args_.layout;
    const unsigned last = layout.axes - 1;
    Item item = item_;
    std::uint64_t begin = 0, end = count_;
    if (layout.axis[last].is_kept) {
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
      add_inner(walk, item, begin, end);
    } while (walk.next());
  }

 private:
  /// The step from one item of the tile to the next one in the number of the cell.
  std::uint64_t pitch() const { return args_.layout.axis[args_.layout.axes - 1].cell_step; }

  void add_inner(const Walk& walk, const Item& item, std::uint64_t begin, std::uint64_t end) {
    const Layout& layout = args_.layout;
    if (layout.run() == 1) {
      return add_steps(walk,
                       steps_of(layout, walk.innermost, item, walk.inner_first, walk.inner_count),
                       begin, end);
    }
    const std::uint64_t last = walk.inner_first + walk.inner_count, run = layout.run();
    const Steps runs =
        every(walk.inner_first / run, (last + run - 1) / run, layout.lanes, item.lane);
    for (std::uint64_t r = 0; r < runs.count; ++r) {
      const std::uint64_t from = std::max(runs[r] * run, walk.inner_first);
      add_steps(walk, {from, 1, std::min((runs[r] + 1) * run, last) - from, nullptr}, begin, end);
    }
  }
  void add_steps(const Walk& walk, const Steps& steps, std::uint64_t begin, std::uint64_t end) {
    const Layout& layout = args_.layout;
    const std::uint64_t weight_pitch = layout.axis[layout.axes - 1].weight_step;
    const auto marker = static_cast<T>(args_.choice.marker);
    for (std::uint64_t s = 0; s < steps.count; ++s) {
      const Place place = walk.at(steps[s]);
      const T* const x = args_.elements + place.element;
      for (std::uint64_t i = begin; i < end; ++i) {
        const T value = x[i - begin];
        if (Skips && is_skipped(value, args_.choice.skip, marker)) continue;
        const double weight =
            is_weighted(S) ? layout.weights[place.weight + (i - begin) * weight_pitch] : 0;
        values_[i].add(value, static_cast<std::int64_t>(place.value), weight);
      }
    }
  }

  const AccumulateArgs<T>& args_;
  const Task& task_;
  Item item_;
  std::uint64_t count_, number_;
  std::array<Accumulator<T, S>, max> values_;
};

/// The items of a row of cells that a pass computes: `first` and those after it, up to `count`.
struct Run {
  std::uint64_t first, count;
};
/// `cell` is the cell of item `first`; with `along` > 1, the following items have the next cells.
constexpr Run in_pass(std::uint64_t first, std::uint64_t count, std::uint64_t cell,
                      const CellRange& pass) {
  const std::uint64_t before = cell < pass.first ? std::min(pass.first - cell, count) : 0;
  const std::uint64_t end = pass.first + pass.count;
  const std::uint64_t within = cell < end ? std::min(end - cell, count) : 0;
  return {first + before, within > before ? within - before : 0};
}

/// A part computes a share of the items of each task.
template <class T, Set S, bool Skips>
void accumulate_task(const AccumulateArgs<T>& args, const Task& task, Rows items) {
  const Layout& layout = args.layout;
  const unsigned last = layout.axes - 1;
  const std::uint64_t along = layout.axis[last].is_kept ? task.extent.count(last) : 1;
  for (std::uint64_t first = items.begin, next; first < items.end; first = next) {
    next = std::min({(first / along + 1) * along, items.end, first + Tile<T, S, Skips>::max});
    const Run run = in_pass(first, next - first, Item(layout, task, first).cell, args.cells);
    if (run.count == 0) continue;
    Tile<T, S, Skips> tile(args, task, run.first, run.count);
    for (std::uint64_t b = task.first_block; b < task.end_block; ++b) {
      tile.add(args.blocks + b * block_words(layout.axes));
    }
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
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) fold_output<T, set()>(args, i);
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
