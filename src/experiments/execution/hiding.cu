// Hiding latency. A warp waits for the result of an operation before it can use it. Meanwhile the
// multiprocessor runs other warps, or independent operations of the same warp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "experiments/bench.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/execution/little.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::execution {

Table hiding(Bench& bench);

extern const Experiment about_hiding = {
    .name = "hiding",
    .group = "execution",
    .summary = "Enough operations in flight hide the latency: latency times throughput.",
    .explanation =
        {
            .question =
                "How many operations must be in flight to reach the full rate, and does it matter "
                "whether they come from many warps or from one thread?",
            .varies =
                "Each thread has 1 to 8 independent chains of operations: fma, a division and an "
                "addition, a square root of an fma, or loads of 8 bytes from device memory. An "
                "operation needs the result of the one before it in its chain. In further rows, 8, "
                "30 or 120 fma follow each load; they need its word and each other. Last, a thread "
                "loads four values of 4 bytes, by four loads or by one of 16 bytes. 1 to 64 warps "
                "run on each multiprocessor. `in_flight` is the product of lanes, warps and "
                "chains: operations, or bytes for loads. `predicted` is the rate by Little's law; "
                "for loads with fma, it is also limited by the schedulers, each of which begins "
                "one instruction per clock.",
            .expectation =
                "Little's law: the rate is in_flight / latency, up to the throughput. The latency "
                "is measured with one warp and one chain; the throughput is the highest rate. "
                "Expect the rate to follow the prediction, whether the operations come from many "
                "warps or from many chains. A warp uses one of the four schedulers, so one warp "
                "can reach a quarter of the throughput of arithmetic. Loads stay a little below "
                "the prediction with many chains, since a step waits for the slowest of its loads. "
                "The guides give these examples. A multiprocessor of compute capability 3.x begins "
                "8 instructions per clock, so a latency of L clocks needs 8 L instructions. It has "
                "4 schedulers, and an addition takes 11 clocks: 4 x 11 = 44 warps. If a load takes "
                "300 clocks and there are 30 instructions for each load, 4 x 300 / 30 = 40 warps, "
                "if memory is fast enough. With few warps, expect fma to slow the loads down, "
                "since a warp does not load meanwhile. With many, expect 8 and 30 fma to cost "
                "little, and the schedulers to limit 120. For arithmetic, packing independent "
                "values into float4 gains nothing. A load of 16 bytes has as many bytes in flight "
                "as four of 4 bytes: expect nearly the same rate.",
            .pitfalls =
                "A division and a square root are exceptions: each is a sequence of instructions "
                "with a branch for rare operands. The chains of a thread run one after the other, "
                "only one of them counts as in flight, and only other warps hide the latency. An "
                "fma of three registers may read two of them from the same bank of the register "
                "file, which can halve the rate; here its factor is a literal, so it reads two "
                "registers.",
        },
    .read_on = {{Guide::best_practices, "Registers"},
                {Guide::best_practices, "Hiding Register Dependencies"},
                {Guide::programming, "Multiprocessor Level"}},
    .reference = "compute capability 7.0: an arithmetic instruction takes about 4 clocks.",
    .share = "of the rate that Little's law predicts",
    .exercise = {.task = "Predict the rate of fma in operations per clock (1/clock), with one "
                         "chain in 1, 4 and 64 warps, and with four chains in 1 warp, if an fma "
                         "takes 4 clocks and each of 4 schedulers begins 32 of them per clock.",
                 .rows = {{{"operation", "fma"}, {"warps", "1"}, {"chains", "1"}},
                          {{"operation", "fma"}, {"warps", "4"}, {"chains", "1"}},
                          {{"operation", "fma"}, {"warps", "64"}, {"chains", "1"}},
                          {{"operation", "fma"}, {"warps", "1"}, {"chains", "4"}}}},
    .figure = {.look = Look::lines,
               .x = "in_flight",
               .y = "rate",
               .series = "chains",
               .panel = "operation",
               .reference_lines = {"predicted"},
               .log_x = true,
               .log_y = true},
    .run = with_cuda<hiding>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned max_warps_of_block = 32, max_warps = 64, schedulers = 4;

/// The time that a block took, in clocks of its multiprocessor and in nanoseconds.
struct Span {
  long long begin, end;
  std::uint64_t begin_ns, end_ns, multiprocessor;
};

// The operations. x is the value of a chain. The compiler does not know a and b, which are
// arguments of the kernel. The build has -fmad=false, so a fused operation is written as fmaf().
// `chains_overlap`: whether the operations of independent chains in a thread run at the same time.

constexpr float factor = 1 + 0x1p-12F, summand = 0x1p-10F;  // a and b

struct Fma {
  static constexpr const char *name = "fma", *arithmetic = "fp32";
  static constexpr double operations = 2, instructions = 1;
  static constexpr bool chains_overlap = true;
  static __host__ __device__ float apply(float x, float, float b) { return fmaf(x, factor, b); }
};
/// By the value of the chain: a division by `a` would leave its reciprocal outside the loop. With
/// an addition: the value would else only alternate, and not show how often it was divided.
struct Division {
  static constexpr const char *name = "division", *arithmetic = "";
  static constexpr double operations = 2, instructions = not_counted;
  static constexpr bool chains_overlap = false;
  static __host__ __device__ float apply(float x, float a, float b) { return a / x + b; }
};
/// With an fma: the root alone would soon be 1.
struct Root {
  static constexpr const char *name = "square root", *arithmetic = "";
  static constexpr double operations = 3, instructions = not_counted;
  static constexpr bool chains_overlap = false;
  static __host__ __device__ float apply(float x, float, float b) { return sqrtf(fmaf(x, x, b)); }
};

/// The first value of a chain. There are only a few different ones, which the host can follow.
constexpr unsigned different = 8;
__host__ __device__ constexpr float start_of(unsigned thread, unsigned chain) {
  return 1 + static_cast<float>((thread + chain) % different) / different;
}

constexpr unsigned unrolled = 64;  // operations of a thread in the loop: the counter costs little

/// Each thread takes `steps` steps in each of `Chains` chains.
template <class Operation, unsigned Chains>
__global__ void __launch_bounds__(max_warps_of_block* warp)
    follow_chains(float a, float b, unsigned steps, float* results, Span* spans) {
  float x[Chains];
#pragma unroll
  for (unsigned k = 0; k < Chains; ++k) x[k] = start_of(threadIdx.x, k);
  __syncthreads();
  const long long begin = clock64();
  const std::uint64_t begin_ns = global_nanoseconds();
#pragma unroll 1
  for (unsigned step = 0; step < steps; step += unrolled / Chains) {
#pragma unroll
    for (unsigned s = 0; s < unrolled / Chains; ++s) {
#pragma unroll
      for (unsigned k = 0; k < Chains; ++k) x[k] = Operation::apply(x[k], a, b);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    spans[blockIdx.x] = {begin, clock64(), begin_ns, global_nanoseconds(), multiprocessor()};
  }
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
#pragma unroll
  for (unsigned k = 0; k < Chains; ++k) results[thread * Chains + k] = x[k];
}

/// Word i is (i, 0).
__global__ void write_words(uint2* words, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += step) {
    words[i] = make_uint2(static_cast<unsigned>(i), 0);
  }
}

/// Each thread has `Chains` loads in flight. All threads together read consecutive words, each of
/// them once. An address depends on the word before it in the chain, whose second part is 0. One
/// block a multiprocessor is enough (the second launch bound): to fit in the registers of two,
/// eight loads would be compiled as several groups, each of which waits for the one before.
template <unsigned Chains>
__global__ void __launch_bounds__(max_warps_of_block* warp, 1)
    follow_loads(const uint2* words, unsigned steps, unsigned* sums, Span* spans) {
  const unsigned threads = gridDim.x * blockDim.x;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at[Chains], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < Chains; ++k) at[k] = k * threads + thread;
  __syncthreads();
  const long long begin = clock64();
  const std::uint64_t begin_ns = global_nanoseconds();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    uint2 word[Chains];
#pragma unroll
    for (unsigned k = 0; k < Chains; ++k) word[k] = words[at[k]];
#pragma unroll
    for (unsigned k = 0; k < Chains; ++k) {
      sum += word[k].x;
      at[k] += Chains * threads + word[k].y;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    spans[blockIdx.x] = {begin, clock64(), begin_ns, global_nanoseconds(), multiprocessor()};
  }
  sums[thread] = sum;
}

/// Each thread has one load in flight, and takes `Arithmetic` steps of an fma after each, which
/// need the word and each other: its second part, 0, is a part of the summand.
template <unsigned Arithmetic>
__global__ void __launch_bounds__(max_warps_of_block* warp, 1)
    load_and_compute(const uint2* words, float b, unsigned steps, unsigned* sums, float* results,
                     Span* spans) {
  const unsigned threads = gridDim.x * blockDim.x;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = thread, sum = 0;
  float x = start_of(threadIdx.x, 0);
  __syncthreads();
  const long long begin = clock64();
  const std::uint64_t begin_ns = global_nanoseconds();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    const uint2 word = words[at];
    sum += word.x;
    at += threads + word.y;
    const float added = b + __uint_as_float(word.y);
#pragma unroll
    for (unsigned k = 0; k < Arithmetic; ++k) x = Fma::apply(x, factor, added);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    spans[blockIdx.x] = {begin, clock64(), begin_ns, global_nanoseconds(), multiprocessor()};
  }
  sums[thread] = sum;
  results[thread] = x;
}
/// Other instructions of a step: a load, its address, three additions, and the loop.
constexpr unsigned other_instructions = 8;

/// Four values of 4 bytes that a thread loads, each by a load of its own or all by one.
enum class Fours { separate, packed };

/// In each step, all threads together read consecutive words. The next address depends on the words
/// before it: they are below 2^31.
template <Fours How>
__global__ void __launch_bounds__(max_warps_of_block* warp, 1)
    load_fours(const unsigned* words, unsigned steps, unsigned* sums, Span* spans) {
  const unsigned threads = gridDim.x * blockDim.x;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = thread, sum = 0;
  __syncthreads();
  const long long begin = clock64();
  const std::uint64_t begin_ns = global_nanoseconds();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    uint4 four;
    if constexpr (How == Fours::packed) {
      four = reinterpret_cast<const uint4*>(words)[at];
      at += threads;
    } else {
      four = {words[at], words[at + threads], words[at + 2 * threads], words[at + 3 * threads]};
      at += 4 * threads;
    }
    sum += four.x + four.y + four.z + four.w;
    at += (four.x | four.y | four.z | four.w) >> 31;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    spans[blockIdx.x] = {begin, clock64(), begin_ns, global_nanoseconds(), multiprocessor()};
  }
  sums[thread] = sum;
}

using FollowChains = void (*)(float, float, unsigned, float*, Span*);
using FollowLoads = void (*)(const uint2*, unsigned, unsigned*, Span*);
using LoadAndCompute = void (*)(const uint2*, float, unsigned, unsigned*, float*, Span*);
using LoadFours = void (*)(const unsigned*, unsigned, unsigned*, Span*);

/// A kernel with this number of chains in each thread.
template <class Kernel>
struct WithChains {
  unsigned chains;
  Kernel kernel;
};

template <class Operation>
std::vector<WithChains<FollowChains>> arithmetic_kernels() {
  std::vector<WithChains<FollowChains>> kernels = {{1, follow_chains<Operation, 1>},
                                                   {4, follow_chains<Operation, 4>}};
  if constexpr (Operation::chains_overlap) kernels.push_back({8, follow_chains<Operation, 8>});
  return kernels;
}

std::vector<WithChains<FollowLoads>> load_kernels() {
  return {{1, follow_loads<1>}, {4, follow_loads<4>}, {8, follow_loads<8>}};
}

/// The clocks from the first begin to the last end on a multiprocessor: the median of those that
/// got `blocks` blocks, as was planned.
double clocks_of(const std::vector<Span>& spans, unsigned blocks) {
  std::map<std::uint64_t, std::vector<Span>> all;
  for (const Span& span : spans) all[span.multiprocessor].push_back(span);
  std::vector<double> clocks;
  for (const auto& [number, own] : all) {
    if (own.size() != blocks) continue;
    clocks.push_back(static_cast<double>(std::ranges::max(own, {}, &Span::end).end -
                                         std::ranges::min(own, {}, &Span::begin).begin));
  }
  if (2 * clocks.size() * blocks < spans.size()) {
    throw Error(
        "the blocks were not spread evenly over the multiprocessors, perhaps because another "
        "process uses the GPU: stop it, and repeat the experiment");
  }
  return median(std::move(clocks));
}

/// The seconds from the first begin to the last end of all blocks.
double seconds_of(const std::vector<Span>& spans) {
  return static_cast<double>(std::ranges::max(spans, {}, &Span::end_ns).end_ns -
                             std::ranges::min(spans, {}, &Span::begin_ns).begin_ns) /
         1e9;
}

/// A launch that puts `warps` warps on each multiprocessor.
struct Shape {
  unsigned warps, chains;
  unsigned multiprocessors;

  unsigned blocks_each() const { return (warps + max_warps_of_block - 1) / max_warps_of_block; }
  unsigned blocks() const { return blocks_each() * multiprocessors; }
  unsigned threads() const { return warps / blocks_each() * warp; }  ///< of a block
  std::uint64_t threads_of_all() const { return std::uint64_t{blocks()} * threads(); }
};

/// A measured launch.
struct Case {
  Shape shape;
  double in_flight;  ///< operations, or bytes of loads, on a multiprocessor
  Measured rate;     ///< of them in a clock of a multiprocessor
  double total;      ///< of them on the whole GPU, in 10^9 per second
  Work work;
  double seconds;  ///< of one launch
};

class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu)
      : bench_(bench),
        gpu_(gpu),
        words_(bench.fitting(std::uint64_t{1} << 30) / sizeof(uint2)) {  // beyond any cache
    write_words<<<2048, 256, 0, gpu.stream()>>>(words_.data(), words_.size());
    check_launch("write_words");
  }

  template <class Operation>
  std::vector<Case> of_arithmetic() {
    return of_each(arithmetic_kernels<Operation>(), &Cases::arithmetic<Operation>);
  }
  std::vector<Case> of_loads() { return of_each(load_kernels(), &Cases::loads); }
  /// With the 40 warps of the guide's example.
  template <unsigned Arithmetic>
  std::vector<Case> of_computed_loads() {
    return of_each<LoadAndCompute>({{1, load_and_compute<Arithmetic>}},
                                   &Cases::computed_loads<Arithmetic>, {1U, 4U, 16U, 40U, 64U});
  }
  template <Fours How>
  std::vector<Case> of_fours() {
    return of_each<LoadFours>({{How == Fours::separate ? 4U : 1U, load_fours<How>}},
                              &Cases::fours<How>);
  }

 private:
  template <class Kernel>
  std::vector<Case> of_each(const std::vector<WithChains<Kernel>>& kernels,
                            Case (Cases::*measured)(const Shape&, Kernel),
                            const std::vector<unsigned>& numbers_of_warps = {1U, 4U, 16U, 64U});
  Case measure(const Shape& shape, double unit, unsigned overlapping, unsigned steps,
               const Work& work, const std::function<void(Span*)>& launch);
  template <class Operation>
  Case arithmetic(const Shape& shape, FollowChains kernel);
  Case loads(const Shape& shape, FollowLoads kernel);
  template <unsigned Arithmetic>
  Case computed_loads(const Shape& shape, LoadAndCompute kernel);
  template <Fours How>
  Case fours(const Shape& shape, LoadFours kernel);

  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<uint2> words_;
};

/// Measures each kernel in the shapes whose blocks fit on the multiprocessors at the same time.
template <class Kernel>
std::vector<Case> Cases::of_each(const std::vector<WithChains<Kernel>>& kernels,
                                 Case (Cases::*measured)(const Shape&, Kernel),
                                 const std::vector<unsigned>& numbers_of_warps) {
  std::vector<Case> cases;
  for (const auto& [chains, kernel] : kernels) {
    if (bench_.is_quick() && chains == 8) continue;
    for (const unsigned warps : numbers_of_warps) {
      const Shape shape{warps, chains,
                        static_cast<unsigned>(gpu_.properties().multiProcessorCount)};
      int fits = 0;
      check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fits, kernel,
                                                          static_cast<int>(shape.threads()), 0),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      if (fits < static_cast<int>(shape.blocks_each())) continue;
      cases.push_back((this->*measured)(shape, kernel));
    }
  }
  return cases;
}

/// `unit`: operations or bytes of one step of a chain. `overlapping`: chains of a thread that are
/// in flight at the same time.
Case Cases::measure(const Shape& shape, double unit, unsigned overlapping, unsigned steps,
                    const Work& work, const std::function<void(Span*)>& launch) {
  const DeviceArray<Span> spans(shape.blocks());
  std::vector<Span> found;
  const Measured clocks = bench_.repeat([&] {
    launch(spans.data());
    found = spans.read();
    return clocks_of(found, shape.blocks_each());
  });
  const double of_chain = unit * shape.warps * warp;
  const double each = of_chain * shape.chains * steps;  // on a multiprocessor
  return {shape,
          of_chain * overlapping,
          {each / clocks.value, each / clocks.hi, each / clocks.lo},
          each * shape.multiprocessors / seconds_of(found) / 1e9,
          work,
          seconds_of(found)};
}

/// The values of the chains after `steps` steps, by their first value.
template <class Operation>
std::vector<float> expected_ends(unsigned steps) {
  std::vector<float> ends;
  for (unsigned i = 0; i < different; ++i) {
    float x = start_of(i, 0);
    for (unsigned s = 0; s < steps; ++s) x = Operation::apply(x, factor, summand);
    ends.push_back(x);
  }
  return ends;
}

template <class Operation>
Case Cases::arithmetic(const Shape& shape, FollowChains kernel) {
  // Enough steps for the clock, and not more than the throughput needs.
  const unsigned steps = std::clamp(65536 / (shape.warps * shape.chains), 512U, 8192U);
  const DeviceArray<float> results(shape.threads_of_all() * shape.chains);
  const auto launch = [&](Span* spans) {
    kernel<<<shape.blocks(), shape.threads(), 0, gpu_.stream()>>>(factor, summand, steps,
                                                                  results.data(), spans);
    check_launch("follow_chains");
  };
  const double all = static_cast<double>(results.size()) * steps;
  const Case measured = measure(shape, 1, Operation::chains_overlap ? shape.chains : 1, steps,
                                {.operations = all * Operation::operations,
                                 .bytes = 0,
                                 .arithmetic = Operation::arithmetic,
                                 .shared = 0,
                                 .instructions = all / warp * Operation::instructions},
                                launch);
  const std::vector<float> ends = expected_ends<Operation>(steps), found = results.read();
  bool is_right = true;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    const std::uint64_t thread = i / shape.chains % shape.threads(), chain = i % shape.chains;
    is_right = is_right && found[i] == ends[(thread + chain) % different];
  }
  bench_.verify(is_right, Operation::name);
  return measured;
}

/// The sum of follow_loads() in a thread: step s of chain k reads word
/// first + (s * chains + k) * threads + thread.
unsigned expected_sum(std::uint64_t first, std::uint64_t thread, std::uint64_t threads,
                      std::uint64_t loads_of_thread) {
  return static_cast<unsigned>(loads_of_thread * (first + thread) +
                               threads * (loads_of_thread * (loads_of_thread - 1) / 2));
}

Case Cases::loads(const Shape& shape, FollowLoads kernel) {
  const std::uint64_t of_step = shape.threads_of_all() * shape.chains;
  const auto steps = static_cast<unsigned>(std::min<std::uint64_t>(512, words_.size() / of_step));
  // Each launch reads the next region of the array, so that the caches do not have its words.
  const std::uint64_t region = of_step * steps, regions = words_.size() / region;
  std::uint64_t launches = 0, first = 0;
  const DeviceArray<unsigned> sums(shape.threads_of_all());
  const auto launch = [&](Span* spans) {
    first = launches++ % regions * region;
    kernel<<<shape.blocks(), shape.threads(), 0, gpu_.stream()>>>(words_.data() + first, steps,
                                                                  sums.data(), spans);
    check_launch("follow_loads");
  };
  // A load, its address, and two additions; and the loop.
  const double instructions = static_cast<double>(region) / warp * (4.7 + 2.4 / shape.chains);
  Work work = streaming(static_cast<double>(region * sizeof(uint2)));
  work.instructions = instructions;
  const Case measured = measure(shape, sizeof(uint2), shape.chains, steps, work, launch);
  const std::vector<unsigned> found = sums.read();
  bool is_right = true;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    is_right = is_right && found[i] == expected_sum(first, i, found.size(),
                                                    std::uint64_t{steps} * shape.chains);
  }
  bench_.verify(is_right, "loads");
  return measured;
}

template <unsigned Arithmetic>
Case Cases::computed_loads(const Shape& shape, LoadAndCompute kernel) {
  const std::uint64_t of_step = shape.threads_of_all();
  const auto steps = static_cast<unsigned>(std::min<std::uint64_t>(512, words_.size() / of_step));
  const std::uint64_t region = of_step * steps, regions = words_.size() / region;
  std::uint64_t launches = 0, first = 0;
  const DeviceArray<unsigned> sums(of_step);
  const DeviceArray<float> results(of_step);
  const auto launch = [&](Span* spans) {
    first = launches++ % regions * region;  // as in loads()
    kernel<<<shape.blocks(), shape.threads(), 0, gpu_.stream()>>>(
        words_.data() + first, summand, steps, sums.data(), results.data(), spans);
    check_launch("load_and_compute");
  };
  const auto all = static_cast<double>(region);
  const Case measured = measure(shape, sizeof(uint2), 1, steps,
                                {.operations = all * Arithmetic * Fma::operations,
                                 .bytes = all * sizeof(uint2),
                                 .arithmetic = Fma::arithmetic,
                                 .distinct = all * sizeof(uint2),
                                 .shared = 0,
                                 .instructions = all / warp * (Arithmetic + other_instructions)},
                                launch);
  const std::vector<unsigned> found = sums.read();
  const std::vector<float> ends = expected_ends<Fma>(steps * Arithmetic), computed = results.read();
  bool is_right = true;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    is_right = is_right && found[i] == expected_sum(first, i, found.size(), steps) &&
               computed[i] == ends[i % shape.threads() % different];
  }
  bench_.verify(is_right, formatted("loads with {} fma", Arithmetic));
  return measured;
}

/// The sum of load_fours() in a thread, which begins at word `first`, a multiple of 4. Word 2 i is
/// i, and the others are 0.
template <Fours How>
unsigned expected_sum_of_fours(std::uint64_t first, std::uint64_t thread, std::uint64_t threads,
                               std::uint64_t steps) {
  if constexpr (How == Fours::packed) {  // words 4 q to 4 q + 3 are 2 q, 0, 2 q + 1 and 0
    return static_cast<unsigned>(steps * (first + 4 * thread + 1) +
                                 4 * threads * (steps * (steps - 1) / 2));
  }
  if (thread % 2 == 1) return 0;
  const std::uint64_t loads = 4 * steps;
  return static_cast<unsigned>(loads * ((first + thread) / 2) +
                               threads / 2 * (loads * (loads - 1) / 2));
}

template <Fours How>
Case Cases::fours(const Shape& shape, LoadFours kernel) {
  const auto* const words = reinterpret_cast<const unsigned*>(words_.data());
  const std::uint64_t count = 2 * words_.size(), of_step = 4 * shape.threads_of_all();
  const auto steps = static_cast<unsigned>(std::min<std::uint64_t>(512, count / of_step));
  const std::uint64_t region = of_step * steps, regions = count / region;
  std::uint64_t launches = 0, first = 0;
  const DeviceArray<unsigned> sums(shape.threads_of_all());
  const auto launch = [&](Span* spans) {
    first = launches++ % regions * region;  // as in loads()
    kernel<<<shape.blocks(), shape.threads(), 0, gpu_.stream()>>>(words + first, steps, sums.data(),
                                                                  spans);
    check_launch("load_fours");
  };
  const Work work = streaming(static_cast<double>(region * sizeof(unsigned)));
  const Case measured =
      measure(shape, 4.0 * sizeof(unsigned) / shape.chains, shape.chains, steps, work, launch);
  const std::vector<unsigned> found = sums.read();
  bool is_right = true;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    is_right = is_right && found[i] == expected_sum_of_fours<How>(first, i, found.size(), steps);
  }
  bench_.verify(is_right, How == Fours::packed ? "packed loads" : "separate loads");
  return measured;
}

/// One operation in the table.
struct Operations {
  const char* name;
  const char* unit;    ///< "operations", "bytes"
  bool is_arithmetic;  ///< its warps need schedulers of their own
  std::vector<Case> cases;
};

void add(Bench& bench, Measurements& rows, const Operations& all) {
  const Case& alone = all.cases.front();  // one warp with one chain
  const double latency = alone.in_flight / alone.rate.value;
  const auto rate_of = [](const Case& each) { return each.rate.value; };
  const double throughput = rate_of(std::ranges::max(all.cases, {}, rate_of));
  const double needed = needed_in_flight(latency, throughput);
  for (const Case& each : all.cases) {
    const unsigned busy = all.is_arithmetic ? std::min(each.shape.warps, schedulers) : schedulers;
    const double possible = throughput * busy / schedulers;
    const double predicted = expected_rate(each.in_flight, latency, possible);
    const double share = each.rate.value / predicted;
    std::string remark = each.in_flight < needed_in_flight(latency, possible)
                             ? "too few in flight to hide the latency"
                         : busy < schedulers ? formatted("{} of {} schedulers", busy, schedulers)
                                             : "the latency is hidden";
    if (share < 0.8 || share > 1.2) remark += formatted(", and {:.2f} of the prediction", share);
    rows.add({all.name, to_cell(each.shape.warps), to_cell(each.shape.chains), each.in_flight,
              predicted, each.total},
             each.rate, share, remark, each.work, each.seconds);
  }
  const double warps = needed / alone.in_flight;
  std::string needs = formatted("{:.0f} warps", std::ceil(warps));
  if (const Case& last = all.cases.back(); last.in_flight > alone.in_flight * last.shape.warps) {
    needs += formatted(" with one chain, or {:.0f} with four", std::ceil(warps / 4));
  }
  bench.note(formatted(
      "{}: a latency of {:.1f} clocks and at most {:.1f} {} per clock need {:.0f} in flight: {}.",
      std::string(all.name), latency, throughput, std::string(all.unit), needed, needs));
}

/// The latency of a case with one warp and one chain.
double latency_of(const std::vector<Case>& cases) {
  return cases.front().in_flight / cases.front().rate.value;
}
double throughput_of(const std::vector<Case>& cases) {
  double highest = 0;
  for (const Case& each : cases) highest = std::max(highest, each.rate.value);
  return highest;
}

/// Loads with fused multiply-adds between them. The other cases have the latencies of both.
void add_computed(Bench& bench, Measurements& rows, unsigned arithmetic,
                  const std::vector<Case>& cases, const std::vector<Case>& loads,
                  const std::vector<Case>& fma) {
  constexpr double bytes = sizeof(uint2) * warp;  // of a step of a warp
  // A chain of a warp has `warp` operations in flight.
  const StepsWithArithmetic steps{latency_of(loads), latency_of(fma), throughput_of(loads) / bytes,
                                  arithmetic, other_instructions};
  const double most = steps.rate(max_warps, schedulers);
  for (const Case& each : cases) {
    const double predicted = steps.rate(each.shape.warps, schedulers);
    const double share = each.rate.value / (predicted * bytes);
    std::string remark = predicted < most              ? "too few warps to hide the latency"
                         : predicted < steps.max_loads ? "the schedulers are busy"
                                                       : "the memory is the limit";
    if (share < 0.8 || share > 1.2) remark += formatted(", and {:.2f} of the prediction", share);
    rows.add({formatted("loads, {} fma each", arithmetic), to_cell(each.shape.warps),
              to_cell(each.shape.chains), each.in_flight, predicted * bytes, each.total},
             each.rate, share, remark, each.work, each.seconds);
  }
  bench.note(formatted(
      "loads, {} fma each: by the rule of the guide, a latency of {:.0f} clocks needs {} x {:.0f} "
      "/ "
      "{} = {:.0f} warps; with the fma, each of which waits {:.1f} clocks for the one before, "
      "{:.0f} "
      "warps reach {:.2f} of the rate of memory.",
      arithmetic, steps.load_latency, schedulers, steps.load_latency, arithmetic,
      std::ceil(schedulers * steps.load_latency / arithmetic), steps.latency,
      std::ceil(most * (steps.load_latency + arithmetic * steps.latency)), most / steps.max_loads));
}

}  // namespace

Table hiding(Bench& bench) {
  Gpu gpu(bench);
  Cases cases(bench, gpu);
  Measurements rows({{"operation", ColumnType::text},
                     {"warps", ColumnType::integer},
                     {"chains", ColumnType::integer},
                     {"in_flight", ColumnType::real},
                     {"predicted", ColumnType::real, "1/clock"},
                     {"total", ColumnType::real, "1e9/s"}},
                    {"rate", ColumnType::real, "1/clock"}, Rows::of_kernels);
  const std::vector<Case> fma = cases.of_arithmetic<Fma>();
  add(bench, rows, {Fma::name, "operations", true, fma});
  add(bench, rows, {Division::name, "operations", true, cases.of_arithmetic<Division>()});
  add(bench, rows, {Root::name, "operations", true, cases.of_arithmetic<Root>()});
  const std::vector<Case> loads = cases.of_loads();
  add(bench, rows, {"loads", "bytes", false, loads});
  add_computed(bench, rows, 8, cases.of_computed_loads<8>(), loads, fma);
  add_computed(bench, rows, 30, cases.of_computed_loads<30>(), loads, fma);
  add_computed(bench, rows, 120, cases.of_computed_loads<120>(), loads, fma);
  add(bench, rows, {"4 loads of 4 bytes", "bytes", false, cases.of_fours<Fours::separate>()});
  add(bench, rows, {"1 load of 16 bytes", "bytes", false, cases.of_fours<Fours::packed>()});
  bench.note(
      "in_flight and rate are per multiprocessor: bytes for loads, operations otherwise. The clock "
      "is that of the multiprocessor; `total` is of the whole GPU, in GB/s for loads.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
