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
        "Each thread has 1 to 8 chains of operations: fma, a division and an addition, a square "
        "root of an fma, or loads of 8 bytes from device memory. An operation needs the result of "
        "the one before it in its chain; the chains are independent. 1 to 64 warps run on each "
        "multiprocessor. `in_flight` is the product of lanes, warps and chains: operations, or "
        "bytes for loads. The latency is measured with one warp and one chain, the throughput is "
        "the highest rate. Little's law predicts from these two: the rate is in_flight / latency, "
        "up to the throughput. A warp uses one of the four schedulers, so one warp can reach a "
        "quarter of the throughput of arithmetic. Expect the rate to follow the prediction, "
        "whether the operations come from many warps or from many chains; loads stay a little "
        "below it with many chains, since a step waits for the slowest of its loads. A division "
        "and a square root are exceptions: each is a sequence of instructions with a branch for "
        "rare operands. The chains of a thread run one after the other, only one of them counts "
        "as in flight, and only other warps hide the latency. The factor of the fma is a literal, "
        "so it reads two registers. With three, two of them lie in the same bank of the register "
        "file, which can halve the rate. The guides give these examples. A multiprocessor of "
        "compute capability 3.x begins 8 instructions per clock, so a latency of L clocks needs 8 "
        "L instructions. It has 4 schedulers, and an addition takes 11 clocks: 4 x 11 = 44 warps. "
        "If a load takes 300 clocks and there are 30 instructions for each load, 4 x 300 / 30 = "
        "40 warps. Packing independent values into float4 gains nothing. CUDA C++ Best Practices "
        "Guide, sections Registers and Hiding Register Dependencies; CUDA C++ Programming Guide, "
        "section Multiprocessor Level.",
    .reference = "compute capability 7.0: an arithmetic instruction takes about 4 clocks.",
    .share = "of the rate that Little's law predicts",
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

constexpr unsigned warp = 32, max_warps_of_block = 32, schedulers = 4;

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
  static constexpr double operations = 2;
  static constexpr bool chains_overlap = true;
  static __host__ __device__ float apply(float x, float, float b) { return fmaf(x, factor, b); }
};
/// By the value of the chain: a division by `a` would leave its reciprocal outside the loop. With
/// an addition: the value would else only alternate, and not show how often it was divided.
struct Division {
  static constexpr const char *name = "division", *arithmetic = "";
  static constexpr double operations = 2;
  static constexpr bool chains_overlap = false;
  static __host__ __device__ float apply(float x, float a, float b) { return a / x + b; }
};
/// With an fma: the root alone would soon be 1.
struct Root {
  static constexpr const char *name = "square root", *arithmetic = "";
  static constexpr double operations = 3;
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

using FollowChains = void (*)(float, float, unsigned, float*, Span*);
using FollowLoads = void (*)(const uint2*, unsigned, unsigned*, Span*);

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

  unsigned blocks_each() const { return std::max(1U, warps / max_warps_of_block); }
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

 private:
  template <class Kernel>
  std::vector<Case> of_each(const std::vector<WithChains<Kernel>>& kernels,
                            Case (Cases::*measured)(const Shape&, Kernel));
  Case measure(const Shape& shape, double unit, unsigned overlapping, unsigned steps,
               const Work& work, const std::function<void(Span*)>& launch);
  template <class Operation>
  Case arithmetic(const Shape& shape, FollowChains kernel);
  Case loads(const Shape& shape, FollowLoads kernel);

  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<uint2> words_;
};

/// Measures each kernel in the shapes whose blocks fit on the multiprocessors at the same time.
template <class Kernel>
std::vector<Case> Cases::of_each(const std::vector<WithChains<Kernel>>& kernels,
                                 Case (Cases::*measured)(const Shape&, Kernel)) {
  std::vector<Case> cases;
  for (const auto& [chains, kernel] : kernels) {
    if (bench_.is_quick() && chains == 8) continue;
    for (const unsigned warps : {1U, 4U, 16U, 64U}) {
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
                                {all * Operation::operations, 0, Operation::arithmetic}, launch);
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
  const auto all = static_cast<double>(region * sizeof(uint2));
  const Case measured = measure(shape, sizeof(uint2), shape.chains, steps, {0, all}, launch);
  const std::vector<unsigned> found = sums.read();
  bool is_right = true;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    is_right = is_right && found[i] == expected_sum(first, i, found.size(),
                                                    std::uint64_t{steps} * shape.chains);
  }
  bench_.verify(is_right, "loads");
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
  add(bench, rows, {Fma::name, "operations", true, cases.of_arithmetic<Fma>()});
  add(bench, rows, {Division::name, "operations", true, cases.of_arithmetic<Division>()});
  add(bench, rows, {Root::name, "operations", true, cases.of_arithmetic<Root>()});
  add(bench, rows, {"loads", "bytes", false, cases.of_loads()});
  bench.note(
      "in_flight and rate are per multiprocessor: bytes for loads, operations otherwise. The clock "
      "is that of the multiprocessor; `total` is of the whole GPU, in GB/s for loads.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
