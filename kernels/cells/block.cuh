// Accumulation on a GPU if a task is one block and one axis is reduced.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/sums.cuh"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells::cuda {

/// Threads of accumulate_block, and blocks on a multiprocessor: as many as registers allow, to hide
/// the latency of memory.
inline constexpr unsigned block_threads = 256;
template <class T, Set S, bool Runs>
constexpr unsigned blocks_at_once() {
  if (S > Set::squares) return reduce::exceeds_double<T> ? 1 : 2;
  if (!std::floating_point<T>) return 2;
  return Runs || S == Set::squares || sizeof(T) == sizeof(double) ? 3 : 4;
}

/// Joins the moments of `lanes` neighbouring threads, up to a warp. The first of them has the
/// result. Called by whole warps.
template <class T, Set S>
__device__ void join_threads(Moments<T, S>& m, unsigned lanes) {
  for (unsigned distance = 1; distance < lanes; distance *= 2) {
    std::uint64_t words[words_of<T, S>];
    m.store(words, 1);
#pragma unroll
    for (unsigned w = 0; w < words_of<T, S>; ++w) {
      words[w] = __shfl_down_sync(0xffffffffu, words[w], distance);
    }
    m = join(m, Moments<T, S>::load(words, 1));
  }
}

/// Joins the moments of `units` threads that are `width` apart. The first of them has the result.
/// Called by the whole block.
template <class T, Set S>
__device__ void join_far_threads(Moments<T, S>& m, unsigned units, unsigned width) {
  __shared__ std::uint64_t moved[words_of<T, S> * block_threads];
  const unsigned t = threadIdx.x;
  for (unsigned distance = 1; distance < units; distance *= 2) {
    m.store(moved + t, block_threads);
    __syncthreads();
    if (t / width % (2 * distance) == 0) {
      m = join(m, Moments<T, S>::load(moved + t + distance * width, block_threads));
    }
    __syncthreads();
  }
}

/// The same if each task is one block, and an item has one column of it, or with `Runs`, one row.
/// A block has the same items of each of joined_units units.
template <class T, Set S, bool Skips, bool Runs>
__global__ void __launch_bounds__(block_threads, (blocks_at_once<T, S, Runs>()))
    accumulate_block(const __grid_constant__ AccumulateArgs<T> args) {
  const Layout& layout = args.layout;
  const auto units = static_cast<unsigned>(args.joined_units);
  const unsigned width = block_threads / units;
  for (std::uint64_t t = std::uint64_t{blockIdx.y} * units; t < args.task_count;
       t += std::uint64_t{gridDim.y} * units) {
    const Task task(args.tasks + (t + threadIdx.x / width) * task_words(layout.axes), layout.axes);
    const std::uint64_t items = item_count(layout, task.extent.counts());
    const std::uint64_t number = std::uint64_t{blockIdx.x} * width + threadIdx.x % width;
    const Item item(layout, task, number < items ? number : 0);
    const bool counts = number < items && is_in(args.cells, item.cell);
    ThreadAccumulator<T, S, Skips> sums(args, task, item, counts);
    Walk walk;
    if (counts &&
        walk.begin(layout, args.blocks + task.first_block * block_words(layout.axes), item)) {
      if constexpr (Runs) {
        add_runs(args.elements, walk, layout, item.lane, sums);
      } else {
        const Steps steps =
            steps_of(layout, walk.innermost, item, walk.inner_first, walk.inner_count);
        const Place step{steps.step * walk.inner_step.element, steps.step * walk.inner_step.value,
                         steps.step * walk.inner_step.weight};
        add_strided(args.elements, walk.at(steps.first), step, steps.count, sums);
      }
    }
    if (args.joined_lanes * units == 1) {
      if (counts) sums.store();
      continue;
    }
    Moments<T, S> m = sums.moments();
    if (args.joined_lanes > 1) join_threads(m, static_cast<unsigned>(args.joined_lanes));
    if (units > 1) join_far_threads(m, units, width);
    if (counts && item.lane % args.joined_lanes == 0 && threadIdx.x < width) sums.store(m);
  }
}

}  // namespace shardstream::cells::cuda
