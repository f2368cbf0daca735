// The sum of floats, from a tree in global memory to one pass at the rate of memory. Each rung of
// the ladder changes one thing. The last two rows are this program's own reduction, which adds in a
// fixed order, and CUB's.
#include <limits>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/ladders/ladder.hpp"
#include "experiments/ladders/rungs.cuh"
#include "experiments/numbers.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/device/device_reduce.cuh>
#endif

namespace shardstream::experiments::ladders {

constexpr OptionRow options[] = {
    {"reduction.count", OptionKind::count, "2^24", "2^20..",
     "Number of floats to add; 2^32 are 16 GiB."},
};

Table reduction(Bench& bench);
Table reduction_on_host(Bench& bench);

extern const Experiment about_reduction = {
    .name = "reduction",
    .group = "ladders",
    .summary = "The sum of floats, from a tree in global memory to one pass at the rate of memory.",
    .explanation =
        "Each rung of the ladder changes one thing: the memory that holds the tree, the threads "
        "that add, the number of elements per thread, the number of loads in flight, or the way "
        "in which warps and blocks combine their sums. The table names the file and line of each "
        "kernel (in src/experiments/ladders) and its factor over the previous rung. Expect "
        "barriers and launches to limit the first rungs, and memory to limit the last ones. 2^24 "
        "floats are 64 MiB. The L2 cache of a recent GPU holds a part of them, so the share may "
        "exceed 1; with reduction.count 2^32 it does not. The last two rows are this program's "
        "own reduction, which adds in a fixed order, and CUB's. Without a GPU, only the host "
        "reference is timed. Harris, Optimizing Parallel Reduction in CUDA; CUDA C++ Programming "
        "Guide, section Warp Shuffle Functions.",
    .reference =
        "Tesla V100, 2^24 floats, ms: global memory 4.609, shared memory 0.624, mask 0.399, "
        "interleaved 0.446, sequential 0.378, grid stride 0.278, four in flight 0.264, groups "
        "0.264, unrolled 0.263, atomics 39, block atomics 0.259.",
    .share = "of the rate of reading device memory",
    .options = options,
    .figure =
        {.look = Look::steps, .x = "rung", .y = "time", .log_y = true, .more_is_better = false},
    .needs = {.ceilings = {"device_read"}},
    .run = with_cuda<reduction>(),
    .run_host = reduction_on_host,
};

namespace {

/// The sum of unit_number() over the first `count` indices, in doubles.
double reference_sum(std::uint64_t count) {
  double sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) sum += unit_number(i);
  return sum;
}

std::vector<Column> varied_columns() {
  return {{"rung", ColumnType::text},
          {"kernel", ColumnType::text},
          {"factor", ColumnType::real},
          {"read", ColumnType::real, "GB/s"}};
}

}  // namespace

Table reduction_on_host(Bench& bench) {
  const std::uint64_t count = bench.options().count("reduction.count") / 4 * 4;
  if (const std::uint64_t max = bench.memory() / 2 / sizeof(float); count > max) {
    throw UsageError(formatted(
        "reduction.count: {} elements do not fit in memory: choose at most {}", count, max));
  }
  std::vector<float> x(count);
  for (std::uint64_t i = 0; i < count; ++i) x[i] = unit_number(i);
  double sum = 0;
  const Timing timing = bench.sample([&] {
    const auto begin = Clock::now();
    sum = 0;
    for (const float value : x) sum += value;
    return seconds_since(begin);
  });
  bench.verify(sum == reference_sum(count), "the sum on the host");
  const Measured& seconds = timing.seconds;
  Measurements rows(varied_columns(), {"time", ColumnType::real, "ms"});
  rows.add({"host reference", "-", 1.0,
            static_cast<double>(count) * sizeof(float) / seconds.value / 1e9},
           seconds.times(1e3), std::numeric_limits<double>::quiet_NaN(),
           "one thread, in doubles, in the order of the elements");
  return std::move(rows).table();
}

#if SHARDSTREAM_HAS_CUDA
namespace {

namespace cg = cooperative_groups;

constexpr unsigned warp = 32;

// --------------------------------------------------- one element per thread, one sum per block

/// The tree lies in global memory: every level reads and writes `scratch`.
constexpr Place global_place = kernel_below();
__global__ void sum_in_global(const float* x, std::uint64_t count, float* scratch, float* sums) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  scratch[i] = i < count ? x[i] : 0;
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) scratch[i] += scratch[i + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = scratch[i];
}

/// Which threads of a block add at each level of the tree.
enum class Tree {
  modulo,       ///< every 2s-th thread, found by a division
  mask,         ///< the same threads, found by a mask
  interleaved,  ///< the first threads, on words that are 2s apart
  sequential    ///< the first threads, on neighbouring words
};

/// Adds the words of the block in shared memory. The sum is in the first word.
template <Tree Kind>
__device__ void add_in_shared(float* words) {
  const unsigned t = threadIdx.x;
  if constexpr (Kind == Tree::sequential) {
    for (unsigned half = threads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (t < half) words[t] += words[t + half];
    }
  } else {
    for (unsigned s = 1; s < threads; s *= 2) {
      __syncthreads();
      if constexpr (Kind == Tree::interleaved) {
        if (2 * s * t < threads) words[2 * s * t] += words[2 * s * t + s];
      } else {
        const bool adds = Kind == Tree::modulo ? t % (2 * s) == 0 : (t & (2 * s - 1)) == 0;
        if (adds) words[t] += words[t + s];
      }
    }
  }
  __syncthreads();
}

constexpr Place shared_place = kernel_below(2);
template <Tree Kind>
__global__ void sum_in_shared(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  words[threadIdx.x] = i < count ? x[i] : 0;
  add_in_shared<Kind>(words);
  if (threadIdx.x == 0) sums[blockIdx.x] = words[0];
}

// ------------------------------------------------- many elements per thread, one sum per block

/// Each block adds every gridDim-th piece of `threads` elements.
constexpr Place stride_place = kernel_below();
__global__ void sum_grid_stride(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  float sum = 0;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * threads) {
    sum += x[i];
  }
  words[threadIdx.x] = sum;
  add_in_shared<Tree::sequential>(words);
  if (threadIdx.x == 0) sums[blockIdx.x] = words[0];
}

/// The sum of a thread, with four loads in flight: no load waits for the previous addition.
__device__ float sum_of_thread(const float* x, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  float a = 0, b = 0, c = 0, d = 0;
  for (; i + 3 * step < count; i += 4 * step) {
    a += x[i];
    b += x[i + step];
    c += x[i + 2 * step];
    d += x[i + 3 * step];
  }
  for (; i < count; i += step) a += x[i];
  return (a + b) + (c + d);
}

constexpr Place flight_place = kernel_below();
__global__ void sum_four_in_flight(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  words[threadIdx.x] = sum_of_thread(x, count);
  add_in_shared<Tree::sequential>(words);
  if (threadIdx.x == 0) sums[blockIdx.x] = words[0];
}

/// The sum of all lanes, in lane 0.
__device__ float sum_of_warp(float sum) {
  for (unsigned half = warp / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, half);
  }
  return sum;
}

/// The sum of all threads of a block, in thread 0: the warps add first, then one warp adds their
/// sums.
__device__ float sum_of_block(float sum) {
  __shared__ float of_warps[threads / warp];
  sum = sum_of_warp(sum);
  if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = sum;
  __syncthreads();
  if (threadIdx.x < warp) {
    sum = sum_of_warp(threadIdx.x < threads / warp ? of_warps[threadIdx.x] : 0);
  }
  return sum;
}

constexpr Place shuffle_place = kernel_below();
__global__ void sum_by_shuffles(const float* x, std::uint64_t count, float*, float* sums) {
  const float sum = sum_of_block(sum_of_thread(x, count));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

constexpr Place groups_place = kernel_below();
__global__ void sum_by_groups(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float of_warps[threads / warp];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<warp>(block);
  const float sum = cg::reduce(tile, sum_of_thread(x, count), cg::plus<float>());
  if (tile.thread_rank() == 0) of_warps[tile.meta_group_rank()] = sum;
  block.sync();
  if (tile.meta_group_rank() != 0) return;
  const float mine = tile.thread_rank() < threads / warp ? of_warps[tile.thread_rank()] : 0;
  const float all = cg::reduce(tile, mine, cg::plus<float>());
  if (tile.thread_rank() == 0) sums[blockIdx.x] = all;
}

/// The unrolled tree: the compiler knows every level, and the last levels need no barrier.
constexpr Place unrolled_place = kernel_below();
__global__ void sum_unrolled(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  const unsigned t = threadIdx.x;
  words[t] = sum_of_thread(x, count);
  __syncthreads();
#pragma unroll
  for (unsigned half = threads / 2; half >= warp; half /= 2) {
    if (t < half) words[t] += words[t + half];
    __syncthreads();
  }
  if (t >= warp) return;
  const float sum = sum_of_warp(words[t]);
  if (t == 0) sums[blockIdx.x] = sum;
}

// --------------------------------------------------------------------- atomics, in one launch

constexpr Place atomic_place = kernel_below();
__global__ void sum_by_atomics(const float* x, std::uint64_t count, float* sum) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) atomicAdd(sum, x[i]);
}

constexpr Place block_atomic_place = kernel_below();
__global__ void sum_by_block_atomics(const float* x, std::uint64_t count, float* sum) {
  const float mine = sum_of_block(sum_of_thread(x, count));
  if (threadIdx.x == 0) atomicAdd(sum, mine);
}

// ------------------------------------------------------------------------------ the last rung

/// Loads of 16 bytes, eight of them always in flight: the next load replaces a word as soon as it
/// has been added. There is no second launch: the last block to finish adds the sums of all blocks
/// in order. `finished` must be zero, and is zero again at the end.
constexpr Place wide_place = kernel_below();
__global__ void __launch_bounds__(threads)
    sum_in_wide_loads(const float4* x, std::uint64_t words, float* sums, unsigned* finished,
                      float* sum) {
  constexpr unsigned flight = 8, stretch = flight * threads;
  const auto add = [](const float4& word) { return (word.x + word.y) + (word.z + word.w); };
  const std::uint64_t step = std::uint64_t{gridDim.x} * stretch, whole = words / stretch * stretch;
  float parts[flight] = {};
  std::uint64_t i = std::uint64_t{blockIdx.x} * stretch + threadIdx.x;
  if (i < whole) {
    float4 word[flight];
#pragma unroll
    for (unsigned k = 0; k < flight; ++k) word[k] = __ldcs(&x[i + k * threads]);
    for (i += step; i < whole; i += step) {
#pragma unroll
      for (unsigned k = 0; k < flight; ++k) {
        parts[k] += add(word[k]);
        word[k] = __ldcs(&x[i + k * threads]);
      }
    }
#pragma unroll
    for (unsigned k = 0; k < flight; ++k) parts[k] += add(word[k]);
  }
  i = whole + blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  for (; i < words; i += std::uint64_t{gridDim.x} * threads) parts[0] += add(x[i]);
  float mine = 0;
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) mine += parts[k];
  mine = sum_of_block(mine);
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = mine;
    __threadfence();
    is_last = atomicAdd(finished, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  mine = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += threads) {
    mine += *const_cast<volatile float*>(&sums[b]);
  }
  mine = sum_of_block(mine);
  if (threadIdx.x == 0) {
    *sum = mine;
    *finished = 0;
  }
}

// ------------------------------------------------------------------------------ the experiment

void climb_trees(Sums& sums, const Data& data) {
  const auto tree = [&](const char* name, Place place, const char* sentence, BlockSums kernel) {
    sums.climb({name, place, sentence}, [&data, kernel] { add_blocks(data, kernel); });
  };
  tree("global memory", global_place, "every level of the tree goes through global memory",
       sum_in_global);
  tree("shared memory", shared_place, "the tree lies in shared memory",
       sum_in_shared<Tree::modulo>);
  tree("mask", shared_place, "a mask instead of a division finds the threads that add",
       sum_in_shared<Tree::mask>);
  tree("interleaved", shared_place, "neighbouring threads add, but their words conflict in banks",
       sum_in_shared<Tree::interleaved>);
  tree("sequential", shared_place, "neighbouring threads add neighbouring words: no conflicts",
       sum_in_shared<Tree::sequential>);
}

void climb_strided(Sums& sums, const Data& data) {
  const auto strided = [&](const char* name, Place place, const char* sentence, BlockSums kernel) {
    sums.climb({name, place, sentence}, [&data, kernel] { add_strided(data, kernel); });
  };
  strided("grid stride", stride_place, "each thread adds many elements before the tree begins",
          sum_grid_stride);
  strided("four in flight", flight_place, "four loads are in flight; none waits for an addition",
          sum_four_in_flight);
  strided("shuffles", shuffle_place, "warps add in registers, with one barrier per block",
          sum_by_shuffles);
  strided("groups", groups_place, "the same with cooperative groups", sum_by_groups);
  strided("unrolled", unrolled_place, "the tree in shared memory, unrolled", sum_unrolled);
}

void climb_to_the_end(Bench& bench, Sums& sums, const Data& data) {
  constexpr std::uint64_t max = std::uint64_t{1} << 24;
  if (data.count <= max) {
    // A single chain of additions has a larger error than trees and short chains.
    sums.climb({"atomics", atomic_place,
                "an atomic addition for each element: all wait for one word", 1e-1},
               [&] {
                 data.sum.clear(data.stream);
                 sum_by_atomics<<<blocks_for(data.count, threads), threads, 0, data.stream>>>(
                     data.x.data(), data.count, data.sum.data());
                 check_launch("sum_by_atomics");
               });
  } else {
    bench.note(
        "The rung of one atomic addition per element is not measured: a float above 2^24 no longer "
        "grows when an element below 1 is added.");
  }
  sums.climb({"block atomics", block_atomic_place, "one atomic addition for each block"}, [&] {
    data.sum.clear(data.stream);
    sum_by_block_atomics<<<data.blocks, threads, 0, data.stream>>>(data.x.data(), data.count,
                                                                   data.sum.data());
    check_launch("sum_by_block_atomics");
  });
  sums.climb({"wide loads", wide_place,
              "16-byte loads, eight always in flight; the last block adds all sums"},
             [&] {
               constexpr unsigned blocks_each = 2;  // more would spread the accesses further
               sum_in_wide_loads<<<blocks_each * data.multiprocessors, threads, 0, data.stream>>>(
                   reinterpret_cast<const float4*>(data.x.data()), data.count / 4, data.sums.data(),
                   data.finished.data(), data.sum.data());
               check_launch("sum_in_wide_loads");
             });
}

}  // namespace

Table reduction(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t max =
      static_cast<std::uint64_t>(0.4 * static_cast<double>(bench.memory())) / sizeof(float);
  const std::uint64_t count = bench.options().count("reduction.count") / 4 * 4;
  if (count > max) {
    throw UsageError(formatted(
        "reduction.count: {} elements do not fit in device memory: choose at most {}", count, max));
  }
  const Data data(count, gpu.properties(), gpu.stream());
  Ladder ladder(bench, gpu, {}, {"read", ColumnType::real, "GB/s"}, 1e9);
  ladder.begin({}, static_cast<double>(count) * sizeof(float), bench.ceiling("device_read"));
  Sums sums(ladder, data, reference_sum(count));
  climb_trees(sums, data);
  climb_strided(sums, data);
  climb_to_the_end(bench, sums, data);
  const FixedOrder fixed(data);
  sums.climb(
      {"fixed order", {}, "this program's reduction: the same bits on any number of GPUs"},
      [&] { fixed.enqueue(); }, [&] { return fixed.sum(); });
  std::size_t bytes = 0;
  const auto cub_sum = [&](void* scratch) {
    check(cub::DeviceReduce::Sum(scratch, bytes, data.x.data(), data.sum.data(),
                                 static_cast<std::int64_t>(count), data.stream),
          "cub::DeviceReduce::Sum");
  };
  cub_sum(nullptr);
  const DeviceArray<std::byte> scratch(bytes);
  sums.climb({"CUB", {}, "cub::DeviceReduce::Sum, the yardstick"},
             [&] { cub_sum(scratch.data()); });
  bench.note("A factor is the time of the previous rung over the time of this one.");
  return std::move(ladder).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
