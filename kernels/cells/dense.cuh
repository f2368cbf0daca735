// Accumulation on a GPU if tasks are dense. A thread has one column of a matrix, and reads a vector
// of each of its rows.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cells/block.cuh"
#include "kernels/cells/cells.hpp"
#include "kernels/cells/flight.cuh"
#include "kernels/cells/grouped_rows.cuh"
#include "kernels/cells/sums.cuh"
#include "kernels/memory/vector.cuh"

namespace shardstream::cells::cuda {

/// The place of a thread in a dense task. Each of the task's vectors is for `parts` threads.
struct DensePlace {
  bool exists;
  unsigned matrix, item, rows;  ///< item: the number of its part of a vector, within the matrix
  std::uint64_t element;        ///< the position of its part in the first row

  __device__ DensePlace(const DenseTask& task, std::uint64_t number, unsigned parts)
      : exists(number < task.matrices * task.columns * parts) {
    const unsigned columns = static_cast<unsigned>(task.columns) * parts;
    const unsigned thread = exists ? static_cast<unsigned>(number) : 0;
    matrix = thread / columns;
    item = thread % columns;
    const unsigned first = static_cast<unsigned>(task.first_column) * parts;
    const unsigned column = item >= first ? item - first : item + columns - first;
    rows = static_cast<unsigned>(task.rows) + (column < task.last_columns * parts ? 1 : 0);
    element = task.first_element + matrix * task.matrix_elements +
              std::uint64_t{column} * (vector_elements / parts);
  }
};

/// Calls use(t, group) for each task and group of a block of threads, which has a part of each of
/// joined_units neighbouring tasks.
template <bool Grouped, class T, class Use>
__device__ void for_each_dense(const AccumulateArgs<T>& args, const UnitThreads& own,
                               const Use& use) {
  const std::uint64_t groups = Grouped ? args.layout.groups : 1;
  const std::uint64_t count = args.tasks.count / own.units * groups;
  for (std::uint64_t i = blockIdx.y; i < count; i += gridDim.y) {
    use(i / groups * own.units + own.unit, i % groups);
  }
}

/// f32 with powers: joining takes long, which a third block on a multiprocessor hides better than
/// more values in flight.
template <class T, class Q>
inline constexpr bool joins_long = std::is_same_v<T, float>&& Q::has(Quantity::powers);

/// Blocks of accumulate_dense_rows on a multiprocessor, as many as registers allow.
template <class T, class Q>
inline constexpr unsigned row_blocks = joins_long<T, Q> ? 3
                                       : Q::has(Quantity::powers) ||
                                               (std::integral<T> && sizeof(T) > 1 &&
                                                Q::has(Quantity::squares))
                                           ? 2
                                           : 3;

/// Values that a thread loads before it adds them.
template <class T, class Q>
inline constexpr unsigned row_flight = joins_long<T, Q> ? 12 : (sizeof(T) == 1 ? 4 : 2) * flight<T>;

/// Rows, the innermost axis of which is reduced. A thread has the runs of one lane.
template <class T, class Q>
__global__ void __launch_bounds__(block_threads, (row_blocks<T, Q>))
    accumulate_dense_rows(const __grid_constant__ AccumulateArgs<T> args) {
  static_assert(row_run == vector_elements);
  constexpr unsigned at_once = row_flight<T, Q> / row_run;
  constexpr Q quantities;
  const UnitThreads own(1);
  for_each_dense<false>(args, own, [&](std::uint64_t t, std::uint64_t) {
    const DensePlace place(args.tasks.dense[t], own.number, 1);
    Accumulator<T> sums;
    if (place.exists) {
      const T* x = args.elements + place.element;
      const std::uint64_t step = args.tasks.dense[t].columns * vector_elements;
      const auto add = [&](unsigned runs) {
        T value[at_once * row_run];
#pragma unroll
        for (unsigned r = 0; r < at_once; ++r, x += step) {
          if (r < runs) load_run(x, value + r * row_run);
        }
        sums.begin(quantities, value[0], runs * row_run);
        if constexpr (std::integral<T> && !Q::has(Quantity::powers)) {
          if (runs == at_once) return add_flight(quantities, sums, value);
        }
#pragma unroll
        for (unsigned r = 0; r < at_once; ++r) {
          if (r >= runs) break;
#pragma unroll
          for (unsigned i = 0; i < row_run; ++i) {
            add_value(quantities, sums, value[r * row_run + i]);
          }
        }
      };
      unsigned left = place.rows;
      for (; left >= at_once; left -= at_once) add(at_once);
      if (left > 0) add(left);
    }
    Moments<T> m = sums.moments(quantities);
    join_threads(quantities, m, static_cast<unsigned>(args.units.joined_lanes));
    if (place.exists && place.item % args.units.joined_lanes == 0) {
      const DenseTask& task = args.tasks.dense[t];
      const std::uint64_t cell = task.cell + place.matrix * task.cell_step;
      m.store(quantities,
              args.units.states.words +
                  number_of(args, {task.unit, task.unit_cell, 0, place.item, cell}),
              args.units.states.values);
    }
  });
}

/// Threads of accumulate_dense_columns: few, so that the last blocks are at work in most
/// multiprocessors.
inline constexpr unsigned column_threads = 128;

/// Columns of f32 that a thread has, or half as many of f64.
template <class T>
inline constexpr unsigned thread_columns = sizeof(uint4) / sizeof(T);

/// The rows of a matrix, one after another: where a thread's part of the next one is.
template <class T>
class EveryRow {
 public:
  __device__ EveryRow(const T* first, std::uint64_t step) : next_(first), step_(step) {}
  __device__ const T* next() {
    const T* const here = next_;
    next_ += step_;
    return here;
  }

 private:
  const T* next_;
  std::uint64_t step_;
};

/// The lane and the group of a thread, for steps_of().
struct GroupItem {
  std::uint64_t group, lane = 0;
};

/// As EveryRow, for the rows of a group. `first` is the index of the first row of the matrix.
template <class T>
class GroupRows {
 public:
  __device__ GroupRows(const T* first_row, std::uint64_t step, std::uint64_t first,
                       const Steps& steps)
      : rows_(first_row - first * step), step_(step), index_(steps.list + steps.first) {}
  __device__ const T* next() { return rows_ + __ldg(index_++) * step_; }

 private:
  const T* rows_;
  std::uint64_t step_;
  const std::uint64_t* index_;
};

/// Rows on their way to each thread of a block, in shared memory. While a thread adds a part of
/// them, the copies of the other parts go on.
class RowRing {
 public:
  static constexpr unsigned parts = 4, part_rows = 4;

  /// Adds a column of `rows` rows, 16 bytes of each, at from.next(). Called by one thread.
  template <class T, class Q, class From>
  __device__ void add(Q quantities, From from, unsigned rows,
                      Accumulator<T> (&sums)[thread_columns<T>]) {
    // Starts to copy the next rows to a part: its rows, or `left` if that is less.
    const auto ask = [&](unsigned part, int left) {
      uint4* const to = &rows_[part][0][threadIdx.x];
      const auto ask_row = [&](unsigned r) {
        __pipeline_memcpy_async(to + r * column_threads, from.next(), sizeof(uint4));
      };
      if (left >= static_cast<int>(part_rows)) {
#pragma unroll
        for (unsigned r = 0; r < part_rows; ++r) ask_row(r);
      } else {
#pragma unroll 1
        for (int r = 0; r < left; ++r) ask_row(r);
      }
      __pipeline_commit();
    };
    const auto add = [&](unsigned part, unsigned left, auto is_whole) {
      __pipeline_wait_prior(parts - 2);
      T value[part_rows][thread_columns<T>];
#pragma unroll
      for (unsigned r = 0; r < part_rows; ++r) read(part, r, value[r]);
      ask(part > 0 ? part - 1 : parts - 1, static_cast<int>(left - (parts - 1) * part_rows));
#pragma unroll
      for (unsigned r = 0; r < part_rows; ++r) {
        if (!is_whole() && r >= left) return;
#pragma unroll
        for (unsigned c = 0; c < thread_columns<T>; ++c)
          add_value(quantities, sums[c], value[r][c]);
      }
    };
    if (rows == 0) return;
#pragma unroll
    for (unsigned part = 0; part + 1 < parts; ++part) {
      ask(part, static_cast<int>(rows - part * part_rows));
    }
    __pipeline_wait_prior(parts - 2);
    T first[thread_columns<T>];
    read(0, 0, first);
#pragma unroll
    for (unsigned c = 0; c < thread_columns<T>; ++c) sums[c].begin(quantities, first[c], rows);
    unsigned part = 0, left = rows;
    for (; left > part_rows; left -= part_rows) {
      add(part, left, std::true_type{});
      part = part + 1 < parts ? part + 1 : 0;
    }
    add(part, left, std::false_type{});
  }

 private:
  template <class T>
  __device__ void read(unsigned part, unsigned row, T (&value)[thread_columns<T>]) const {
    const uint4 word = rows_[part][row][threadIdx.x];
    memcpy(value, &word, sizeof(word));
  }

  uint4 rows_[parts][part_rows][column_threads];
};

/// The moments of the columns of a block, in shared memory: those of each joined unit one after
/// another. All functions are called by the whole block.
template <class T, class Q>
class BlockMoments {
 public:
  __device__ void set(const UnitThreads& own, Accumulator<T> (&sums)[thread_columns<T>]) {
    const unsigned thread = threadIdx.x % own.width;
#pragma unroll
    for (unsigned c = 0; c < thread_columns<T>; ++c) {
      sums[c]
          .moments(quantities)
          .store(quantities, words_ + own.unit * columns(own) + thread * thread_columns<T> + c,
                 size);
    }
    __syncthreads();
  }
  /// Joins units as a binary tree. The first of them has the result.
  __device__ void join_units(const UnitThreads& own) {
    for (unsigned distance = 1; distance < own.units; distance *= 2) {
      for (unsigned i = threadIdx.x; i < size / (2 * distance); i += column_threads) {
        const unsigned unit = i / columns(own) * 2 * distance;
        std::uint64_t* const left = words_ + unit * columns(own) + i % columns(own);
        std::uint64_t* const right = left + distance * columns(own);
        join(quantities, Moments<T>::load(quantities, left, size),
             Moments<T>::load(quantities, right, size))
            .store(quantities, left, size);
      }
      __syncthreads();
    }
  }
  /// Copies the moments of column c of the first unit to to(c), if it is below `count`.
  template <class To>
  __device__ void copy(const UnitThreads& own, std::uint64_t count, const States& states,
                       const To& to) const {
    for (unsigned c = threadIdx.x; c < columns(own) && c < count; c += column_threads) {
      std::uint64_t* const target = states.words + to(c);
#pragma unroll
      for (unsigned w = 0; w < max_words<T, Q>; ++w) {
        target[w * states.values] = words_[w * size + c];
      }
    }
    __syncthreads();
  }

 private:
  static constexpr Q quantities{};
  static constexpr unsigned size = column_threads * thread_columns<T>;

  __device__ static unsigned columns(const UnitThreads& own) {
    return own.width * thread_columns<T>;
  }

  std::uint64_t words_[max_words<T, Q> * size];
};

/// The shared memory of a block: first of the ring, then of the moments.
template <class T, class Q>
union ColumnMemory {
  RowRing ring;
  BlockMoments<T, Q> moments;
};

/// Columns, the innermost axis of which is kept. A thread has 16 bytes of each row, so it makes few
/// and large requests to memory. With groups, it has the rows of one of them.
template <class T, class Q, bool Grouped>
__global__ void __launch_bounds__(column_threads,
                                  Q::has(Quantity::squares) && thread_columns<T> > 2 ? 5 : 6)
    accumulate_dense_columns(const __grid_constant__ AccumulateArgs<T> args) {
  constexpr unsigned columns = thread_columns<T>;
  extern __shared__ __align__(sizeof(uint4)) std::uint64_t column_memory[];
  auto& shared = *reinterpret_cast<ColumnMemory<T, Q>*>(column_memory);
  const UnitThreads own(args.units.joined_units, column_threads);
  for_each_dense<Grouped>(args, own, [&](std::uint64_t t, std::uint64_t group) {
    Accumulator<T> sums[columns];
    {
      const DenseTask& task = args.tasks.dense[t];
      const DensePlace place(task, own.number, vector_elements / columns);
      const T* const x = args.elements + place.element;
      const std::uint64_t step = task.columns * vector_elements;
      if constexpr (Grouped) {
        const Steps steps = steps_of(args.layout, args.layout.group_axis, GroupItem{group},
                                     task.first_index, task.rows);
        if (place.exists) {
          shared.ring.add(Q{}, GroupRows<T>(x, step, task.first_index, steps),
                          static_cast<unsigned>(steps.count), sums);
        }
      } else if (place.exists) {
        shared.ring.add(Q{}, EveryRow<T>(x, step), place.rows, sums);
      }
    }
    __syncthreads();  // the ring is no longer used
    shared.moments.set(own, sums);
    shared.moments.join_units(own);
    const DenseTask& task = args.tasks.dense[t - own.unit];
    const std::uint64_t first = std::uint64_t{blockIdx.x} * own.width * columns;
    const std::uint64_t count = task.matrices * task.columns * vector_elements;
    shared.moments.copy(own, first < count ? count - first : 0, args.units.states, [&](unsigned c) {
      const auto of_matrix = static_cast<unsigned>(task.columns * vector_elements);
      const auto of_lane = static_cast<unsigned>(task.row_cells);
      const auto number = static_cast<unsigned>(first) + c;
      const unsigned matrix = number / of_matrix, item = number - matrix * of_matrix;
      const unsigned lane = item / of_lane;
      const std::uint64_t cell = task.cell + matrix * task.cell_step + (item - lane * of_lane);
      return number_of(args, {task.unit, task.unit_cell, group, lane, cell});
    });
  });
}

/// The blocks that a multiprocessor shall run at the same time: up to `most`, so that the last ones
/// leave few places empty. They would take as long as the others, with much of the memory's speed
/// unused. If there are many blocks with many rows each, two are enough to read memory at its full
/// speed, and the last ones take less time.
inline std::uint64_t blocks_at_once_of(std::uint64_t blocks, std::uint64_t rows,
                                       std::uint64_t most) {
  constexpr std::uint64_t enough = 2, many_rows = 512, many_waves = 3;
  const auto multiprocessors =
      static_cast<std::uint64_t>(shardstream::cuda::attribute(cudaDevAttrMultiProcessorCount));
  if (rows >= many_rows && blocks >= many_waves * enough * multiprocessors) {
    return std::min(enough, most);
  }
  std::uint64_t best = most;
  double best_share = 0;
  for (std::uint64_t k = most; k > 0 && k + 2 >= most; --k) {
    const std::uint64_t places = k * multiprocessors, waves = (blocks + places - 1) / places;
    const double share = static_cast<double>(blocks) / static_cast<double>(waves * places);
    if (share > best_share + 0.02) best = k, best_share = share;
  }
  return best;
}

/// Blocks of threads for `width` items each, and for tasks.
inline dim3 grid_of(std::uint64_t items, std::uint64_t width, std::uint64_t tasks) {
  constexpr std::uint64_t max_y = 65535;
  return {static_cast<unsigned>((items + width - 1) / width),
          static_cast<unsigned>(tasks < max_y ? tasks : max_y)};
}

template <class T, class Q, bool Grouped>
void launch_dense_columns(const AccumulateArgs<T>& args, CudaStream stream) {
  using shardstream::cuda::attribute, shardstream::cuda::resident_blocks;
  constexpr auto* kernel = accumulate_dense_columns<T, Q, Grouped>;
  const std::uint64_t width = column_threads * thread_columns<T> / args.units.joined_units;
  const std::uint64_t groups = args.layout.groups;
  const dim3 grid = grid_of(args.tasks.max_items / groups, width,
                            args.tasks.count / args.units.joined_units * groups);
  std::size_t bytes = sizeof(ColumnMemory<T, Q>);
  const std::uint64_t most =
      resident_blocks(kernel, column_threads, bytes) / attribute(cudaDevAttrMultiProcessorCount);
  // With groups or joined units, a thread has few of the rows.
  const std::uint64_t rows = Grouped || args.units.joined_units > 1 ? 0 : args.tasks.max_rows;
  const std::uint64_t wanted = blocks_at_once_of(std::uint64_t{grid.x} * grid.y, rows, most);
  if (wanted < most) {
    // More shared memory for each block leaves room for fewer. It is allocated in small units.
    constexpr std::size_t unit = 1024;
    bytes = (attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / wanted -
             attribute(cudaDevAttrReservedSharedMemoryPerBlock)) /
            unit * unit;
    (void)resident_blocks(kernel, column_threads, bytes);
  }
  kernel<<<grid, column_threads, bytes, stream>>>(args);
}

/// Whether there is a kernel for dense tasks with these arguments.
template <class T>
bool is_dense(const AccumulateArgs<T>& args) {
  const Layout& layout = args.layout;
  const bool fits = layout.group_axis != layout.axes - 1 ||
                    (layout.groups <= max_row_groups && args.units.joined_units == 1);
  return args.tasks.dense != nullptr && args.units.is_whole() && fits &&
         args.tasks.max_items < std::numeric_limits<std::uint32_t>::max() &&
         reinterpret_cast<std::uintptr_t>(args.elements) % sizeof(uint4) == 0;
}

/// If is_dense(), and there are runs.
template <class T, class Q>
void launch_dense_rows(const AccumulateArgs<T>& args, CudaStream stream) {
  const std::uint64_t width = block_threads / args.units.joined_units;
  const dim3 grid =
      grid_of(args.tasks.max_items, width, args.tasks.count / args.units.joined_units);
  accumulate_dense_rows<T, Q><<<grid, block_threads, 0, stream>>>(args);
}

/// If is_dense().
template <class T, class Q>
void launch_dense(const AccumulateArgs<T>& args, CudaStream stream) {
  const Layout& layout = args.layout;
  if (layout.group_axis == layout.axes - 1) {
    const dim3 grid = grid_of(args.tasks.max_items / layout.groups, grouped_rows(layout.groups),
                              args.tasks.count);
    accumulate_grouped_rows<T, Q><<<grid, grouped_threads, 0, stream>>>(args);
  } else if (layout.group_axis != no_axis) {
    launch_dense_columns<T, Q, true>(args, stream);
  } else if (layout.run() == 1) {
    launch_dense_columns<T, Q, false>(args, stream);
  } else {
    launch_dense_rows<T, Q>(args, stream);
  }
}

}  // namespace shardstream::cells::cuda
