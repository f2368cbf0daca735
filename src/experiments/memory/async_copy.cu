// Ways from global memory to shared memory. Through registers, a thread loads elements, waits for
// them and stores them. An asynchronous copy needs no registers, and the thread does not wait for
// each element; it can even compute while the copy is on its way. A bulk copy is one instruction
// for the whole block.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/copy_rows.cuh"
#include "experiments/memory/copy_sums.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#endif

namespace shardstream::experiments::memory {

Table async_copy(Bench& bench);

namespace {

/// The clocks of a copy alone lie on the line through the smallest and the largest piece: a
/// latency, and a time for each byte.
double expected_clocks_of_copy(const MeasuredRow& row) {
  constexpr double smallest = 4096, largest = 49152;
  const double piece = row["piece"];
  const double begin = row.measured({{"piece", "4096"}}, {"part", "method"}) * smallest;
  const double end = row.measured({{"piece", "49152"}}, {"part", "method"}) * largest;
  return (begin + (end - begin) * (piece - smallest) / (largest - smallest)) / piece;
}

/// Two parts of a whole take their sum if one follows the other, and the longer time if they
/// overlap.
double expected_clocks(const MeasuredRow& row) {
  const std::string part = row.text("part"), method = row.text("method");
  const auto of = [&](const char* other_part, const char* other) {
    return row.measured({{"part", other_part}, {"method", other}}, {"piece"});
  };
  constexpr auto alone = "16 B elements", with_computation = "16 B elements and computation";
  if (part == "16 B elements, copied again") {
    return method == "asynchronous, .cg" ? of(alone, "asynchronous, .cg") : std::nan("");
  }
  if (part != with_computation) return expected_clocks_of_copy(row);
  if (method == "copy only" || method == "compute only") return std::nan("");
  const double computation = of(with_computation, "compute only");
  if (method == "registers, then compute") return of(alone, "registers") + computation;
  const double copy = of(with_computation, "copy only");
  return method == "copy, wait, compute" ? copy + computation : std::max(copy, computation);
}

}  // namespace

extern const Experiment about_async_copy = {
    .name = "async-copy",
    .group = "memory",
    .summary = "Asynchronous copies to shared memory need no registers and keep no thread waiting.",
    .explanation =
        {
            .question =
                "What do asynchronous copies to shared memory save: registers, time, or both?",
            .varies =
                "Each block copies pieces of 4 to 48 KiB from global to shared memory, in elements "
                "of 4, 8 or 16 bytes. The data lie in L2, and a block copies different pieces. The "
                "methods are: through registers; asynchronous copies by the threads (cp.async), "
                "through L1 (.ca) or past it (.cg, for 16 bytes only); and one bulk copy by the "
                "block (compute capability 9.0). The result is the number of clocks per byte, from "
                "the first copy until all threads see the data, as a mean over all threads of all "
                "blocks. `registers` has those of a thread. Further parts copy a piece again, and "
                "compute with it: after its copy, or while the next piece is copied to a second "
                "buffer. cuda::pipeline does the latter with two and with four stages, each of "
                "which has a buffer.",
            .expectation =
                "Asynchronous copies are all in flight at once. The time of a copy is a latency, "
                "and a time for each byte, which grows if the multiprocessors wait for L2. Through "
                "registers, at most four loads of a thread are in flight, because the loop is "
                "unrolled by four. The 256 threads so load 1024 elements in one latency. Expect "
                "asynchronous copies to be best with elements of 8 and 16 bytes, to need fewer "
                "registers, and to hide most of the copy behind computation with two buffers. Copy "
                "and computation take the sum of both times without overlap, and at best the "
                "longer one with it. Expect a pipeline of two stages to be a little slower, "
                "because barriers in shared memory replace __syncthreads(), and four stages to "
                "help only if two do not hide the copies. A piece that is copied again comes from "
                "L1, but .cg passes by L1. The gain becomes small if all multiprocessors together "
                "reach the rate of L2. A bulk copy needs one thread, not less time: it begins "
                "later, and one alone moves fewer bytes per clock than 256 threads.",
            .pitfalls =
                "The size of an element and the way past L1 could be confused. Elements of 16 "
                "bytes by both .ca and .cg separate the two effects. Of the 7 or 14 elements in 28 "
                "KiB, the last ones follow with fewer loads in flight. More stages need more "
                "shared memory, so that fewer blocks fit: four pieces of 48 KiB are 192 KiB.",
        },
    .read_on = {{Guide::best_practices, "Asynchronous Copy from Global Memory to Shared Memory"},
                {Guide::programming, "Asynchronous Data Copies using cuda::pipeline"}},
    .reference =
        "A100: asynchronous copies of 8 and 16 bytes are best; the number of elements per thread "
        "need not be a multiple of four.",
    .share =
        "of the speed of the first method of the part, through registers, with pieces of the same "
        "size",
    .expected = expected_clocks,
    .exercise = {.task = "Predict the clocks per byte (clocks/B) of pieces of 16 KiB: copied "
                         "through registers in elements of 4 bytes, from the latency of L2 in "
                         "clocks; and with computation, after the copy or while the next piece is "
                         "copied, if the copy takes 0.05 and the computation 0.08.",
                 .rows = {{{"part", "4 B elements"}, {"method", "registers"}, {"piece", "16384"}},
                          {{"method", "copy, wait, compute"}, {"piece", "16384"}},
                          {{"method", "copy the next, compute"}, {"piece", "16384"}}}},
    .figure = {.look = Look::lines,
               .x = "piece",
               .y = "clocks",
               .series = "method",
               .panel = "part",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .needs = {.compute_capability = 80},
    .run = with_cuda<async_copy>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr unsigned max_bytes = 48 * 1024;  // of a piece
constexpr unsigned rounds = 32;            // pieces per block; large GPUs have more blocks
constexpr unsigned steps = 16;             // of the computation with each word
constexpr unsigned max_states = 1024;      // bytes of the barriers of a pipeline, at most

using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern __shared__ uint4 shared_memory[];

/// Word i of the data is i. In round r, block b copies piece (b + r) mod gridDim.x. L1 is empty
/// when a kernel begins, so it never has the piece.
__device__ unsigned first_word(unsigned round, unsigned bytes) {
  return (blockIdx.x + round) % gridDim.x * (bytes / sizeof(unsigned));
}

// ------------------------------------------------------------------------- copies of a piece

enum class Method { registers, through_l1, past_l1, bulk };

template <class Element>
__device__ void copy_by_registers(Element* to, const Element* from, unsigned count) {
#pragma unroll 4  // so that four loads are in flight, each of which needs registers
  for (unsigned i = threadIdx.x; i < count; i += threads) to[i] = from[i];
}

/// Starts the copy of an element. The function of the guide, __pipeline_memcpy_async(), copies 4
/// and 8 bytes through L1 and 16 bytes past it; the other way for 16 bytes needs PTX, and does
/// nothing below compute capability 8.0.
template <class Element, Method Way>
__device__ void start_copy(Element* to, const Element* from) {
  if constexpr (Way == Method::through_l1 && sizeof(Element) == 16) {
#if __CUDA_ARCH__ >= 800
    const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
#endif
  } else {
    __pipeline_memcpy_async(to, from, sizeof(Element));
  }
}

template <class Element, Method Way>
__device__ void start_copies(Element* to, const Element* from, unsigned count) {
#pragma unroll 1  // all copies are in flight anyway
  for (unsigned i = threadIdx.x; i < count; i += threads) {
    start_copy<Element, Way>(&to[i], &from[i]);
  }
  __pipeline_commit();
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

struct Copies {
  const unsigned* from;
  unsigned bytes;              ///< of a piece
  unsigned times;              ///< how often each piece is copied; the last copy is measured
  unsigned long long* clocks;  ///< out: increased by the clocks of all threads
  unsigned* wrong;             ///< out: number of wrong words in shared memory; nullptr: no check
};

template <class Element, Method Way>
__global__ void __launch_bounds__(threads, 1) copy_to_shared(Copies work) {
  __shared__ alignas(Barrier) unsigned char room[sizeof(Barrier)];
  auto& barrier = *reinterpret_cast<Barrier*>(room);
  if constexpr (Way == Method::bulk) {
    if (threadIdx.x == 0) init(&barrier, threads);
  }
  auto* const to = reinterpret_cast<Element*>(shared_memory);
  const unsigned count = work.bytes / sizeof(Element);
  unsigned long long clocks = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned first = first_word(round, work.bytes);
    const auto* const from = reinterpret_cast<const Element*>(work.from + first);
    long long last = 0;
    for (unsigned time = 0; time < work.times; ++time) {
      __syncthreads();
      const long long begin = clock64();
      if constexpr (Way == Method::registers) copy_by_registers(to, from, count);
      if constexpr (Way == Method::through_l1 || Way == Method::past_l1) {
        start_copies<Element, Way>(to, from, count);
        __pipeline_wait_prior(0);
      }
      if constexpr (Way == Method::bulk) {
        copy_in_bulk(to, from, work.bytes, barrier);
      } else {
        __syncthreads();
      }
      last = clock64() - begin;
    }
    clocks += last;
    if (work.wrong == nullptr) continue;
    const auto* const words = reinterpret_cast<const unsigned*>(shared_memory);
#pragma unroll 1  // the registers of the kernel are to be those of the copy
    for (unsigned i = threadIdx.x; i < work.bytes / sizeof(unsigned); i += threads) {
      if (words[i] != first + i) atomicAdd(work.wrong, 1);
    }
  }
  atomicAdd(work.clocks, clocks);
}

// ----------------------------------------------------------------------------- copy and compute

enum class Order {
  copy_only,
  compute_only,
  registers,  ///< copy through registers, then compute
  wait,       ///< copy asynchronously, wait, then compute
  overlap     ///< compute while the next piece is copied to the other buffer
};

struct Computation {
  const unsigned* from;
  unsigned bytes;              ///< of a piece; there are two buffers of that size
  unsigned factor, summand;    ///< not constants, which the compiler would combine for all steps
  unsigned long long* clocks;  ///< out: increased by the clocks of all threads
  unsigned* sums;              ///< out: of each thread
};

/// Replaces each word x `steps` times by x * factor + summand. Returns the sum of the thread.
__device__ unsigned compute(const uint4* piece, const Computation& work) {
  unsigned sum = 0;
  for (unsigned i = threadIdx.x; i < work.bytes / sizeof(uint4); i += threads) {
    uint4 x = piece[i];
#pragma unroll
    for (unsigned step = 0; step < steps; ++step) {
      x.x = x.x * work.factor + work.summand;
      x.y = x.y * work.factor + work.summand;
      x.z = x.z * work.factor + work.summand;
      x.w = x.w * work.factor + work.summand;
    }
    sum += x.x + x.y + x.z + x.w;
  }
  return sum;
}

template <Order Kind>
__global__ void __launch_bounds__(threads, 1) copy_and_compute(Computation work) {
  const unsigned count = work.bytes / sizeof(uint4);
  const auto buffer = [&](unsigned round) {
    return shared_memory + (Kind == Order::overlap ? round % 2 : 0) * count;
  };
  const auto piece = [&](unsigned round) {
    return reinterpret_cast<const uint4*>(work.from + first_word(round, work.bytes));
  };
  unsigned sum = 0;
  const long long begin = clock64();
  if constexpr (Kind == Order::overlap || Kind == Order::compute_only) {
    start_copies<uint4, Method::past_l1>(buffer(0), piece(0), count);
  }
  for (unsigned round = 0; round < rounds; ++round) {
    uint4* const now = buffer(round);
    if constexpr (Kind == Order::registers) copy_by_registers(now, piece(round), count);
    if constexpr (Kind == Order::copy_only || Kind == Order::wait) {
      start_copies<uint4, Method::past_l1>(now, piece(round), count);
    }
    if constexpr (Kind == Order::overlap) {
      if (round + 1 < rounds) {
        start_copies<uint4, Method::past_l1>(buffer(round + 1), piece(round + 1), count);
        __pipeline_wait_prior(1);  // for all copies but the one that was just started
      } else {
        __pipeline_wait_prior(0);
      }
    } else if constexpr (Kind != Order::registers) {
      __pipeline_wait_prior(0);
    }
    __syncthreads();  // the threads see the words that others copied
    if constexpr (Kind == Order::copy_only) {
      sum += threadIdx.x < count ? now[threadIdx.x].x : 0;
    } else {
      sum += compute(now, work);
    }
    __syncthreads();  // the buffer may be overwritten
  }
  atomicAdd(work.clocks, static_cast<unsigned long long>(clock64() - begin));
  work.sums[blockIdx.x * threads + threadIdx.x] = sum;
}

/// The same as Order::overlap by cuda::pipeline. Up to `Stages` pieces are copied or computed with
/// at the same time, each in its own buffer; barriers in shared memory separate them.
template <unsigned Stages>
__global__ void __launch_bounds__(threads, 1) copy_in_pipeline(Computation work) {
  using State = cuda::pipeline_shared_state<cuda::thread_scope_block, Stages>;
  static_assert(sizeof(State) <= max_states);
  __shared__ alignas(State) unsigned char room[sizeof(State)];
  const unsigned count = work.bytes / sizeof(uint4);
  const auto block = cooperative_groups::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, reinterpret_cast<State*>(room));
  unsigned sum = 0;
  const long long begin = clock64();
  unsigned started = 0;  // pieces whose copy was started
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll 1
    for (; started < min(round + Stages, rounds); ++started) {
      pipeline.producer_acquire();
      const auto* const from =
          reinterpret_cast<const uint4*>(work.from + first_word(started, work.bytes));
      uint4* const to = shared_memory + started % Stages * count;
#pragma unroll 1
      for (unsigned i = threadIdx.x; i < count; i += threads) {
        cuda::memcpy_async(&to[i], &from[i], cuda::aligned_size_t<16>(sizeof(uint4)), pipeline);
      }
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum += compute(shared_memory + round % Stages * count, work);
    pipeline.consumer_release();
  }
  atomicAdd(work.clocks, static_cast<unsigned long long>(clock64() - begin));
  work.sums[blockIdx.x * threads + threadIdx.x] = sum;
}

// ----------------------------------------------------------------------------------- the tables

struct CopyMethod {
  CopyCase each;
  void (*kernel)(Copies);
  unsigned times = 1;
};

/// The first method of each part is its yardstick.
template <class Element>
std::vector<CopyMethod> methods(const char* part, unsigned times, bool has_bulk) {
  std::vector<CopyMethod> all = {
      {{part, "registers", 0}, copy_to_shared<Element, Method::registers>, times},
      {{part, "asynchronous, .ca", 0}, copy_to_shared<Element, Method::through_l1>, times}};
  if constexpr (sizeof(Element) == 16) {
    all.push_back(
        {{part, "asynchronous, .cg", 0}, copy_to_shared<Element, Method::past_l1>, times});
    if (has_bulk && times == 1) {
      all.push_back({{part, "bulk", 0}, copy_to_shared<Element, Method::bulk>, times});
    }
  }
  return all;
}

void measure_copy(CopyRows& rows, CopyMethod method, unsigned bytes) {
  method.each.bytes = bytes;
  permit_shared_memory(method.kernel, max_bytes);
  const cudaStream_t stream = rows.gpu().stream();
  const auto launch = [&](unsigned* wrong) {
    method.kernel<<<rows.blocks(), threads, bytes, stream>>>(
        {rows.words(), bytes, method.times, rows.clocks(), wrong});
    check_launch(method.each.method);
  };
  const DeviceArray<unsigned> wrong(1);
  wrong.clear(stream);
  launch(wrong.data());
  rows.bench().verify(wrong.read()[0] == 0, method.each.method);
  rows.measure(method.each, registers_of(method.kernel), [&] { launch(nullptr); },
               {0, rows.all_bytes(bytes) * method.times});
}

/// The sum of all threads of a block.
unsigned expected_sum(Order order, unsigned block, unsigned blocks, const Computation& work) {
  const unsigned words = work.bytes / sizeof(unsigned);
  unsigned sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned piece = (block + (order == Order::compute_only ? 0 : round)) % blocks;
    const std::uint64_t first = std::uint64_t{piece} * words;
    sum += order == Order::copy_only
               ? sum_of_replaced(first, 4, std::min(threads, words / 4), 0, 1, 0)
               : sum_of_replaced(first, 1, words, steps, work.factor, work.summand);
  }
  return sum;
}

/// An order of copies and computation.
struct NamedOrder {
  const char* name;
  Order order;
  void (*kernel)(Computation);
  unsigned buffers = 2;  ///< in shared memory, of a piece each
};

/// Checks and measures an order of copies and computation. Returns clocks per byte.
double measure_order(CopyRows& rows, const NamedOrder& each, unsigned bytes,
                     const std::function<std::string(double)>& remark = {}) {
  const auto& [name, order, kernel, buffers] = each;
  permit_shared_memory(kernel, buffers * bytes);
  const unsigned blocks = rows.blocks();
  const DeviceArray<unsigned> sums(std::uint64_t{blocks} * threads);
  const Computation work{rows.words(), bytes, 1664525, 1013904223, rows.clocks(), sums.data()};
  const auto launch = [&rows, &each, &work, blocks, bytes] {
    each.kernel<<<blocks, threads, each.buffers * bytes, rows.gpu().stream()>>>(work);
    check_launch(each.name);
  };
  launch();
  const std::vector<unsigned> found = sums.read();
  for (unsigned block = 0; block < blocks; ++block) {
    const auto begin = found.begin() + std::ptrdiff_t{block} * threads;
    rows.bench().verify(
        std::accumulate(begin, begin + threads, 0U) == expected_sum(order, block, blocks, work),
        name);
  }
  const double all = rows.all_bytes(bytes);
  const double operations = (2 * steps + 1) * all / sizeof(unsigned);
  return rows.measure({"16 B elements and computation", name, bytes}, registers_of(kernel), launch,
                      {order == Order::copy_only ? 0 : operations,
                       order == Order::compute_only ? all / rounds : all},
                      remark);
}

void measure_computation(CopyRows& rows, unsigned bytes) {
  const auto measure = [&](const NamedOrder& each,
                           const std::function<std::string(double)>& remark = {}) {
    return measure_order(rows, each, bytes, remark);
  };
  measure({"registers, then compute", Order::registers, copy_and_compute<Order::registers>});
  const double copy = measure({"copy only", Order::copy_only, copy_and_compute<Order::copy_only>});
  const double computation =
      measure({"compute only", Order::compute_only, copy_and_compute<Order::compute_only>});
  const double both = copy + computation;
  const auto overlapped = [&](double clocks) {
    return formatted("{:.2f} of the sum of copy and computation; the longer one is {:.2f}",
                     clocks / both, std::max(copy, computation) / both);
  };
  measure({"copy, wait, compute", Order::wait, copy_and_compute<Order::wait>}, [&](double clocks) {
    return formatted("{:.2f} of the sum of copy and computation", clocks / both);
  });
  measure({"copy the next, compute", Order::overlap, copy_and_compute<Order::overlap>}, overlapped);
  measure({"cuda::pipeline, 2 stages", Order::overlap, copy_in_pipeline<2>}, overlapped);
  constexpr unsigned many = 4;  // stages
  if (many * bytes > rows.gpu().properties().sharedMemPerBlockOptin - max_states) {
    rows.bench().note(
        formatted("A pipeline of {} stages is not measured with pieces of {} KiB: a block of this "
                  "GPU has less shared memory.",
                  many, bytes / 1024));
    return;
  }
  measure({"cuda::pipeline, 4 stages", Order::overlap, copy_in_pipeline<many>, many}, overlapped);
}

}  // namespace

Table async_copy(Bench& bench) {
  Gpu gpu(bench);
  CopyRows rows(bench, gpu, max_bytes, threads, rounds);
  constexpr int bulk = 90;  // compute capability
  const bool has_bulk = bench.device().info().compute_capability >= bulk;
  if (!has_bulk) bench.note("Bulk copies are not measured: they need compute capability 9.0.");
  const auto all_sizes = [&](const std::vector<CopyMethod>& of_part,
                             const std::vector<unsigned>& kib) {
    for (const CopyMethod& method : of_part) {
      for (const unsigned size : kib) measure_copy(rows, method, size * 1024);
    }
  };
  const std::vector<unsigned> few = {16, 48};
  const std::vector<unsigned> sizes = bench.is_quick() ? few : std::vector<unsigned>{4, 16, 28, 48};
  all_sizes(methods<float>("4 B elements", 1, has_bulk), sizes);
  all_sizes(methods<float2>("8 B elements", 1, has_bulk), sizes);
  all_sizes(methods<float4>("16 B elements", 1, has_bulk), sizes);
  all_sizes(methods<float4>("16 B elements, copied again", 2, has_bulk), {16});
  for (const unsigned size : few) measure_computation(rows, size * 1024);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
