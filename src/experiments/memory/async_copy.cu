// Three ways from device memory to shared memory. Through registers, a thread loads words, waits
// for them and stores them. An asynchronous copy needs no registers, and the thread does not wait
// for each word. A bulk copy is one instruction for the whole block.
#include <array>
#include <map>
#include <string>
#include <utility>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda/barrier>
#endif

namespace shardstream::experiments::memory {

Table async_copy(Bench& bench);

extern const Experiment about_async_copy = {
    .name = "async-copy",
    .group = "memory",
    .summary = "Asynchronous copies to shared memory need no registers and keep no thread waiting.",
    .explanation =
        "Each block copies data from device memory to shared memory, in words of 4, 8 or 16 "
        "bytes and 1 to 8 words per thread. The methods are: through registers; asynchronous "
        "copies by the threads (cp.async); and one bulk copy by the block (compute capability "
        "9.0). The result is the number of clocks per byte, from the first copy until all "
        "threads see the data. Asynchronous copies are all in flight at once. Through registers, "
        "four loads are in flight at a time, because the compiler unrolls the loop by four. The "
        "remaining words follow with fewer loads in flight, so 4 and 8 words per thread take "
        "fewer clocks per byte than 3 and 6. Expect words of 8 and 16 bytes to be best. CUDA C++ "
        "Best Practices Guide, section Asynchronous Copy from Global Memory to Shared Memory.",
    .reference =
        "A100: asynchronous copies of 8 and 16 bytes are best; the number of words need not be a "
        "multiple of four.",
    .share = "of the speed through registers with as many words of the same size",
    .figure = {.look = Look::lines,
               .x = "words",
               .y = "clocks",
               .series = "method",
               .log_y = true,
               .more_is_better = false},
    .needs = {.compute_capability = 80},
    .run = with_cuda<async_copy>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr unsigned max_words = 8;  // per thread
constexpr unsigned rounds = 32;    // copies per block, each of different data

using Barrier = cuda::barrier<cuda::thread_scope_block>;

enum class Method { registers, asynchronous, bulk };

/// The copies of all blocks. In round r, a block copies piece r * gridDim.x + blockIdx.x, which has
/// words * threads words.
struct Work {
  const float* from;
  unsigned words;              ///< per thread
  unsigned long long* clocks;  ///< out: sum over all rounds of the first block
  unsigned* wrong;             ///< out: number of wrong floats in shared memory
};

template <class Word>
__device__ void copy_by_registers(Word* to, const Word* from, unsigned words) {
  for (unsigned i = 0; i < words; ++i) {
    to[i * threads + threadIdx.x] = from[i * threads + threadIdx.x];
  }
  __syncthreads();
}

template <class Word>
__device__ void copy_asynchronously(Word* to, const Word* from, unsigned words) {
  for (unsigned i = 0; i < words; ++i) {
    const unsigned place = i * threads + threadIdx.x;
    __pipeline_memcpy_async(&to[place], &from[place], sizeof(Word));
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

/// The first thread starts the copy; all threads wait at the barrier, which counts the bytes.
/// `bytes` must be a multiple of 16. Does nothing below compute capability 9.0.
__device__ void copy_in_bulk(void* to, const void* from, unsigned bytes, Barrier& barrier) {
#if __CUDA_ARCH__ >= 900
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    // Bulk copies use another memory proxy: only this fence orders them after the initialisation of
    // the barrier and after earlier reads of shared memory.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    cuda::device::memcpy_async_tx(static_cast<char*>(to), static_cast<const char*>(from),
                                  cuda::aligned_size_t<16>(bytes), barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, bytes);
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
#endif
}

template <class Word, Method Way>
__global__ void __launch_bounds__(threads) copy_to_shared(Work work) {
  __shared__ alignas(128) Word to[max_words * threads];
  __shared__ alignas(Barrier) unsigned char room[sizeof(Barrier)];
  auto& barrier = *reinterpret_cast<Barrier*>(room);
  if constexpr (Way == Method::bulk) {
    if (threadIdx.x == 0) init(&barrier, threads);
  }
  const unsigned words = work.words * threads, floats = words * sizeof(Word) / sizeof(float);
  unsigned long long clocks = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const std::uint64_t first = (std::uint64_t{round} * gridDim.x + blockIdx.x) * floats;
    const auto* const from = reinterpret_cast<const Word*>(work.from + first);
    __syncthreads();
    const long long begin = clock64();
    if constexpr (Way == Method::registers) copy_by_registers(to, from, work.words);
    if constexpr (Way == Method::asynchronous) copy_asynchronously(to, from, work.words);
    if constexpr (Way == Method::bulk) copy_in_bulk(to, from, words * sizeof(Word), barrier);
    clocks += clock64() - begin;
    const auto* const copied = reinterpret_cast<const float*>(to);
    for (unsigned i = threadIdx.x; i < floats; i += threads) {
      if (copied[i] != unit_number(first + i)) atomicAdd(work.wrong, 1);
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *work.clocks = clocks;
}

using Kernel = void (*)(Work);

struct Case {
  const char* name;
  Method method;
  unsigned bytes;  ///< of a word
  Kernel kernel;
  int compute_capability;
};

const std::array cases = {
    Case{"registers, 4 B", Method::registers, 4, copy_to_shared<float, Method::registers>, 80},
    Case{"registers, 8 B", Method::registers, 8, copy_to_shared<float2, Method::registers>, 80},
    Case{"registers, 16 B", Method::registers, 16, copy_to_shared<float4, Method::registers>, 80},
    Case{"asynchronous, 4 B", Method::asynchronous, 4, copy_to_shared<float, Method::asynchronous>,
         80},
    Case{"asynchronous, 8 B", Method::asynchronous, 8, copy_to_shared<float2, Method::asynchronous>,
         80},
    Case{"asynchronous, 16 B", Method::asynchronous, 16,
         copy_to_shared<float4, Method::asynchronous>, 80},
    Case{"bulk, 16 B", Method::bulk, 16, copy_to_shared<float4, Method::bulk>, 90},
};

/// The compiler unrolls the loop of copy_by_registers() by `unrolled`.
std::string remark_on_registers(unsigned words) {
  constexpr unsigned unrolled = 4;
  const unsigned groups = words / unrolled, left = words % unrolled;
  if (groups == 0) return formatted("fewer than {} loads in flight", unrolled);
  const std::string full = formatted("{} x {} loads in flight", groups, unrolled);
  return left == 0 ? full : full + formatted(", then {} with fewer in flight", left);
}

}  // namespace

Table async_copy(Bench& bench) {
  Gpu gpu(bench);
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount);
  const DeviceArray<float> from(std::uint64_t{blocks} * rounds * threads * max_words * 4);
  fill(from, gpu.stream());
  const DeviceArray<unsigned long long> clocks(1);
  const DeviceArray<unsigned> wrong(1);
  Measurements rows({{"method", ColumnType::text},
                     {"words", ColumnType::integer, "words/thread"},
                     {"bytes", ColumnType::integer, "B/block"}},
                    {"clocks", ColumnType::real, "clocks/B"});
  // Clocks per byte, by bytes per word and words per thread.
  std::map<std::pair<unsigned, unsigned>, double> through_registers;
  for (const Case& each : cases) {
    if (bench.device().info().compute_capability < each.compute_capability) {
      bench.note(formatted("{} is not measured: it needs compute capability {}.{}.",
                           std::string(each.name), each.compute_capability / 10,
                           each.compute_capability % 10));
      continue;
    }
    for (const unsigned words : {1U, 2U, 3U, 4U, 5U, 6U, 8U}) {
      if (bench.is_quick() && (words == 2 || words == 5)) continue;
      const double bytes = 1.0 * each.bytes * words * threads;
      const auto clocks_of_call = [&] {
        wrong.clear(gpu.stream());
        each.kernel<<<blocks, threads, 0, gpu.stream()>>>(
            {from.data(), words, clocks.data(), wrong.data()});
        check_launch(each.name);
        bench.verify(wrong.read()[0] == 0, each.name);
        return static_cast<double>(clocks.read()[0]) / rounds / bytes;
      };
      const Timing timing = bench.sample(clocks_of_call);
      const double value = timing.seconds.value;
      // The first cases are those through registers.
      const double yardstick =
          through_registers.emplace(std::pair{each.bytes, words}, value).first->second;
      const bool is_yardstick = each.method == Method::registers;
      rows.add({each.name, std::int64_t{words}, static_cast<std::int64_t>(bytes)}, timing.seconds,
               yardstick / value,
               is_yardstick
                   ? remark_on_registers(words)
                   : formatted("{:.2f} times as fast as through registers", yardstick / value));
    }
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
