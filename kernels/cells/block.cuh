// Accumulation on a GPU if one axis is reduced. An accumulator then has one column of each block,
// or one row, or the part of it that belongs to a lane and a group.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/sums.cuh"
#include "kernels/cells/tree.hpp"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells::cuda {

/// Threads of accumulate_columns, and blocks on a multiprocessor: as many as registers allow, to
/// hide the latency of memory.
inline constexpr unsigned block_threads = 256;
template <class T, class Q>
inline constexpr unsigned blocks_at_once = (std::floating_point<T> ? 2 : 1) + (is_fixed<Q> ? 1 : 0);

/// Shared memory for moments of all threads.
template <class T, class Q>
__device__ std::uint64_t* shared_moments() {
  __shared__ std::uint64_t words[max_words<T, Q> * block_threads];
  return words;
}

/// Joins the moments of `lanes` neighbouring threads, a power of two up to a block. The first of
/// them has the result. Called by the whole block. The threads that join are neighbours, so that
/// few warps do it.
template <class T, class Q>
__device__ void join_threads(Q quantities, Moments<T>& m, unsigned lanes) {
  if (lanes == 1) return;
  std::uint64_t* const moved = shared_moments<T, Q>();
  const unsigned t = threadIdx.x;
  const auto load = [&](unsigned i) {
    return Moments<T>::load(quantities, moved + i, block_threads);
  };
  m.store(quantities, moved + t, block_threads);
  __syncthreads();
  for (unsigned count = block_threads / 2, width = lanes; width > 1; count /= 2, width /= 2) {
    if (t < count) m = join(quantities, load(2 * t), load(2 * t + 1));
    __syncthreads();
    if (t < count) m.store(quantities, moved + t, block_threads);
    __syncthreads();
  }
  if (t % lanes == 0) m = load(t / lanes);
  __syncthreads();
}

/// The threads of a block that have the same unit, and the place of this thread among them.
struct UnitThreads {
  unsigned units, width, unit;
  std::uint64_t number;  ///< of the thread among those of all blocks that have the unit

  __device__ explicit UnitThreads(std::uint64_t joined_units, unsigned threads = block_threads)
      : units(static_cast<unsigned>(joined_units)),
        width(threads / units),
        unit(threadIdx.x / width),
        number(std::uint64_t{blockIdx.x} * width + threadIdx.x % width) {}
};

/// Joins the moments of threads with the same item of different units. The first of them has the
/// result. Called by the whole block.
template <class T, class Q>
__device__ void join_far_threads(Q quantities, Moments<T>& m, const UnitThreads& own) {
  std::uint64_t* const moved = shared_moments<T, Q>();
  const unsigned t = threadIdx.x;
  for (unsigned distance = 1; distance < own.units; distance *= 2) {
    m.store(quantities, moved + t, block_threads);
    __syncthreads();
    if (own.unit % (2 * distance) == 0) {
      m = join(quantities, m,
               Moments<T>::load(quantities, moved + t + distance * own.width, block_threads));
    }
    __syncthreads();
  }
}

/// Some tasks, and the first block of each. A thread would otherwise read their words one
/// after another, each with the latency of memory.
class SharedTasks {
 public:
  /// Called by the whole block, which has finished using the tasks before.
  __device__ void copy(const Tasks& tasks, std::uint64_t first, unsigned count) {
    const auto each = static_cast<unsigned>(Task::words(tasks.axes));
    for (unsigned w = threadIdx.x; w < count * each; w += block_threads) {
      tasks_[w] = tasks.words[first * each + w];
    }
    __syncthreads();
    const auto of_block = static_cast<unsigned>(Block::words(tasks.axes));
    for (unsigned w = threadIdx.x; w < count * of_block; w += block_threads) {
      const std::uint64_t block = task(w / of_block, tasks.axes).first_block;
      blocks_[w] = tasks.blocks[block * of_block + w % of_block];
    }
    __syncthreads();
  }
  __device__ Task task(unsigned t, unsigned axes) const {
    return {tasks_ + t * Task::words(axes), axes};
  }
  __device__ Block block(unsigned t, unsigned axes) const {
    return {blocks_ + t * Block::words(axes), axes};
  }

 private:
  std::uint64_t tasks_[max_joined_units * Task::words(max_axes)];
  std::uint64_t blocks_[max_joined_units * Block::words(max_axes)];
};

/// Calls use(threads, task, block, items) for each task of a block of threads, in which the same
/// number of threads has each of joined_units units.
template <class T, class Use>
__device__ void for_each_task(const AccumulateArgs<T>& args, const Use& use) {
  __shared__ SharedTasks tasks;
  const unsigned axes = args.tasks.axes;
  const UnitThreads own(args.units.joined_units);
  for (std::uint64_t t = std::uint64_t{blockIdx.y} * own.units; t < args.tasks.count;
       t += std::uint64_t{gridDim.y} * own.units) {
    tasks.copy(args.tasks, t, own.units);
    const Task task = tasks.task(own.unit, axes);
    use(own, task, tasks.block(own.unit, axes), item_count(args.layout, task.extent.counts()));
    __syncthreads();
  }
}

/// Adds the columns of an item in the blocks of a task, the first of which is in shared memory.
/// Returns whether the accumulator is to be stored.
template <class T, class Sums>
__device__ bool add_columns(const AccumulateArgs<T>& args, const Task& task, const Block& first,
                            std::uint64_t number, Sums& sums) {
  const Layout& layout = args.layout;
  bool is_loaded = args.units.is_whole();
  for (std::uint64_t b = task.first_block; b < task.end_block; ++b) {
    const Block block = b == task.first_block ? first : args.tasks.block(b);
    const ColumnItem item(layout, task, block, number);
    if (!item.is_in_block) continue;
    const Column& column = item.column;
    const Steps steps = steps_of(layout, item.axis, item, column.inner_first, column.inner_count);
    if (steps.count == 0) continue;  // a batch may have no steps of a group
    if (!is_loaded) sums.load();
    is_loaded = true;
    add_column(args.elements, column, steps, sums);
  }
  return is_loaded;
}

/// One thread per item, which adds its columns, or with `Runs`, a row of the only block. A block of
/// threads has the same items of each of joined_units units.
template <class T, class Q, bool Skips, bool Runs>
__global__ void __launch_bounds__(block_threads, (blocks_at_once<T, Q>))
    accumulate_columns(const __grid_constant__ AccumulateArgs<T> args) {
  for_each_task(
      args, [&](const UnitThreads& own, const Task& task, const Block& block, std::uint64_t items) {
        const std::uint64_t number = own.number < items ? own.number : 0;
        const ColumnItem item(args.layout, task, block, number);
        bool counts = own.number < items && is_in(args.cells, item.cell);
        ThreadAccumulator<T, Q, Skips> sums(args, task, item, counts);
        if constexpr (Runs) {
          if (counts) sums.load();
          if (counts && item.is_in_block) {
            add_runs(args.elements, item.column, args.layout, item.lane, sums);
          }
        } else {
          counts = counts && add_columns(args, task, block, number, sums);
        }
        if (args.units.joined_lanes * own.units == 1) {
          if (counts) sums.store();
        } else {
          const Q quantities(args.choice.quantities);
          Moments<T> m = sums.moments();
          if (args.units.joined_lanes > 1) {
            join_threads(quantities, m, static_cast<unsigned>(args.units.joined_lanes));
          }
          if (own.units > 1) join_far_threads(quantities, m, own);
          if (counts && item.lane % args.units.joined_lanes == 0 && own.unit == 0) sums.store(m);
        }
      });
}

}  // namespace shardstream::cells::cuda
