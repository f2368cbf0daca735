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

/// The number of a value in its cell, and its weight, which is read only if it is used.
struct ValueAt {
  const double* weights;
  ElementPosition place;
  __device__ std::int64_t number() const { return static_cast<std::int64_t>(place.value); }
  __device__ double weight() const { return __ldg(weights + place.weight); }
};

/// The accumulator of an item while its thread adds to it.
template <class T, class Q, bool Skips>
class ThreadAccumulator {
 public:
  /// Elements of runs that are loaded before they are added. More would not fit into registers.
  static constexpr unsigned flight_of_runs = is_fixed<Q> ? flight<T> : 8;

  /// An item that does not count has no place in memory.
  template <class AnyItem>
  __device__ ThreadAccumulator(const AccumulateArgs<T>& args, const Task& task, const AnyItem& item,
                               bool counts = true)
      : args_(&args), marker_(static_cast<T>(args.choice.marker)) {
    if (!counts) return;
    first_ = args.units.states.words +
             number_of(args, {task.unit, task.first_cell, item.group, item.lane, item.cell});
  }
  /// Reads the accumulator, unless units are whole.
  __device__ void load() {
    if (args_->units.is_whole()) return;
    sums_ = Accumulator<T>::load(quantities(), first_, args_->units.states.values);
  }
  /// The accumulator, or if units are whole, its moments.
  __device__ void store() {
    if (args_->units.is_whole()) return store(moments());
    sums_.store(quantities(), first_, args_->units.states.values);
  }
  /// Stores moments.
  __device__ void store(const Moments<T>& m) {
    m.store(quantities(), first_, args_->units.states.values);
  }
  __device__ Moments<T> moments() const { return sums_.moments(quantities()); }

  __device__ void add(T x, const ElementPosition& place) {
    if (!counts(x)) return;
    sums_.begin(quantities(), x, Skips ? counted(x) : 1);
    add_counted(x, place);
  }
  /// Adds the first `count` values of `x`, or all of them. The places of value i and its weight are
  /// those of place(i).
  template <unsigned N, class PlaceOf>
  __device__ void add(const T (&x)[N], std::uint64_t count, const PlaceOf& place) {
    if (Skips || count < N) {
      if constexpr (is_fixed<Q>) {
#pragma unroll
        for (unsigned i = 0; i < N; ++i) {
          if (i < count) add(x[i], place(i));
        }
      } else {
        add_some(x, count, place);
      }
      return;
    }
    sums_.begin(quantities(), x[0], N);
    if constexpr (is_fixed<Q>) {
#pragma unroll
      for (unsigned i = 0; i < N; ++i) add_counted(x[i], place(i));
    } else {
      sums_.add_each(quantities(), [&](const auto& add) {
#pragma unroll
        for (unsigned i = 0; i < N; ++i) add(x[i], at(place(i)));
      });
    }
  }

 private:
  __device__ bool counts(T x) const {
    return !Skips || !is_skipped(x, args_->choice.skip, marker_);
  }
  __device__ void add_counted(T x, const ElementPosition& place) {
    sums_.add_each(quantities(), [&](const auto& add) { add(x, at(place)); });
  }
  /// One quantity after another, so that there are few branches.
  template <unsigned N, class PlaceOf>
  __device__ void add_some(const T (&x)[N], std::uint64_t count, const PlaceOf& place) {
    unsigned adds = 0;  // a bit for each value
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
      if (i >= count || !counts(x[i])) continue;
      adds |= 1u << i;
      sums_.begin(quantities(), x[i], Skips ? counted(x[i]) : 1);
    }
    sums_.add_each(quantities(), [&](const auto& add) {
#pragma unroll
      for (unsigned i = 0; i < N; ++i) {
        if ((adds >> i & 1) != 0) add(x[i], at(place(i)));
      }
    });
  }
  __device__ Q quantities() const {
    return Q(args_->choice.quantities);
  }
  __device__ ValueAt at(const ElementPosition& place) const {
    return {args_->layout.weights, place};
  }

  const AccumulateArgs<T>* args_;
  T marker_;
  std::uint64_t* first_;
  Accumulator<T> sums_;
};

/// Adds the elements at `place` and `count` - 1 further steps, in order.
template <class T, class Sums>
__device__ void add_strided(const T* elements, ElementPosition place, const ElementPosition& step,
                            std::uint64_t count, Sums& sums) {
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
  constexpr unsigned runs_at_once = Sums::flight_of_runs / row_run;
  const std::uint64_t end = column.inner_first + column.inner_count;
  const Steps runs =
      every(column.inner_first / row_run, (end + row_run - 1) / row_run, layout.lanes, lane);
  const auto add_part = [&](std::uint64_t run) {
    const std::uint64_t from = run * row_run;
    const std::uint64_t first = from < column.inner_first ? column.inner_first : from;
    const std::uint64_t last = end - from < row_run ? end : from + row_run;
    for (std::uint64_t i = first; i < last; ++i) {
      const ElementPosition at = column.at(i);
      sums.add(__ldg(elements + at.element), at);
    }
  };
  std::uint64_t r = 0, whole = runs.count;
  if (whole > 0 && runs.first * row_run < column.inner_first) add_part(runs[r++]);
  if (whole > r && runs[whole - 1] * row_run + row_run > end) --whole;
  const T* x = elements + column.place.element + (runs[r] * row_run - column.inner_first);
  ElementPosition place = column.at(runs[r] * row_run);
  const std::uint64_t step = runs.step * row_run;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(x) % alignof(RunWord<T>) == 0;
  for (; r < whole; r += runs_at_once) {
    T value[Sums::flight_of_runs] = {};
    if (is_aligned) {
#pragma unroll
      for (unsigned i = 0; i < runs_at_once; ++i, x += step) {
        if (r + i < whole) load_run(x, value + i * row_run);
      }
    } else {
#pragma unroll
      for (unsigned i = 0; i < Sums::flight_of_runs; ++i) {
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
  const ElementPosition step{steps.step * column.inner_step.element,
                             steps.step * column.inner_step.value,
                             steps.step * column.inner_step.weight};
  add_strided(elements, column.at(steps.first), step, steps.count, sums);
}

}  // namespace shardstream::cells::cuda
