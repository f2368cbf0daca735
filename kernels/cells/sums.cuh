// How a thread adds elements to its accumulator, with several loads in flight.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells::cuda {

/// Elements that a thread loads before it adds them.
template <class T>
inline constexpr unsigned flight = sizeof(T) == 8 ? 8 : 16;

/// The accumulator of an item while its thread adds to it.
template <class T, Set S, bool Skips>
class ThreadAccumulator {
 public:
  /// An item that does not count has no place in memory.
  template <class AnyItem>
  __device__ ThreadAccumulator(const AccumulateArgs<T>& args, const Task& task, const AnyItem& item,
                               bool counts = true)
      : args_(&args), marker_(static_cast<T>(args.choice.marker)) {
    if (!counts) return;
    first_ = args.accumulators.words +
             number_of(args, {task.unit, task.first_cell, item.group, item.lane, item.cell});
  }
  /// Reads the accumulator, unless units are whole.
  __device__ void load() {
    if (!args_->is_whole) sums_ = Accumulator<T, S>::load(first_, args_->accumulators.values);
  }
  /// The accumulator, or if units are whole, its moments.
  __device__ void store() {
    if (args_->is_whole) return store(sums_.moments());
    sums_.store(first_, args_->accumulators.values);
  }
  /// Stores moments, those of the cell that is `cells` further.
  __device__ void store(const Moments<T, S>& m, unsigned cells = 0) {
    m.store(first_ + cells, args_->accumulators.values);
  }
  __device__ Moments<T, S> moments() const { return sums_.moments(); }

  __device__ void add(T x, std::uint64_t value, std::uint64_t weight) {
    if (Skips && is_skipped(x, args_->choice.skip, marker_)) return;
    sums_.add(x, static_cast<std::int64_t>(value), weight_at(weight), Skips ? counted(x) : 1);
  }
  /// Adds the first `count` values of `x`, or all of them. The places of value i and its weight are
  /// those of place(i).
  template <unsigned N, class At>
  __device__ void add(const T (&x)[N], std::uint64_t count, const At& place) {
    if (Skips || count < N) {
#pragma unroll
      for (unsigned i = 0; i < N; ++i) {
        const Place at = place(i);
        if (i < count) add(x[i], at.value, at.weight);
      }
      return;
    }
    sums_.begin(x[0], N);
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
      const Place at = place(i);
      sums_.add_begun(x[i], static_cast<std::int64_t>(at.value), weight_at(at.weight));
    }
  }

 private:
  __device__ double weight_at(std::uint64_t at) const {
    if constexpr (is_weighted(S)) return __ldg(args_->layout.weights + at);
    return 0;
  }

  const AccumulateArgs<T>* args_;
  T marker_;
  std::uint64_t* first_;
  Accumulator<T, S> sums_;
};

/// Adds the elements at `place` and `count` - 1 further steps, in order.
template <class T, class Sums>
__device__ void add_strided(const T* elements, Place place, const Place& step, std::uint64_t count,
                            Sums& sums) {
  const T* x = elements + place.element;
  for (; count >= flight<T>; count -= flight<T>) {
    T value[flight<T>];
#pragma unroll
    for (unsigned f = 0; f < flight<T>; ++f, x += step.element) value[f] = __ldg(x);
    sums.add(value, flight<T>, [&](unsigned f) { return place.plus(step, f); });
    place = place.plus(step, flight<T>);
  }
  T value[flight<T>];
#pragma unroll
  for (unsigned f = 0; f < flight<T>; ++f, x += step.element) {
    value[f] = f < count ? __ldg(x) : T{};
  }
  sums.add(value, count, [&](unsigned f) { return place.plus(step, f); });
}

/// The word of a load: a run has one or several of them.
template <class T>
using RunWord = std::conditional_t<sizeof(T) * row_run >= sizeof(uint4), uint4, unsigned>;

/// Loads a run, the address of which is a multiple of alignof(RunWord<T>).
template <class T>
__device__ void load_run(const T* from, T* to) {
  using Word = RunWord<T>;
  constexpr unsigned words = sizeof(T) * row_run / sizeof(Word);
  Word word[words];
#pragma unroll
  for (unsigned w = 0; w < words; ++w) word[w] = __ldg(reinterpret_cast<const Word*>(from) + w);
  memcpy(to, word, sizeof(word));
}

/// Adds the runs of a lane in a row, in order. If their addresses allow it, a thread reads each of
/// them as 16 bytes or more.
template <class T, class Sums>
__device__ void add_runs(const T* elements, const Column& column, const Layout& layout,
                         std::uint64_t lane, Sums& sums) {
  constexpr unsigned runs_at_once = flight<T> / row_run;
  const std::uint64_t end = column.inner_first + column.inner_count;
  const Steps runs =
      every(column.inner_first / row_run, (end + row_run - 1) / row_run, layout.lanes, lane);
  const auto add_part = [&](std::uint64_t run) {
    const std::uint64_t from = run * row_run;
    const std::uint64_t first = from < column.inner_first ? column.inner_first : from;
    const std::uint64_t last = end - from < row_run ? end : from + row_run;
    for (std::uint64_t i = first; i < last; ++i) {
      const Place at = column.at(i);
      sums.add(__ldg(elements + at.element), at.value, at.weight);
    }
  };
  std::uint64_t r = 0, whole = runs.count;
  if (whole > 0 && runs.first * row_run < column.inner_first) add_part(runs[r++]);
  if (whole > r && runs[whole - 1] * row_run + row_run > end) --whole;
  const T* x = elements + column.place.element + (runs[r] * row_run - column.inner_first);
  Place place = column.at(runs[r] * row_run);
  const std::uint64_t step = runs.step * row_run;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(x) % alignof(RunWord<T>) == 0;
  for (; r < whole; r += runs_at_once) {
    T value[flight<T>] = {};
    if (is_aligned) {
#pragma unroll
      for (unsigned i = 0; i < runs_at_once; ++i, x += step) {
        if (r + i < whole) load_run(x, value + i * row_run);
      }
    } else {
#pragma unroll
      for (unsigned i = 0; i < flight<T>; ++i) {
        if (r + i / row_run < whole) value[i] = __ldg(x + i % row_run);
        if (i % row_run == row_run - 1) x += step;
      }
    }
    sums.add(value, (whole - r) * row_run, [&](unsigned i) {
      return place.plus(column.inner_step, i / row_run * step + i % row_run);
    });
    place = place.plus(column.inner_step, runs_at_once * step);
  }
  if (whole < runs.count) add_part(runs[whole]);
}

/// Adds the elements of a column at listed steps, in order.
template <class T, class Sums>
__device__ void add_listed(const T* elements, const Column& column, const Steps& steps,
                           Sums& sums) {
  constexpr unsigned at_once = 8;  // with their indices
  for (std::uint64_t i = 0; i < steps.count; i += at_once) {
    const std::uint64_t left = steps.count - i;
    T value[at_once];
    std::uint64_t index[at_once];
#pragma unroll
    for (unsigned f = 0; f < at_once; ++f) index[f] = steps[f < left ? i + f : i];
#pragma unroll
    for (unsigned f = 0; f < at_once; ++f) {
      value[f] = f < left ? __ldg(elements + column.at(index[f]).element) : T{};
    }
    sums.add(value, left, [&](unsigned f) { return column.at(index[f]); });
  }
}

/// Adds the elements of a column at some steps, in order.
template <class T, class Sums>
__device__ void add_column(const T* elements, const Column& column, const Steps& steps,
                           Sums& sums) {
  if (steps.list != nullptr) return add_listed(elements, column, steps, sums);
  if (steps.count == 0) return;
  const Place step{steps.step * column.inner_step.element, steps.step * column.inner_step.value,
                   steps.step * column.inner_step.weight};
  add_strided(elements, column.at(steps.first), step, steps.count, sums);
}

}  // namespace shardstream::cells::cuda
