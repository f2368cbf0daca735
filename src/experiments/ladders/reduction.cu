// The sum of floats, from one launch per level of a tree to one pass at the rate of memory. Each
// rung of the ladder changes one thing. The last two rows are this program's own reduction, which
// adds in a fixed order, and CUB's.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/ladders/ladder.hpp"
#include "experiments/ladders/own_sum.cuh"
#include "experiments/ladders/rungs.cuh"
#include "experiments/ladders/thread_sum.cuh"
#include "experiments/launch_attributes.cuh"
#include "experiments/numbers.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#endif

namespace shardstream::experiments::ladders {

constexpr OptionRow options[] = {
    {"reduction.count", OptionKind::count, "auto", "auto|2^20..",
     "Number of floats to add; auto: 2^24 and, on a GPU without --quick, 2^30, which are 4 GiB."},
    {"reduction.kernel", OptionKind::text, "", "",
     "A file with a kernel of your own, the last rung: FILE.cu or FILE.cu:FUNCTION."},
};

Table reduction(Bench& bench);
Table reduction_on_host(Bench& bench);

namespace {

/// The time in ms in which device memory reads and writes the bytes of a rung. The rungs that
/// memory does not limit have none.
double time_of_memory(const MeasuredRow& row) {
  constexpr std::array<std::string_view, 6> trees = {"pairs", "barriers",    "shared memory",
                                                     "mask",  "interleaved", "sequential"};
  const bool is_tree = std::ranges::find(trees, row.text("rung")) != trees.end();
  return is_tree ? std::numeric_limits<double>::quiet_NaN()
                 : row["bytes"] / row.ceiling("device_read");
}

}  // namespace

extern const Experiment about_reduction = {
    .name = "reduction",
    .group = "ladders",
    .summary = "The sum of floats, from one launch per level of a tree to one pass over memory.",
    .explanation =
        {
            .question =
                "Which steps turn a slow sum of floats into one pass at the rate of memory?",
            .varies =
                "Each rung changes one thing: which elements are added, what separates the levels "
                "of the tree (launches or barriers), the memory that holds the tree, the threads "
                "that add, the elements and the loads in flight per thread, and the way in which "
                "warps and blocks combine their sums. `tiles of 4` to `groups` double the lanes of "
                "a cooperative group from 4 to 32. `coalesced threads` and `shuffles` differ from "
                "`groups`, and `grid sync` from `shuffles`. `dependent launch` lets the second "
                "launch begin while the first one adds, and `clusters` adds the sums of 8 blocks "
                "in the shared memory of one of them; both need compute capability 9.0. The table "
                "names the file and line of each kernel (in src/experiments/ladders), its factors "
                "over the previous rung and over the first one, the `registers` of a thread, the "
                "`shared` memory of a block, and the theoretical `occupancy`. `wave_occupancy` is "
                "the mean "
                "of the occupancy over the waves of the grid, calculated as if all blocks took "
                "equally long. The last two rows of a case are this program's own reduction, "
                "which adds in a fixed order, and CUB's. With 2^24 floats, the launches and the "
                "last blocks take a part of the time; with 2^30 floats, memory takes almost all "
                "of it. With --quick or a given count, there is only one case. "
                "One atomic addition for each element is in the experiment atomics. Without a GPU, "
                "only the host reference is timed.",
            .expectation =
                "The first rung reads two words and writes one for each element in each of its "
                "log2(count) launches: expect it to take two to three times log2(count) as long as "
                "the last rungs. Expect launches, barriers and the division of a modulo to limit "
                "the trees with one element per thread. From `grid stride` on, each thread adds "
                "many elements, and the number of blocks is that of the occupancy API; expect "
                "memory to limit these rungs, and the way in which warps and blocks combine their "
                "sums to matter little. A tile of n lanes adds in log2(n) steps and leaves 512 / n "
                "words of a block in shared memory: 128 for 4 lanes and 16 for 32, which is little "
                "beside the elements of the block. Their expected time is that of their bytes at "
                "the rate of reading device memory. Launches and the sums of the blocks come on "
                "top, which counts for few elements and not for many. A dependent launch saves a "
                "part of the time between two kernels, which matters most for few elements. "
                "Clusters save work only on the sums of blocks, so expect them to gain little. The "
                "best number of loads in flight depends on the GPU.",
            .pitfalls =
                "2^24 floats are 64 MiB. The L2 cache of a recent GPU holds a part of them, so the "
                "share may exceed 1, and launches take a large part of the time: compare the rungs "
                "by the larger case. coalesced_threads() may hold any of the lanes of a warp, so "
                "its kernel does not rely on all of them. A compiler may unroll loops by itself: "
                "loops over the levels of a tree are not unrolled before the rung `unrolled`. A "
                "kernel that begins early must wait before it reads what the previous one writes. "
                "A block may write to the shared memory of another one only after that one has "
                "begun, and before it ends: barriers of the cluster ensure both.",
        },
    .read_on = {{Guide::harris},
                {Guide::programming, "Warp Shuffle Functions"},
                {Guide::programming, "Cooperative Groups"},
                {Guide::programming, "Occupancy Calculator"},
                {Guide::programming, "Programmatic Dependent Launch and Synchronization"},
                {Guide::programming, "Thread Block Clusters"},
                {Guide::programming, "Distributed Shared Memory"}},
    .reference =
        "Tesla V100, 2^24 floats, ms: global memory 4.609, shared memory 0.624, mask 0.399, "
        "interleaved 0.446, sequential 0.378, grid stride 0.278, 4 in flight 0.264, groups 0.264, "
        "block atomics 0.259.",
    .share = "of the rate of reading device memory",
    .options = options,
    .expected = time_of_memory,
    .exercise = {.task = "Predict the time in ms of the rungs `global memory`, `grid stride` and "
                         "`streaming` for the smaller count, from this count and your GPU's rate "
                         "of reading memory. Which times are longer, and why?",
                 .rows = {{{"rung", "global memory"}},
                          {{"rung", "grid stride"}},
                          {{"rung", "streaming"}}}},
    .figure = {.look = Look::steps,
               .x = "rung",
               .y = "time",
               .panel = "case",
               .log_y = true,
               .more_is_better = false},
    .needs = {.ceilings = {"device_read"}},
    .run = with_cuda<reduction>(),
    .run_host = reduction_on_host,
};

namespace {

constexpr std::uint64_t few = std::uint64_t{1} << 24, many = std::uint64_t{1} << 30;

/// The given number of floats, as a multiple of 4; by default few.
std::uint64_t count_of(const Options& options) {
  return options.is_auto("reduction.count") ? few : options.count("reduction.count") / 4 * 4;
}

/// The case of a row: "2^24 floats".
std::string case_of(std::uint64_t count) {
  return std::has_single_bit(count) ? formatted("2^{} floats", std::countr_zero(count))
                                    : formatted("{} floats", count);
}

/// The sum of unit_number() over the first `count` indices, in doubles. All sums are exact. Four of
/// them grow at the same time, so that an addition need not wait for the one before.
double reference_sum(std::uint64_t count) {
  std::array<double, 4> sums = {};
  for (std::uint64_t i = 0; i < count; ++i) sums[i % sums.size()] += unit_number(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

Table reduction_on_host(Bench& bench) {
  const std::uint64_t count = count_of(bench.options());
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
  const auto elements = static_cast<double>(count);
  Measurements rows(columns_of({{"case", ColumnType::text}}, {"read", ColumnType::real, "GB/s"}),
                    {"time", ColumnType::real, "ms"}, Rows::of_kernels);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  rows.add({case_of(count), "host reference", "-", none, none, none, none, 1.0, 1.0,
            timing.rate(elements * sizeof(float)).value},
           timing.seconds.times(1e3), none, "one thread, in doubles, in the order of the elements",
           {elements, elements * sizeof(float)}, none);
  return std::move(rows).table();
}

#if SHARDSTREAM_HAS_CUDA
namespace {

namespace cg = cooperative_groups;

constexpr unsigned flight = 8;  // loads, from the rung `unrolled` on

// ------------------------------------------------------- one launch for each level of the tree

/// Every element receives the sum of itself and the element `stride` behind it. With strides of 1,
/// 2, 4, ... the first element becomes the sum of all. Two arrays take turns as `from` and `to`, so
/// that no thread reads an element that another one changes.
constexpr SourceLine everywhere_place = kernel_below();
__global__ void add_everywhere(const float* from, float* to, std::uint64_t count,
                               std::uint64_t stride) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= count) return;
  to[i] = i + stride < count ? from[i] + from[i + stride] : from[i];
}

/// Only the first element of each pair: the others do not contribute to the first element of all.
constexpr SourceLine pairs_place = kernel_below();
__global__ void add_pairs(const float* from, float* to, std::uint64_t count, std::uint64_t stride) {
  const std::uint64_t i = (blockIdx.x * std::uint64_t{threads} + threadIdx.x) * 2 * stride;
  if (i >= count) return;
  to[i] = i + stride < count ? from[i] + from[i + stride] : from[i];
}

// --------------------------------------------------- one element per thread, one sum per block

/// A block adds its elements in one launch, with a barrier before each level. Every level reads and
/// writes `scratch`.
constexpr SourceLine barriers_place = kernel_below();
__global__ void sum_in_global(const float* x, std::uint64_t count, float* scratch, float* sums) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  scratch[i] = i < count ? x[i] : 0;
#pragma unroll 1
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    __syncthreads();
    if (threadIdx.x % unknown(2 * s) == 0) scratch[i] += scratch[i + s];
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

/// Adds the words of the block in shared memory. The sum is in the first word. With known bounds
/// the compiler would unroll the loop, and would replace the modulo by a mask.
template <Tree Kind>
__device__ void add_in_shared(float* words) {
  const unsigned t = threadIdx.x;
  if constexpr (Kind == Tree::sequential) {
#pragma unroll 1
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      __syncthreads();
      if (t < half) words[t] += words[t + half];
    }
  } else {
#pragma unroll 1
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
      __syncthreads();
      if constexpr (Kind == Tree::interleaved) {
        if (2 * s * t < blockDim.x) words[2 * s * t] += words[2 * s * t + s];
      } else {
        const bool adds = Kind == Tree::modulo ? t % unknown(2 * s) == 0 : (t & (2 * s - 1)) == 0;
        if (adds) words[t] += words[t + s];
      }
    }
  }
  __syncthreads();
}

constexpr SourceLine shared_place = kernel_below(2);
template <Tree Kind>
__global__ void sum_in_shared(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  words[threadIdx.x] = i < count ? x[i] : 0;
  add_in_shared<Kind>(words);
  if (threadIdx.x == 0) sums[blockIdx.x] = words[0];
}

// ------------------------------------------------- many elements per thread, one sum per block

// With a minimum of few blocks in their launch bounds, these kernels have the registers for all
// loads in flight. Otherwise the compiler would begin to add before it has issued them all.

constexpr SourceLine flight_place = kernel_below(2);
template <unsigned Flight>
__global__ void __launch_bounds__(threads, 1)
    sum_in_flight(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  words[threadIdx.x] = sum_of_thread<Flight>(x, count);
  add_in_shared<Tree::sequential>(words);
  if (threadIdx.x == 0) sums[blockIdx.x] = words[0];
}

/// The same tree. The compiler knows the number of its levels and unrolls them.
constexpr SourceLine unrolled_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_unrolled(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float words[threads];
  const unsigned t = threadIdx.x;
  words[t] = sum_of_thread<flight>(x, count);
#pragma unroll
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) words[t] += words[t + half];
  }
  __syncthreads();
  if (t == 0) sums[blockIdx.x] = words[0];
}

/// The first warp adds the words of the block, after a barrier, and stores their sum.
template <unsigned Count>
__device__ void let_first_warp_add(const float (&words)[Count], float* sums) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<warp>(block);
  block.sync();
  if (tile.meta_group_rank() != 0) return;
  float mine = 0;
#pragma unroll
  for (unsigned first = 0; first < Count; first += warp) {
    const unsigned i = first + tile.thread_rank();
    if (i < Count) mine += words[i];
  }
  const float all = cg::reduce(tile, mine, cg::plus<float>());
  if (tile.thread_rank() == 0) sums[blockIdx.x] = all;
}

/// Tiles of `Lanes` lanes add in registers, by cooperative groups, and one warp adds their sums.
constexpr SourceLine tiles_place = kernel_below(2);
template <unsigned Lanes>
__global__ void __launch_bounds__(threads, 1)
    sum_by_tiles(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float of_tiles[threads / Lanes];
  const auto tile = cg::tiled_partition<Lanes>(cg::this_thread_block());
  const float sum = cg::reduce(tile, sum_of_thread<flight>(x, count), cg::plus<float>());
  if (tile.thread_rank() == 0) of_tiles[tile.meta_group_rank()] = sum;
  let_first_warp_add(of_tiles, sums);
}

/// The lanes that are active form a group, whose size is known only at run time. They need not be
/// all lanes of the warp, so the groups of a warp add to its word by atomics.
constexpr SourceLine coalesced_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_by_coalesced_groups(const float* x, std::uint64_t count, float*, float* sums) {
  __shared__ float of_warps[threads / warp];
  if (threadIdx.x < threads / warp) of_warps[threadIdx.x] = 0;
  __syncthreads();
  const float mine = sum_of_thread<flight>(x, count);
  const cg::coalesced_group group = cg::coalesced_threads();
  const float sum = cg::reduce(group, mine, cg::plus<float>());
  if (group.thread_rank() == 0) atomicAdd(&of_warps[threadIdx.x / warp], sum);
  let_first_warp_add(of_warps, sums);
}

/// The sum of all lanes, in lane 0.
__device__ float sum_of_warp(float sum) {
#pragma unroll
  for (unsigned half = warp / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, half);
  }
  return sum;
}

/// The sum of all threads of a block, in thread 0. A barrier must separate two calls.
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

constexpr SourceLine shuffle_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_by_shuffles(const float* x, std::uint64_t count, float*, float* sums) {
  const float sum = sum_of_block(sum_of_thread<flight>(x, count));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// The same. The second launch begins while the first one adds, and waits here for its end.
constexpr SourceLine dependent_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_with_early_launch(const float* x, std::uint64_t count, float*, float* sums) {
  wait_for_previous_grid();
  let_next_grid_begin();
  const float sum = sum_of_block(sum_of_thread<flight>(x, count));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// ----------------------------------------------------- the sums of all blocks, in one launch

constexpr SourceLine block_atomic_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_by_block_atomics(const float* x, std::uint64_t count, float* sum) {
  const float mine = sum_of_block(sum_of_thread<flight>(x, count));
  if (threadIdx.x == 0) atomicAdd(sum, mine);
}

/// The sum of `count` sums of blocks, in thread 0. They come from L2, since other multiprocessors
/// have written them.
__device__ float sum_of_sums(const float* sums, unsigned count) {
  float mine = 0;
  for (unsigned b = threadIdx.x; b < count; b += threads) mine += __ldcg(&sums[b]);
  return sum_of_block(mine);
}

/// All blocks wait for each other, so they must run at the same time: a cooperative launch.
constexpr SourceLine grid_sync_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_with_grid_sync(const float* x, std::uint64_t count, float* sums, float* sum) {
  const float mine = sum_of_block(sum_of_thread<flight>(x, count));
  if (threadIdx.x == 0) sums[blockIdx.x] = mine;
  cg::this_grid().sync();
  if (blockIdx.x != 0) return;
  const float all = sum_of_sums(sums, gridDim.x);
  if (threadIdx.x == 0) *sum = all;
}

/// The places of the sums in global memory.
struct SumPlaces {
  float* sums;         ///< one for each block or cluster
  unsigned* finished;  ///< zero before and after a launch
  float* sum;          ///< out: of all
};

/// `mine` is sum `number` of `count`, in thread 0. The block that finishes last adds all of them.
__device__ void let_last_block_add(float mine, unsigned number, unsigned count,
                                   const SumPlaces& to) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    to.sums[number] = mine;
    __threadfence();
    is_last = atomicAdd(to.finished, 1) == count - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const float all = sum_of_sums(to.sums, count);
  if (threadIdx.x == 0) {
    *to.sum = all;
    *to.finished = 0;
  }
}

/// T is float, or float4 for loads of 16 bytes; thread_sum.cuh has the orders of the loads.
constexpr SourceLine last_block_place = kernel_below(2);
template <class T, Loads Order>
__global__ void __launch_bounds__(threads, 1)
    sum_by_last_block(const T* x, std::uint64_t words, SumPlaces to) {
  const float mine = sum_of_block(sum_in_order<flight, Order>(x, words));
  let_last_block_add(mine, blockIdx.x, gridDim.x, to);
}

constexpr unsigned cluster_size = 8;  // blocks; GPUs with clusters have at least these

/// The blocks of a cluster store their sums in the shared memory of its first one, which adds them.
/// Only the sums of clusters go through global memory. Does nothing below compute capability 9.0.
constexpr SourceLine clusters_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum_by_clusters(const float4* x, std::uint64_t words, SumPlaces to) {
#if __CUDA_ARCH__ >= 900
  __shared__ float of_blocks[cluster_size];
  const cg::cluster_group cluster = cg::this_cluster();
  cluster.barrier_arrive();  // the block has begun, so that others may store in its shared memory
  const float mine = sum_of_block(sum_in_order<flight, Loads::streaming>(x, words));
  cluster.barrier_wait();
  if (threadIdx.x == 0) *cluster.map_shared_rank(&of_blocks[cluster.block_rank()], 0) = mine;
  cluster.sync();
  if (cluster.block_rank() != 0) return;
  float sum = 0;
  if (threadIdx.x == 0) {
    for (const float each : of_blocks) sum += each;
  }
  let_last_block_add(sum, blockIdx.x / cluster_size, gridDim.x / cluster_size, to);
#endif
}

// ------------------------------------------------------------------------------ the experiment

void climb_launches(Sums& sums, const Data& data) {
  const auto strides = [&](const char* name, SourceLine place, const char* sentence,
                           AddStride kernel, Adds adds) {
    const DeviceArray<float>* result = nullptr;
    sums.climb(
        {name, place, sentence, work_of_strides(data.count, adds),
         launch_of(kernel, blocks_for(adds == Adds::all ? data.count : data.count / 2, threads))},
        [&] { result = &add_strides(data, kernel, adds); },
        [&] { return static_cast<double>(result->read(0, 1)[0]); });
  };
  strides("global memory", everywhere_place,
          "one launch per stride; every element is added to, in global memory", add_everywhere,
          Adds::all);
  strides("pairs", pairs_place, "only the additions that the sum needs", add_pairs, Adds::pairs);
}

void climb_trees(Sums& sums, const Data& data) {
  const auto tree = [&](const char* name, SourceLine place, const char* sentence, BlockSums kernel,
                        const CostOfBlock& cost, bool is_in_global = false) {
    sums.climb({name, place, sentence, work_of_blocks(data.count, cost, is_in_global),
                launch_of(kernel, blocks_for(data.count, threads))},
               [&data, kernel] { add_blocks(data, kernel); });
  };
  tree("barriers", barriers_place, "barriers in a block separate the levels, and not launches",
       sum_in_global, {24, 294}, true);
  tree("shared memory", shared_place, "the tree lies in shared memory", sum_in_shared<Tree::modulo>,
       {478, 279});
  tree("mask", shared_place, "a mask instead of a division finds the threads that add",
       sum_in_shared<Tree::mask>, {479, 135});
  tree("interleaved", shared_place, "neighbouring threads add, but their words conflict in banks",
       sum_in_shared<Tree::interleaved>, {705, 153});
  tree("sequential", shared_place, "neighbouring threads add neighbouring words: no conflicts",
       sum_in_shared<Tree::sequential>, {476, 118});
}

void climb_strided(Sums& sums, const Data& data) {
  const auto strided = [&](const char* name, SourceLine place, const char* sentence,
                           BlockSums kernel, const CostOfBlock& cost) {
    const unsigned blocks = data.resident_blocks(kernel);
    sums.climb({name, place, with_blocks(sentence, blocks),
                work_of_one_pass(data.count, blocks, cost), launch_of(kernel, blocks)},
               [&data, kernel, blocks] { add_in_two_launches(data, kernel, blocks); });
  };
  strided("grid stride", flight_place, "each thread adds many elements before the tree begins",
          sum_in_flight<1>, {476, 14.1});
  strided("2 in flight", flight_place, "two loads in flight: the second waits for no addition",
          sum_in_flight<2>, {476, 9.7});
  strided("4 in flight", flight_place, "four loads in flight", sum_in_flight<4>, {476, 8.4});
  strided("8 in flight", flight_place, "eight loads in flight", sum_in_flight<flight>, {476, 7.8});
  strided("unrolled", unrolled_place, "the loop over the levels of the tree is unrolled",
          sum_unrolled, {476, 7.3});
  strided("tiles of 4", tiles_place,
          "tiles of 4 lanes add in registers, by cooperative groups, and one warp adds their sums",
          sum_by_tiles<4>, {});
  strided("tiles of 8", tiles_place, "tiles of 8 lanes, and half as many sums in shared memory",
          sum_by_tiles<8>, {});
  strided("tiles of 16", tiles_place, "tiles of 16 lanes", sum_by_tiles<16>, {});
  strided("groups", tiles_place, "tiles of 32 lanes: whole warps", sum_by_tiles<warp>, {157, 6.9});
  strided("coalesced threads", coalesced_place,
          "as groups, but with the active lanes, whose number is known only at run time",
          sum_by_coalesced_groups, {});
  strided("shuffles", shuffle_place, "as groups, but written with shuffles", sum_by_shuffles,
          {119, 6.9});
}

void climb_dependent_launch(Sums& sums, const Data& data) {
  const unsigned blocks = data.resident_blocks(sum_with_early_launch);
  sums.climb(
      {"dependent launch", dependent_place,
       with_blocks("the second launch begins before the first one ends", blocks),
       work_of_one_pass(data.count, blocks, {119, 6.9}), launch_of(sum_with_early_launch, blocks)},
      [&data, blocks] { add_in_dependent_launches(data, sum_with_early_launch, blocks); });
}

void climb_block_atomics(Sums& sums, const Data& data) {
  const unsigned adding = data.resident_blocks(sum_by_block_atomics);
  sums.climb(
      {"block atomics", block_atomic_place,
       with_blocks("one atomic addition for each block, and no second launch", adding),
       work_of_one_pass(data.count, adding, {119, 7.2}), launch_of(sum_by_block_atomics, adding)},
      [&] {
        data.sum.clear(data.stream);
        sum_by_block_atomics<<<adding, threads, 0, data.stream>>>(data.x.data(), data.count,
                                                                  data.sum.data());
        check_launch("sum_by_block_atomics");
      });
}

void climb_grid_sync(Sums& sums, const Data& data) {
  const unsigned waiting = data.resident_blocks(sum_with_grid_sync);
  sums.climb(
      {"grid sync", grid_sync_place,
       with_blocks("as shuffles, but a barrier of the grid replaces the second launch; then "
                   "the first block adds all sums",
                   waiting),
       work_of_one_pass(data.count, waiting, {179, 7.0}), launch_of(sum_with_grid_sync, waiting)},
      [&] { launch_cooperatively(data, sum_with_grid_sync, waiting); });
}

SumPlaces places_of_sums(const Data& data) {
  return {data.sums.data(), data.finished.data(), data.sum.data()};
}

void climb_to_the_end(Sums& sums, const Data& data) {
  const auto add = [&](const char* name, const char* sentence, auto kernel, const auto* x,
                       const CostOfBlock& cost) {
    const unsigned blocks = data.resident_blocks(kernel);
    const std::uint64_t words = data.count * sizeof(float) / sizeof(*x);
    sums.climb({name, last_block_place, with_blocks(sentence, blocks),
                work_of_one_pass(data.count, blocks, cost), launch_of(kernel, blocks)},
               [&data, kernel, blocks, words, x] {
                 kernel<<<blocks, threads, 0, data.stream>>>(x, words, places_of_sums(data));
                 check_launch("sum by the last block");
               });
  };
  const float* const x = data.x.data();
  const auto* const wide = reinterpret_cast<const float4*>(x);
  add("last block", "the block that finishes last adds all sums; none waits",
      sum_by_last_block<float, Loads::spread>, x, {140, 7.0});
  add("wide loads", "loads of 16 bytes", sum_by_last_block<float4, Loads::spread>, wide,
      {140, 2.8});
  add("stretches", "the loads of a block in flight are neighbours",
      sum_by_last_block<float4, Loads::together>, wide, {140, 2.1});
  add("streaming", "lines are marked as the first ones to leave the L2 cache",
      sum_by_last_block<float4, Loads::streaming>, wide, {140, 2.1});
}

void climb_clusters(Sums& sums, const Data& data) {
  const AttributedLaunch any(cluster_size, threads, data.stream, in_clusters_of(cluster_size));
  const unsigned clusters = any.resident_clusters(sum_by_clusters);
  const AttributedLaunch launch(clusters * cluster_size, threads, data.stream,
                                in_clusters_of(cluster_size));
  sums.climb({"clusters", clusters_place,
              formatted("{} blocks add their sums through distributed shared memory first ({} "
                        "blocks)",
                        cluster_size, clusters * cluster_size),
              work_of_one_pass(data.count, clusters, {140, 2.1}),
              launch_of(sum_by_clusters, clusters * cluster_size)},
             [&] {
               launch(sum_by_clusters, reinterpret_cast<const float4*>(data.x.data()),
                      data.count / 4, places_of_sums(data));
             });
}

/// The numbers of floats to add. Throws UsageError if they do not fit in memory.
std::vector<std::uint64_t> counts_of(Bench& bench) {
  // The elements, and two arrays of the same size for the rungs in global memory.
  const auto max =
      static_cast<std::uint64_t>(0.3 * static_cast<double>(bench.memory())) / sizeof(float);
  const std::uint64_t count = count_of(bench.options());
  if (count > max) {
    throw UsageError(formatted(
        "reduction.count: {} elements do not fit in device memory: choose at most {}", count, max));
  }
  if (!bench.options().is_auto("reduction.count") || bench.is_quick()) return {count};
  std::uint64_t large = many;
  while (large > max) large /= 2;
  if (large < many) {
    bench.note(
        formatted("The larger case has {}, since {} do not fit.", case_of(large), case_of(many)));
  }
  if (large <= few) return {few};
  return {few, large};
}

/// A number of floats for an own kernel.
struct OwnSum {
  Ladder::Mark mark;  ///< behind the rung with which it is compared
  std::uint64_t count;
  double expected;
};

/// All rungs for the sum of `count` floats. Returns the case for an own kernel.
OwnSum climb_all(Bench& bench, Gpu& gpu, Ladder& ladder, std::uint64_t count) {
  const double expected = reference_sum(count);
  const Data data(count, gpu.properties(), gpu.stream());
  ladder.begin({case_of(count)}, static_cast<double>(count) * sizeof(float),
               bench.ceiling("device_read"));
  Sums sums(ladder, data, expected);
  climb_launches(sums, data);
  climb_trees(sums, data);
  climb_strided(sums, data);
  const bool has_attributes = has_launch_attributes(gpu.properties());
  if (has_attributes) climb_dependent_launch(sums, data);
  climb_block_atomics(sums, data);
  if (gpu.properties().cooperativeLaunch != 0) climb_grid_sync(sums, data);
  climb_to_the_end(sums, data);
  if (has_attributes) climb_clusters(sums, data);
  const Ladder::Mark last_rung = ladder.mark();
  climb_yardsticks(sums, data);
  return {last_rung, count, expected};
}

}  // namespace

Table reduction(Bench& bench) {
  const std::vector<std::uint64_t> counts = counts_of(bench);
  Gpu gpu(bench);
  const int capability = bench.device().info().compute_capability;
  const std::optional<OwnKernel> own = own_kernel_of(bench, about_reduction.name, capability);
  Ladder ladder(bench, gpu, {{"case", ColumnType::text}}, {"read", ColumnType::real, "GB/s"}, 1e9);
  std::vector<OwnSum> cases;
  for (const std::uint64_t count : counts) cases.push_back(climb_all(bench, gpu, ladder, count));
  if (!has_launch_attributes(gpu.properties())) {
    bench.note(
        "Dependent launches and clusters are not measured: they need compute capability 9.0.");
  }
  if (gpu.properties().cooperativeLaunch == 0) {
    bench.note("`grid sync` is not available: the GPU has no cooperative launches.");
  }
  bench.note(words_on_factors);
  bench.note(words_on_resources);
  if (own) {
    climb_own_kernel(ladder, *own, [&] {
      const OwnRung rung(*own, capability);
      for (const OwnSum& each : cases) {
        ladder.resume(each.mark);
        const Data data(each.count, gpu.properties(), gpu.stream());
        climb_own_sum(ladder, rung, data, each.expected);
      }
    });
  }
  return std::move(ladder).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
