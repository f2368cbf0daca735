#include "kernels/cells/cells.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "kernels/cells/dispatch.hpp"
#include "kernels/cells/tree.hpp"
#include "kernels/cells/walk.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::cells {
namespace {

/// Accumulators of neighbouring items, with an array for each number, so that the compiler turns a
/// loop over items into vector instructions.
template <class T, Set S>
class ItemAccumulators {
 public:
  static constexpr std::size_t max = 128;
  using Item = Accumulator<T, S>;

  [[gnu::always_inline]] Item get(std::size_t i) const {
    Item item;
    const std::byte* array = arrays_;
    Item::visit(item, [&](auto& number) {
      using Number = std::remove_reference_t<decltype(number)>;
      number = reinterpret_cast<const Number*>(array)[i];
      array += max * sizeof(Number);
    });
    return item;
  }
  [[gnu::always_inline]] void set(std::size_t i, const Item& item) {
    std::byte* array = arrays_;
    Item::visit(item, [&](const auto& number) {
      using Number = std::remove_cvref_t<decltype(number)>;
      reinterpret_cast<Number*>(array)[i] = number;
      array += max * sizeof(Number);
    });
  }

 private:
  alignas(64) std::byte arrays_[max * sizeof(Item)];
};

/// Neighbouring elements of a row. Element j is value number `number` + j * `number_step` of its
/// cell, and has weight `weights`[j * `weight_step`].
template <class T>
struct Neighbours {
  const T* elements;
  std::int64_t number;
  const double* weights;
  std::int64_t number_step, weight_step;

  std::int64_t number_of(std::size_t j) const {
    return number + static_cast<std::int64_t>(j) * number_step;
  }
  double weight_of(std::size_t j) const {
    return weights[static_cast<std::int64_t>(j) * weight_step];
  }
};

/// The values that do not count.
template <class T, bool Skips>
struct Skipped {
  Skip skip;
  T marker;
  bool has(T x) const { return Skips && is_skipped(x, skip, marker); }
};

/// Adds `Run` neighbouring elements to each of items [begin, end).
template <class T, Set S, bool Skips, unsigned Run>
[[gnu::flatten]] SHARDSTREAM_VECTOR_CLONES void add_row(ItemAccumulators<T, S>& items,
                                                        std::size_t begin, std::size_t end,
                                                        const Neighbours<T>& row,
                                                        Skipped<T, Skips> skipped) {
  const T* const __restrict x = row.elements;
  std::array<double, is_weighted(S) ? ItemAccumulators<T, S>::max * Run : 1> weights;
  if constexpr (is_weighted(S)) {
    for (std::size_t j = 0; j < (end - begin) * Run; ++j) weights[j] = row.weight_of(j);
  }
  for (std::size_t i = begin; i < end; ++i) {
    Accumulator<T, S> item = items.get(i);
    for (unsigned r = 0; r < Run; ++r) {
      const std::size_t j = (i - begin) * Run + r;
      Accumulator<T, S> next = item;
      next.add(x[j], row.number_of(j), is_weighted(S) ? weights[j] : 0);
      if (!skipped.has(x[j])) item = next;
    }
    items.set(i, item);
  }
}

/// Items that are neighbours along the innermost axis: cells, if it is kept, or lanes with runs.
/// Otherwise a single item.
template <class T, Set S, bool Skips>
class Tile {
 public:
  static constexpr std::uint64_t max = ItemAccumulators<T, S>::max;

  Tile(const AccumulateArgs<T>& args, const Task& task, std::uint64_t first, std::uint64_t count)
      : args_(args), item_(args.layout, task, first), count_(count) {
    number_ = number_of(args, {task.unit, task.first_cell, item_.group, item_.lane, item_.cell});
    for (std::uint64_t i = 0; i < count_; ++i) {
      items_.set(i, args.is_whole ? Accumulator<T, S>{}
                                  : Accumulator<T, S>::load(words(i), args.accumulators.values));
    }
  }
  void store() {
    for (std::uint64_t i = 0; i < count_; ++i) {
      const Accumulator<T, S> item = items_.get(i);
      if (args_.is_whole) {
        item.moments().store(words(i), args_.accumulators.values);
      } else {
        item.store(words(i), args_.accumulators.values);
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
      if (layout.run() > 1) {
        add_runs(walk);
      } else {
        add_steps(walk, begin, end);
      }
    } while (walk.next());
  }

 private:
  /// The words of the accumulator of item i, or of its moments.
  std::uint64_t* words(std::uint64_t i) const {
    const Axis& last = args_.layout.axis[args_.layout.axes - 1];
    return args_.accumulators.words + number_ +
           i * (last.is_kept ? last.cell_step : args_.unit_cells);
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

  /// Adds the elements of items [begin, end), which are neighbours, for each of their steps.
  void add_steps(const Walk& walk, std::uint64_t begin, std::uint64_t end) {
    const Steps steps =
        steps_of(args_.layout, walk.innermost, item_, walk.inner_first, walk.inner_count);
    constexpr std::uint64_t few = 4;
    if (end - begin >= few) {
      for (std::uint64_t s = 0; s < steps.count; ++s) {
        add_row<T, S, Skips, 1>(items_, begin, end, at(walk.at(steps[s])), skipped());
      }
      return;
    }
    for (std::uint64_t i = begin; i < end; ++i) {
      Accumulator<T, S> item = items_.get(i);
      for (std::uint64_t s = 0; s < steps.count; ++s) {
        add_element(item, at(walk.at(steps[s])), i - begin);
      }
      items_.set(i, item);
    }
  }
  /// Adds rows of runs, of which each item has one.
  void add_runs(const Walk& walk) {
    const std::uint64_t end = walk.inner_first + walk.inner_count,
                        row = args_.layout.lanes * row_run;
    for (std::uint64_t r = walk.inner_first / row * row; r < end; r += row) {
      const std::uint64_t first = r + item_.lane * row_run, last = first + count_ * row_run;
      if (walk.inner_first <= first && last <= end) {
        add_row<T, S, Skips, row_run>(items_, 0, count_, at(walk.at(first)), skipped());
        continue;
      }
      for (std::uint64_t j = std::max(first, walk.inner_first); j < std::min(last, end); ++j) {
        const std::uint64_t i = (j - first) / row_run;
        Accumulator<T, S> item = items_.get(i);
        add_element(item, at(walk.at(j)), 0);
        items_.set(i, item);
      }
    }
  }
  void add_element(Accumulator<T, S>& item, const Neighbours<T>& row, std::uint64_t j) const {
    if (skipped().has(row.elements[j])) return;
    item.add(row.elements[j], row.number_of(j), is_weighted(S) ? row.weight_of(j) : 0);
  }

  const AccumulateArgs<T>& args_;
  const Item item_;  // the first one
  std::uint64_t count_, number_;
  ItemAccumulators<T, S> items_;
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

/// A part computes a share of the items of each task.
template <class T, Set S, bool Skips>
void accumulate_task(const AccumulateArgs<T>& args, const Task& task, Rows items) {
  const Layout& layout = args.layout;
  const unsigned last = layout.axes - 1;
  const bool is_kept = layout.axis[last].is_kept;
  const std::uint64_t along = is_kept            ? task.extent.count(last)
                              : layout.run() > 1 ? layout.lanes
                                                 : 1;
  for (std::uint64_t first = items.begin, next; first < items.end; first = next) {
    next = std::min({(first / along + 1) * along, items.end, first + Tile<T, S, Skips>::max});
    const std::uint64_t cell = Item(layout, task, first).cell;
    Run run{first, next - first};
    if (is_kept) {
      run = in_pass(first, next - first, cell, args.cells);
    } else if (!is_in(args.cells, cell)) {
      continue;
    }
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
