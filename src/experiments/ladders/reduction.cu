// The sum of floats, from a tree in global memory to one pass at the rate of memory. Each rung of
// the ladder changes one thing. The last two rows are this program's own reduction, which adds in a
// fixed order, and CUB's.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/device/device_reduce.cuh>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/ladders.hpp"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::experiments::ladders {
namespace {

namespace cg = cooperative_groups;

constexpr unsigned threads = 512;
constexpr unsigned warp = 32;

// --------------------------------------------------- one element per thread, one sum per block

/// The tree lies in global memory: every level reads and writes `scratch`.
constexpr int global_line = __LINE__ + 1;
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

constexpr int shared_line = __LINE__ + 2;
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
constexpr int stride_line = __LINE__ + 1;
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

constexpr int flight_line = __LINE__ + 1;
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

constexpr int shuffle_line = __LINE__ + 1;
__global__ void sum_by_shuffles(const float* x, std::uint64_t count, float*, float* sums) {
  const float sum = sum_of_block(sum_of_thread(x, count));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

constexpr int groups_line = __LINE__ + 1;
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
constexpr int unrolled_line = __LINE__ + 1;
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

constexpr int atomic_line = __LINE__ + 1;
__global__ void sum_by_atomics(const float* x, std::uint64_t count, float* sum) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) atomicAdd(sum, x[i]);
}

constexpr int block_atomic_line = __LINE__ + 1;
__global__ void sum_by_block_atomics(const float* x, std::uint64_t count, float* sum) {
  const float mine = sum_of_block(sum_of_thread(x, count));
  if (threadIdx.x == 0) atomicAdd(sum, mine);
}

// ------------------------------------------------------------------------------ the last rung

/// Loads of 16 bytes, eight of them always in flight: the next load replaces a word as soon as it
/// has been added. There is no second launch: the last block to finish adds the sums of all blocks
/// in order. `finished` must be zero, and is zero again at the end.
constexpr int wide_line = __LINE__ + 1;
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

/// The data of all rungs.
struct Data {
  cudaStream_t stream;
  unsigned multiprocessors;
  unsigned blocks;  ///< of kernels with many elements per thread: two waves
  std::uint64_t count;
  DeviceArray<float> x, scratch, sums, more_sums, sum;
  DeviceArray<unsigned> finished;

  Data(std::uint64_t elements, const cudaDeviceProp& gpu, cudaStream_t on)
      : stream(on),
        multiprocessors(static_cast<unsigned>(gpu.multiProcessorCount)),
        blocks(2 * multiprocessors *
               static_cast<unsigned>(gpu.maxThreadsPerMultiProcessor / int{threads})),
        count(elements),
        x(elements),
        scratch(elements + threads),
        sums(std::max(blocks_for(elements, threads), blocks)),
        more_sums(sums.size()),
        sum(1),
        finished(1) {
    fill(x, on);
    finished.clear(on);
  }
};

using BlockSums = void (*)(const float*, std::uint64_t, float*, float*);

/// Launches `kernel` until one sum is left, with one block per `threads` elements.
void add_blocks(const Data& data, BlockSums kernel) {
  const float* from = data.x.data();
  float* to = data.sums.data();
  for (std::uint64_t left = data.count; left > 1; left = blocks_for(left, threads)) {
    const unsigned blocks = blocks_for(left, threads);
    kernel<<<blocks, threads, 0, data.stream>>>(from, left, data.scratch.data(),
                                                blocks == 1 ? data.sum.data() : to);
    check_launch("sum of blocks");
    from = to;
    to = to == data.sums.data() ? data.more_sums.data() : data.sums.data();
  }
}

/// Launches `kernel` with a fixed number of blocks, and once more with one block for their sums.
void add_strided(const Data& data, BlockSums kernel) {
  kernel<<<data.blocks, threads, 0, data.stream>>>(data.x.data(), data.count, data.scratch.data(),
                                                   data.sums.data());
  kernel<<<1, threads, 0, data.stream>>>(data.sums.data(), data.blocks, data.scratch.data(),
                                         data.sum.data());
  check_launch("sum of blocks");
}

/// The reduction of this program, launched as in a run with one batch.
class FixedOrder {
 public:
  explicit FixedOrder(const Data& data)
      : stream_(data.stream),
        leaves_(blocks_for(data.count, reduce::leaf_elements)),
        partials_(leaves_ + reduce::max_subtrees),
        exchange_(reduce::exchange_words<float>(leaves_)) {
    exchange_.clear(stream_);
    args_.elements = data.x.data();
    args_.count = data.count;
    args_.leaves = partials_.data();
    args_.largest = partials_.data() + leaves_;
    args_.exchange = exchange_.data();
  }
  void enqueue() const {
    reduce::batch_kernel<float>().cuda(args_, stream_);
    check_launch("reduction in a fixed order");
  }
  double sum() const {
    double all = 0;
    for (const auto& part : partials_.read(leaves_, reduce::subtrees(args_.leaf_range()).size()))
      all += part.sum;
    return all;
  }

 private:
  cudaStream_t stream_;
  std::uint64_t leaves_;
  DeviceArray<reduce::Partial<double>> partials_;
  DeviceArray<std::uint64_t> exchange_;
  reduce::BatchArgs<float> args_{};
};

/// Measures rungs and adds their rows.
class Ladder {
 public:
  Ladder(Bench& bench, Gpu& gpu, const Data& data, Measurements& rows)
      : bench_(bench), gpu_(gpu), data_(data), rows_(rows), expected_(reference_sum(data.count)) {}

  /// `line` is the line of the kernel in this file; 0: it is not here. `sum` reads the result.
  void rung(const char* name, int line, const char* sentence, const std::function<void()>& enqueue,
            const std::function<double()>& sum) {
    data_.sum.clear(data_.stream);
    enqueue();
    gpu_.synchronize();
    // The rungs add in trees or in long chains; the single chain of atomics has the largest error.
    const double relative = std::abs(sum() / expected_ - 1);
    bench_.verify(relative < (line == atomic_line ? 1e-1 : 1e-4), name);
    const Estimate seconds = gpu_.time(enqueue).seconds;
    const Estimate time = seconds.times(1e3);
    const double read = static_cast<double>(data_.count) * sizeof(float) / seconds.value / 1e9;
    const double factor = before_ > 0 ? before_ / time.value : 1;
    before_ = time.value;
    const std::string place = line > 0 ? formatted("reduction.cu:{}", line) : "-";
    rows_.add({name, place, factor, read}, time, read / bench_.ceiling("device_read"), sentence);
  }
  void rung(const char* name, int line, const char* sentence,
            const std::function<void()>& enqueue) {
    rung(name, line, sentence, enqueue, [&] { return static_cast<double>(data_.sum.read()[0]); });
  }

 private:
  Bench& bench_;
  Gpu& gpu_;
  const Data& data_;
  Measurements& rows_;
  double expected_, before_ = 0;
};

void climb_trees(Ladder& ladder, const Data& data) {
  const auto tree = [&](const char* name, int line, const char* sentence, BlockSums kernel) {
    ladder.rung(name, line, sentence, [&data, kernel] { add_blocks(data, kernel); });
  };
  tree("global memory", global_line, "every level of the tree goes through global memory",
       sum_in_global);
  tree("shared memory", shared_line, "the tree lies in shared memory", sum_in_shared<Tree::modulo>);
  tree("mask", shared_line, "a mask instead of a division finds the threads that add",
       sum_in_shared<Tree::mask>);
  tree("interleaved", shared_line, "neighbouring threads add, but their words conflict in banks",
       sum_in_shared<Tree::interleaved>);
  tree("sequential", shared_line, "neighbouring threads add neighbouring words: no conflicts",
       sum_in_shared<Tree::sequential>);
}

void climb_strided(Ladder& ladder, const Data& data) {
  const auto strided = [&](const char* name, int line, const char* sentence, BlockSums kernel) {
    ladder.rung(name, line, sentence, [&data, kernel] { add_strided(data, kernel); });
  };
  strided("grid stride", stride_line, "each thread adds many elements before the tree begins",
          sum_grid_stride);
  strided("four in flight", flight_line, "four loads are in flight; none waits for an addition",
          sum_four_in_flight);
  strided("shuffles", shuffle_line, "warps add in registers, with one barrier per block",
          sum_by_shuffles);
  strided("groups", groups_line, "the same with cooperative groups", sum_by_groups);
  strided("unrolled", unrolled_line, "the tree in shared memory, unrolled", sum_unrolled);
}

void climb_to_the_end(Bench& bench, Ladder& ladder, const Data& data) {
  constexpr std::uint64_t max = std::uint64_t{1} << 24;
  if (data.count <= max) {
    ladder.rung("atomics", atomic_line,
                "an atomic addition for each element: all wait for one word", [&] {
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
  ladder.rung("block atomics", block_atomic_line, "one atomic addition for each block", [&] {
    data.sum.clear(data.stream);
    sum_by_block_atomics<<<data.blocks, threads, 0, data.stream>>>(data.x.data(), data.count,
                                                                   data.sum.data());
    check_launch("sum_by_block_atomics");
  });
  ladder.rung("wide loads", wide_line,
              "16-byte loads, eight always in flight; the last block adds all sums", [&] {
                constexpr unsigned blocks_each = 2;  // more would spread the accesses further
                sum_in_wide_loads<<<blocks_each * data.multiprocessors, threads, 0, data.stream>>>(
                    reinterpret_cast<const float4*>(data.x.data()), data.count / 4,
                    data.sums.data(), data.finished.data(), data.sum.data());
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
  Measurements rows({{"rung", ColumnType::text},
                     {"kernel", ColumnType::text},
                     {"factor", ColumnType::real},
                     {"read", ColumnType::real, "GB/s"}},
                    {"time", ColumnType::real, "ms"});
  Ladder ladder(bench, gpu, data, rows);
  climb_trees(ladder, data);
  climb_strided(ladder, data);
  climb_to_the_end(bench, ladder, data);
  const FixedOrder fixed(data);
  ladder.rung(
      "fixed order", 0, "this program's reduction: the same bits on any number of GPUs",
      [&] { fixed.enqueue(); }, [&] { return fixed.sum(); });
  std::size_t bytes = 0;
  const auto cub_sum = [&](void* scratch) {
    check(cub::DeviceReduce::Sum(scratch, bytes, data.x.data(), data.sum.data(),
                                 static_cast<std::int64_t>(count), data.stream),
          "cub::DeviceReduce::Sum");
  };
  cub_sum(nullptr);
  const DeviceArray<std::byte> scratch(bytes);
  ladder.rung("CUB", 0, "cub::DeviceReduce::Sum, the yardstick", [&] { cub_sum(scratch.data()); });
  bench.note("A factor is the time of the previous rung over the time of this one.");
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::ladders
