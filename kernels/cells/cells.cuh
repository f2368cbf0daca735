// Accumulation on a GPU: a thread per accumulator.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cells/block.cuh"
#include "kernels/cells/cells.hpp"
#include "kernels/cells/dense.cuh"
#include "kernels/cells/sums.cuh"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells::cuda {

inline constexpr unsigned threads = 128, warp = 32, all_threads = 0xffffffffu;

/// One thread per item. Neighbouring threads read neighbouring elements if the innermost axis is
/// kept, or has lanes.
template <class T, class Q, bool Skips>
__global__ void __launch_bounds__(threads, 2)
    accumulate_items(const __grid_constant__ AccumulateArgs<T> args) {
  const Layout& layout = args.layout;
  for (std::uint64_t t = blockIdx.y; t < args.tasks.count; t += gridDim.y) {
    const Task task = args.tasks[t];
    const std::uint64_t items = item_count(layout, task.extent.counts());
    const std::uint64_t number = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
    if (number >= items) continue;
    const Item item(layout, task, number);
    if (!is_in(args.cells, item.cell)) continue;
    ThreadAccumulator<T, Q, Skips> sums(args, task, item);
    sums.load();
    for (std::uint64_t b = task.first_block; b < task.end_block; ++b) {
      Walk walk;
      if (!walk.begin(layout, args.tasks.block(b), item)) continue;
      do {
        if (layout.run() > 1) {
          add_runs(args.elements, walk, layout, item.lane, sums);
        } else {
          add_column(args.elements, walk,
                     steps_of(layout, walk.innermost, item, walk.inner_first, walk.inner_count),
                     sums);
        }
      } while (walk.next());
    }
    sums.store();
  }
}

/// Where a row of 32 elements is, and which of them belong to the item.
struct RowPart {
  std::uint64_t element;  ///< position of the row's first element, which may not exist
  unsigned begin, end;    ///< of the 32
};

/// Rows of 32 elements, one for each thread of a warp, in shared memory. The threads of the warp
/// read each row together, so that neighbouring threads read neighbouring elements.
template <class T>
class WarpRows {
 public:
  /// Copies the rows of all threads. Called by the whole warp.
  __device__ void copy(const T* elements, const RowPart& own) {
    const unsigned lane = threadIdx.x % warp;
    const std::uint64_t first = __shfl_sync(all_threads, own.element, 0);
    const std::uint64_t step = __shfl_sync(all_threads, own.element, 1) - first;
    const bool is_usual = own.begin == 0 && own.end == warp && own.element == first + lane * step;
    if (__all_sync(all_threads, is_usual)) {
      copy_rows(lane, [&](unsigned i) { return __ldg(elements + (first + lane) + i * step); });
    } else {
      parts_[lane] = own;
      __syncwarp();
      copy_rows(lane, [&](unsigned i) {
        const RowPart part = parts_[i];
        const bool exists = part.begin <= lane && lane < part.end;
        return exists ? __ldg(elements + (part.element + lane)) : T{};
      });
    }
    __syncwarp();
  }
  __device__ T operator[](unsigned i) const { return rows_[threadIdx.x % warp][i]; }

 private:
  static constexpr unsigned pitch = warp + (sizeof(T) == 8 ? 1 : 4 / sizeof(T));
  static constexpr unsigned at_once = sizeof(T) == 8 ? 16 : 32;

  template <class Load>
  __device__ void copy_rows(unsigned lane, const Load& load) {
    for (unsigned first = 0; first < warp; first += at_once) {
      T value[at_once];
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) value[i] = load(first + i);
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) rows_[first + i][lane] = value[i];
    }
  }

  T rows_[warp][pitch];
  RowPart parts_[warp];
};

/// Adds the own row of a thread.
template <class T, class Sums>
__device__ void add_row(const WarpRows<T>& rows, const RowPart& part, const Column& column,
                        std::uint64_t from, Sums& sums) {
  ElementPosition place = column.at(from + part.begin);
  const auto add = [&](unsigned i) {
    sums.add(rows[i], place);
    place.value += column.inner_step.value;
    place.weight += column.inner_step.weight;
  };
  if (part.begin == 0 && part.end == warp) {
#pragma unroll 8
    for (unsigned i = 0; i < warp; ++i) add(i);
  } else {
    for (unsigned i = part.begin; i < part.end; ++i) add(i);
  }
}

/// Adds the columns, which are rows of memory, of those threads that have one. Called by the whole
/// warp.
template <class T, class Sums>
__device__ void add_rows(const T* elements, WarpRows<T>& rows, const Column& column,
                         bool has_column, Sums& sums) {
  const std::uint64_t last = column.inner_first + column.inner_count;
  const Steps runs =
      !has_column ? Steps{} : every(column.inner_first / warp, (last + warp - 1) / warp, 1, 0);
  for (std::uint64_t r = 0; __any_sync(all_threads, r < runs.count); ++r) {
    const std::uint64_t from = runs[r] * warp;
    RowPart part{0, 0, 0};
    if (r < runs.count) {
      part.element = column.place.element + (from - column.inner_first) * column.inner_step.element;
      part.begin = static_cast<unsigned>(from < column.inner_first ? column.inner_first - from : 0);
      part.end = static_cast<unsigned>(last - from < warp ? last - from : warp);
    }
    rows.copy(elements, part);
    add_row(rows, part, column, from, sums);
    __syncwarp();
  }
}

/// One thread per item, if the innermost axis is reduced and has no lanes. `OneColumn`: each task
/// has one block, and no other axis is reduced.
template <class T, class Q, bool Skips, bool OneColumn>
__global__ void __launch_bounds__(threads, 3)
    accumulate_rows(const __grid_constant__ AccumulateArgs<T> args) {
  __shared__ WarpRows<T> rows_of_warps[threads / warp];
  WarpRows<T>& rows = rows_of_warps[threadIdx.x / warp];
  const Layout& layout = args.layout;
  for (std::uint64_t t = blockIdx.y; t < args.tasks.count; t += gridDim.y) {
    const Task task = args.tasks[t];
    const std::uint64_t items = item_count(layout, task.extent.counts());
    const std::uint64_t thread = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
    if (thread - threadIdx.x % warp >= items) continue;  // the whole warp
    const std::uint64_t number = thread < items ? thread : items - 1;
    const auto counts = [&](const auto& item) {
      return thread < items && is_in(args.cells, item.cell);
    };
    if constexpr (OneColumn) {
      const ColumnItem item(layout, task, args.tasks.block(task.first_block), number);
      ThreadAccumulator<T, Q, Skips> sums(args, task, item, counts(item));
      if (counts(item)) sums.load();
      add_rows(args.elements, rows, item.column, counts(item) && item.is_in_block, sums);
      if (counts(item)) sums.store();
    } else {
      const Item item(layout, task, number);
      ThreadAccumulator<T, Q, Skips> sums(args, task, item, counts(item));
      if (counts(item)) sums.load();
      for (std::uint64_t b = task.first_block; b < task.end_block; ++b) {
        Walk walk;
        // Items may differ in the number of steps along outer axes.
        bool more = walk.begin(layout, args.tasks.block(b), item) && counts(item);
        while (__any_sync(all_threads, more)) {
          add_rows(args.elements, rows, walk, more, sums);
          more = more && walk.next();
        }
      }
      if (counts(item)) sums.store();
    }
  }
}

template <class T>
void launch_accumulate(const AccumulateArgs<T>& args, CudaStream stream) {
  if (args.tasks.count == 0 || args.tasks.max_items == 0) return;
  const bool has_runs = args.layout.run() > 1, by_rows = args.layout.by_rows && !has_runs;
  const bool one_column = args.tasks.has_one_block && args.layout.has_one_column();
  const bool by_column = args.layout.has_one_column() && !by_rows && (one_column || !has_runs);
  const std::uint64_t width = by_column ? block_threads / args.units.joined_units : threads;
  const dim3 grid =
      grid_of(args.tasks.max_items, width, args.tasks.count / args.units.joined_units);
  const auto launch = [&](auto quantities, auto skips) {
    using Known = decltype(quantities);
    using Q = std::conditional_t<is_fixed<Known>, Known, LaneQuantities>;
    // Bytes have kernels for dense rows: other rows with runs are rare.
    using RunQuantities = std::conditional_t<sizeof(T) == 1, LaneQuantities, Q>;
    if constexpr (!skips()) {
      if (is_dense(args)) {
        if constexpr (is_fixed<Q> && std::floating_point<T>) {
          return launch_dense<T, Q>(args, stream);
        } else if constexpr (is_fixed<Q>) {
          if (has_runs) return launch_dense_rows<T, Q>(args, stream);
        } else if (has_runs && quantities == WithPowers::all()) {
          return launch_dense_rows<T, WithPowers>(args, stream);
        }
      }
    }
    if (by_rows && one_column) {
      accumulate_rows<T, Q, skips(), true><<<grid, threads, 0, stream>>>(args);
    } else if (by_rows) {
      accumulate_rows<T, LaneQuantities, skips(), false><<<grid, threads, 0, stream>>>(args);
    } else if (by_column && has_runs) {
      accumulate_columns<T, RunQuantities, skips(), true><<<grid, block_threads, 0, stream>>>(args);
    } else if (by_column) {
      accumulate_columns<T, Q, skips(), false><<<grid, block_threads, 0, stream>>>(args);
    } else {
      accumulate_items<T, LaneQuantities, skips()><<<grid, threads, 0, stream>>>(args);
    }
  };
  // Integers with missing values, and several reduced axes, are rare: they have no kernels of their
  // own for common quantities, since each kernel takes time to compile.
  const Quantities all = args.choice.quantities;
  if (args.choice.skip == Skip::none) {
    with_common_quantities(all, [&](auto quantities) { launch(quantities, std::false_type{}); });
  } else if constexpr (std::floating_point<T>) {
    with_common_quantities(all, [&](auto quantities) { launch(quantities, std::true_type{}); });
  } else {
    launch(all, std::true_type{});
  }
}

}  // namespace shardstream::cells::cuda
