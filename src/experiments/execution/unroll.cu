// The gain and the cost of unrolled loops: fewer instructions for the loop and more loads in
// flight, for more registers and more code.
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "experiments/execution/code_size.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/kernel_resources.hpp"

namespace shardstream::experiments::execution {

Table unroll(Bench& bench);

namespace {

/// The time in ms if an n-th of a part of the step that is not unrolled stays: of the instructions
/// of the loop, or of the waits for loads.
double expected_time(const MeasuredRow& row) {
  const std::string name = row.text("case");
  const double n = row["unroll"];
  const auto of = [&](const char* unroll) {
    return row.measured({{"case", name}, {"unroll", unroll}});
  };
  if (name == "shuffles") return of("1");
  if (name == "long") return n > 8 ? of("8") : row.measured({{"case", "short"}}, {"unroll"});
  if (name == "short") return of("64") + (of("1") - of("64")) / n;
  return of("1") - 2 * (of("1") - of("2")) * (1 - 1 / n);
}

}  // namespace

extern const Experiment about_unroll = {
    .name = "unroll",
    .group = "execution",
    .summary = "An unrolled loop saves instructions, and costs registers and code.",
    .explanation =
        {
            .question = "How far should a loop be unrolled, and which loops gain from it?",
            .varies =
                "#pragma unroll n repeats the body of a loop n times, with n = 1, 2, 4, 8 and the "
                "number of its steps, which unrolls it completely. The case `short` is a loop of "
                "64 dependent multiply-adds, repeated 64 times. `long` is one loop of 4096 of "
                "them: the same work, but 64 KiB of code if it is unrolled completely. In `loads` "
                "each thread adds 64 words. `shuffles` is the sum of a warp, with five steps, "
                "after one load for each thread. The table shows the registers of a thread, as the "
                "driver reports them, and the bytes of code of the kernel, as in the program's "
                "file.",
            .expectation =
                "A step that is not unrolled is a multiply-add and the instructions of the loop: a "
                "counter, a comparison and a branch. So expect `short` to become two to four times "
                "as fast, most of it with n = 4 or 8: of the time that complete unrolling saves, "
                "1/n remains. Expect `long` to gain the same up to n = 8; completely unrolled, it "
                "gains nothing more and may lose, since its code exceeds the small instruction "
                "caches of a multiprocessor. Expect the speed of `loads` to grow with n, until "
                "memory or the L2 cache limits it, and its registers as well: a thread waits for "
                "loads 64/n times, so n = 1 and 2 tell the time of a wait. Expect `shuffles` to "
                "gain nothing, since memory limits it.",
            .pitfalls =
                "Many threads would hide the latency of the loads by themselves. In `loads` there "
                "are few threads, so that the rate depends on the loads that each thread has in "
                "flight.",
        },
    .read_on = {{Guide::best_practices, "Branch Predication"},
                {Guide::programming, "#pragma unroll"}},
    .reference =
        "Tesla V100, the last steps of a reduction of 2^24 floats unrolled: 0.264 ms "
        "became 0.263.",
    .share = "of the speed of the loop that is not unrolled",
    .expected = expected_time,
    .exercise = {.task = "Predict the time in ms of `short` with n = 2, 4 and 8, if it takes 0.18 "
                         "ms with n = 1 and 0.07 ms completely unrolled, and of `shuffles` with n "
                         "= 4, if it takes 0.05 ms with n = 1.",
                 .rows = {{{"case", "short"}, {"unroll", "2"}},
                          {{"case", "short"}, {"unroll", "4"}},
                          {{"case", "short"}, {"unroll", "8"}},
                          {{"case", "shuffles"}, {"unroll", "4"}}}},
    .figure = {.look = Look::lines,
               .x = "unroll",
               .y = "time",
               .panel = "case",
               .log_x = true,
               .more_is_better = false},
    .run = with_cuda<unroll>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr unsigned multiply_adds = 4096;  // of a thread
constexpr unsigned loads = 64;            // of a thread
constexpr unsigned levels = 5;

/// A chain of multiply-adds in loops of `Steps`. The outer loop is not unrolled.
template <unsigned Steps, unsigned Unroll>
__global__ void __launch_bounds__(threads) chain(float* values, float factor, float term) {
  const unsigned t = blockIdx.x * threads + threadIdx.x;
  auto value = static_cast<float>(t % 1024);
#pragma unroll 1
  for (unsigned round = 0; round < multiply_adds / Steps; ++round) {
#pragma unroll Unroll
    for (unsigned step = 0; step < Steps; ++step) value = fmaf(value, factor, term);
  }
  values[t] = value;
}

/// Each thread adds `loads` words that are a grid of threads apart. With a minimum of one block,
/// the compiler may use registers for all loads in flight.
template <unsigned Unroll>
__global__ void __launch_bounds__(threads, 1) add_words(const unsigned* words, unsigned* sums) {
  const unsigned t = blockIdx.x * threads + threadIdx.x, step = gridDim.x * threads;
  unsigned sum = 0;
#pragma unroll Unroll
  for (unsigned k = 0; k < loads; ++k) sum += words[t + k * step];
  sums[t] = sum;
}

/// Each warp adds the words of its lanes.
template <unsigned Unroll>
__global__ void __launch_bounds__(threads) add_in_warps(const unsigned* words, unsigned* sums) {
  const unsigned t = blockIdx.x * threads + threadIdx.x;
  unsigned sum = words[t];
#pragma unroll Unroll
  for (unsigned level = 0; level < levels; ++level) {
    sum += __shfl_down_sync(0xffffffffU, sum, warp / 2 >> level);
  }
  if (t % warp == 0) sums[t / warp] = sum;
}

/// Word i is i.
__global__ void number(unsigned* words) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  words[i] = i;
}

/// A kernel with its loop unrolled `unroll` times.
template <class Kernel>
struct Unrolled {
  unsigned unroll;
  Kernel kernel;
};

using Chain = void (*)(float* values, float factor, float term);
using Adding = void (*)(const unsigned* words, unsigned* sums);

template <unsigned Steps>
constexpr std::array<Unrolled<Chain>, 5> chains = {{{1, chain<Steps, 1>},
                                                    {2, chain<Steps, 2>},
                                                    {4, chain<Steps, 4>},
                                                    {8, chain<Steps, 8>},
                                                    {Steps, chain<Steps, Steps>}}};
constexpr std::array<Unrolled<Adding>, 5> adding_words = {{{1, add_words<1>},
                                                           {2, add_words<2>},
                                                           {4, add_words<4>},
                                                           {8, add_words<8>},
                                                           {loads, add_words<loads>}}};
constexpr std::array<Unrolled<Adding>, 4> adding_in_warps = {{{1, add_in_warps<1>},
                                                              {2, add_in_warps<2>},
                                                              {4, add_in_warps<4>},
                                                              {levels, add_in_warps<levels>}}};

// ------------------------------------------------------------------------------ the experiment

/// Measures kernels and adds their rows. Not thread-safe.
class Loops {
 public:
  Loops(Bench& bench, Gpu& gpu) : bench_(bench), gpu_(gpu), program_(own_program()) {}

  /// Verifies one call of `launch` and measures it. The first kernel of a case is not unrolled.
  void add(const char* name, unsigned unroll, const void* kernel, const Work& work,
           const std::function<void()>& launch, const std::function<bool()>& is_right) {
    const cudaFuncAttributes attributes = attributes_of(kernel);
    const char* mangled = nullptr;
    check(cudaFuncGetName(&mangled, kernel), "cudaFuncGetName");
    const auto size = code_size(program_, mangled, static_cast<unsigned>(attributes.binaryVersion));
    if (!size) is_code_unknown_ = true;
    launch();
    check_launch(name);
    gpu_.synchronize();
    bench_.verify(is_right(), formatted("{}, unrolled {} times", std::string(name), unroll));
    const Measured time = gpu_.time(launch).seconds.times(1e3);
    if (unroll == 1) rolled_ = time.value;
    rows_.add({name, std::int64_t{unroll}, std::int64_t{attributes.numRegs},
               size ? static_cast<double>(*size) : std::nan("")},
              time, rolled_ / time.value,
              unroll == 1 ? "not unrolled" : ratio_text(rolled_ / time.value) + " times as fast",
              work, time.value * 1e-3);
  }

  Table table() && {
    if (is_code_unknown_) {
      bench_.note(
          "Some sizes of code are unknown: the program's file has no plain cubin for this GPU.");
    }
    return std::move(rows_).table();
  }

 private:
  Bench& bench_;
  Gpu& gpu_;
  std::vector<std::byte> program_;
  Measurements rows_{{{"case", ColumnType::text},
                      {"unroll", ColumnType::integer},
                      {"registers", ColumnType::integer},
                      {"code", ColumnType::real, "B"}},
                     {"time", ColumnType::real, "ms"},
                     Rows::of_kernels};
  double rolled_ = 0;  ///< ms of the loop that is not unrolled
  bool is_code_unknown_ = false;
};

/// All multiprocessors are full, so that instructions limit the time and not their latency.
void add_chains(Loops& loops, Gpu& gpu, const char* name, const auto& kernels) {
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount *
                                            gpu.properties().maxThreadsPerMultiProcessor) /
                      threads;
  const DeviceArray<float> values(std::uint64_t{blocks} * threads);
  const auto count = static_cast<double>(values.size());
  for (const auto& [unroll, kernel] : kernels) {
    values.clear(gpu.stream());
    loops.add(
        name, unroll, reinterpret_cast<const void*>(kernel),
        {2.0 * multiply_adds * count, sizeof(float) * count, "fp32"},
        [&, kernel = kernel] {
          kernel<<<blocks, threads, 0, gpu.stream()>>>(values.data(), 1, 1);
          check_launch(name);
        },
        [&] {
          const std::vector<float> made = values.read();
          for (std::size_t t = 0; t < made.size(); ++t) {
            if (made[t] != static_cast<float>(t % 1024 + multiply_adds)) return false;
          }
          return true;
        });
  }
}

/// Measures kernels that make `results` sums of `each` words, which are `apart` words from each
/// other; `expected` is the sum of result i.
void add_sums(Loops& loops, Gpu& gpu, const char* name, const auto& kernels, unsigned blocks,
              const DeviceArray<unsigned>& words, unsigned each,
              const std::function<unsigned(unsigned)>& expected) {
  const DeviceArray<unsigned> sums(words.size() / each);
  const auto count = static_cast<double>(words.size()), made = static_cast<double>(sums.size());
  for (const auto& [unroll, kernel] : kernels) {
    sums.clear(gpu.stream());
    loops.add(
        name, unroll, reinterpret_cast<const void*>(kernel),
        {count - made, (count + made) * sizeof(unsigned)},
        [&, kernel = kernel] {
          kernel<<<blocks, threads, 0, gpu.stream()>>>(words.data(), sums.data());
          check_launch(name);
        },
        [&] {
          const std::vector<unsigned> found = sums.read();
          for (unsigned i = 0; i < found.size(); ++i) {
            if (found[i] != expected(i)) return false;
          }
          return true;
        });
  }
}

DeviceArray<unsigned> numbered_words(std::uint64_t count, cudaStream_t stream) {
  DeviceArray<unsigned> words(count);
  number<<<blocks_for(count, threads), threads, 0, stream>>>(words.data());
  check_launch("number");
  return words;
}

}  // namespace

Table unroll(Bench& bench) {
  Gpu gpu(bench);
  Loops loops(bench, gpu);
  add_chains(loops, gpu, "short", chains<64>);
  add_chains(loops, gpu, "long", chains<multiply_adds>);
  {
    const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount);
    const unsigned step = blocks * threads;
    const auto words = numbered_words(std::uint64_t{loads} * step, gpu.stream());
    add_sums(loops, gpu, "loads", adding_words, blocks, words, loads,
             [&](unsigned i) { return loads * i + loads * (loads - 1) / 2 * step; });
  }
  {
    constexpr std::uint64_t count = std::uint64_t{1} << 24;
    const auto words = numbered_words(count, gpu.stream());
    add_sums(loops, gpu, "shuffles", adding_in_warps, blocks_for(count, threads), words, warp,
             [](unsigned i) { return warp * warp * i + warp * (warp - 1) / 2; });
  }
  return std::move(loops).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
