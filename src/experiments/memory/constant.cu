// Reads of constant memory. If all lanes of a warp read the same word, one access serves them.
// Different words are served one after the other.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

constexpr Axis axes[] = {
    {.name = "memory",
     .unit = "",
     .values = "register|constant as operand|parameter as operand|constant|global",
     .sentence = "The place of the words."},
    {.name = "addresses",
     .unit = "",
     .values = "1..32*2",
     .sentence = "Different addresses of a read by a warp; operands have one."},
};

Table constant(Bench& bench);

namespace {

/// The time with one address, times the accesses that serve a read: one for each address of
/// constant memory and for each line of the table in global memory.
double expected_time(const MeasuredRow& row) {
  constexpr double lines = 8;
  const std::string memory = row.text("memory");
  if (memory.ends_with("as operand")) return row.measured({{"memory", "register"}});
  const double addresses = row["addresses"];
  return row.measured({{"addresses", "1"}}, {"memory"}) *
         (memory == "global" ? std::min(addresses, lines) : addresses);
}

}  // namespace

extern const Experiment about_constant = {
    .name = "constant",
    .group = "memory",
    .summary = "Constant memory serves one address at a time, to all lanes that read it.",
    .explanation =
        {
            .question =
                "What happens if the lanes of a warp read different addresses of constant memory?",
            .varies =
                "The lanes of a warp read 1, 2, 4, ... 32 different addresses of the same table "
                "of 1 KiB, from constant memory and from global memory. Three more rows use words "
                "as operands of the arithmetic instruction: registers, constant memory at "
                "addresses that the compiler knows, and parameters of the kernel, which lie in "
                "constant memory, too.",
            .expectation =
                "Constant memory serves one address after the other, and global memory, here from "
                "L1, one line after the other: the table has eight lines of 128 bytes. Expect the "
                "time of constant memory to grow in proportion to the number of addresses, and "
                "that of global memory to grow up to eight, one for each line. An operand needs "
                "no load: expect the time of a register, or less.",
            .pitfalls =
                "The rows of operands multiply by a factor in a register, since an instruction has "
                "only one operand that is constant. With a word in a register, too, it reads three "
                "registers, which may lie in the same bank and are then read in two turns. Misses "
                "would hide the effect. Every number of addresses reads all words of the table, "
                "which fits in the smallest constant cache, so the time shows how addresses are "
                "served, not misses. The time at one address includes the other instructions of "
                "the loop, so more addresses take a little less than that many times as long.",
        },
    .read_on = {{Guide::best_practices, "Constant Memory"}},
    .share = "of the speed of reading a register",
    .axes = axes,
    .expected = expected_time,
    .exercise =
        {.task = "Predict the time in ns of a read at 8 and 32 addresses of constant memory and of "
                 "global memory, if one address takes 1 ns of constant memory and 0.5 ns of global "
                 "memory.",
         .rows = {{{"memory", "constant"}, {"addresses", "8"}},
                  {{"memory", "constant"}, {"addresses", "32"}},
                  {{"memory", "global"}, {"addresses", "8"}},
                  {{"memory", "global"}, {"addresses", "32"}}}},
    .figure = {.look = Look::lines,
               .x = "addresses",
               .y = "time",
               .series = "memory",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<constant>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 1024;
constexpr unsigned words = 256;   // of the table, 1 KiB
constexpr unsigned run = 8;       // neighbouring words, which are read with constant offsets
constexpr unsigned reads = 2048;  // per thread, a multiple of `words`

__constant__ float constants[words];

/// The parameters of a kernel.
struct Reads {
  const float* memory;  ///< the table in global memory
  unsigned distinct;    ///< different addresses of the lanes of a warp in each read
  /// In global memory, so that each thread loads it to a register: the compiler would use a
  /// parameter as an operand, and an instruction has only one that is constant.
  const float* factor;
  float* sums;         ///< out: of each thread
  float table[words];  ///< the table once more
};
constexpr float factor = -1;

/// Adds a word to those that a thread has read, in one instruction. The result depends on their
/// order, and is exact for small integers.
__host__ __device__ inline float combine(float sum, float times, float word) {
  return fmaf(sum, times, word);
}

/// Combines words of addresses that the compiler knows: `word(k)` is the k-th one.
template <class Word>
__device__ void combine_known(const Reads& work, const Word& word) {
  const float times = __ldcg(work.factor);
  float sum = 0;
#pragma unroll 1
  for (unsigned r = 0; r < reads; r += words) {
#pragma unroll
    for (unsigned k = 0; k < words; ++k) sum = combine(sum, times, word(k));
  }
  work.sums[blockIdx.x * threads + threadIdx.x] = sum;
}

/// Each thread holds the first words of the table in registers and uses them again and again.
__global__ void __launch_bounds__(threads) use_registers(const __grid_constant__ Reads work) {
  float word[run];
#pragma unroll
  for (unsigned k = 0; k < run; ++k) word[k] = work.memory[k];
  combine_known(work, [&](unsigned k) { return word[k % run]; });
}

__global__ void __launch_bounds__(threads) use_constants(const __grid_constant__ Reads work) {
  combine_known(work, [](unsigned k) { return constants[k]; });
}

__global__ void __launch_bounds__(threads) use_parameters(const __grid_constant__ Reads work) {
  combine_known(work, [&](unsigned k) { return work.table[k]; });
}

/// Where a lane begins. In each read, the lanes of a warp have `distinct` different addresses.
constexpr unsigned first_word(unsigned lane, unsigned distinct) {
  return lane % distinct * (words / distinct);
}

/// Each lane reads the whole table, repeatedly, from its first word on.
template <bool FromConstant>
__global__ void __launch_bounds__(threads) read_distinct(const __grid_constant__ Reads work) {
  const float times = __ldcg(work.factor);
  unsigned at = first_word(threadIdx.x % warp, work.distinct);
  float sum = 0;
  for (unsigned r = 0; r < reads; r += run) {
    const float* const from = (FromConstant ? constants : work.memory) + at;
#pragma unroll
    for (unsigned k = 0; k < run; ++k) sum = combine(sum, times, from[k]);
    at = (at + run) % words;
  }
  work.sums[blockIdx.x * threads + threadIdx.x] = sum;
}

struct Case {
  const char* name;
  void (*kernel)(Reads);
  unsigned period;         ///< words after which a lane begins again
  unsigned max_addresses;  ///< of a read
  unsigned loads;          ///< of a thread, from global memory
};

/// Word i of the table.
constexpr float word_at(unsigned i) {
  return static_cast<float>(i * i % 97);
}

bool is_right(const std::vector<float>& sums, const Case& each, unsigned distinct) {
  std::array<float, warp> expected = {};
  for (unsigned lane = 0; lane < warp; ++lane) {
    const unsigned first = first_word(lane, distinct);
    for (unsigned r = 0; r < reads; ++r) {
      expected[lane] = combine(expected[lane], factor, word_at((first + r) % each.period));
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != expected[i % warp]) return false;
  }
  return true;
}

/// `ratio` is the time over that of a register, `growth` over that of half as many addresses; NaN
/// if these are not measured.
std::string remark(unsigned distinct, double ratio, double growth) {
  const std::string times = std::isnan(ratio) ? std::string("no register to compare with")
                                              : ratio_text(ratio) + " times as long as a register";
  if (std::isnan(growth)) return times;
  return times + formatted(", {:.2f} times as long as {} address{}", growth, distinct / 2,
                           std::string(distinct == 2 ? "" : "es"));
}

}  // namespace

Table constant(Bench& bench) {
  constexpr Case cases[] = {{"register", use_registers, run, 1, run},
                            {"constant as operand", use_constants, words, 1, 0},
                            {"parameter as operand", use_parameters, words, 1, 0},
                            {"constant", read_distinct<true>, words, warp, 0},
                            {"global", read_distinct<false>, words, warp, reads}};
  Gpu gpu(bench);
  Reads work{};
  for (unsigned i = 0; i < words; ++i) work.table[i] = word_at(i);
  check(cudaMemcpyToSymbol(constants, work.table, sizeof(constants)), "cudaMemcpyToSymbol");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the copy may return before it ends
  const DeviceArray<float> memory{std::span<const float>(work.table)};
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount);
  const DeviceArray<float> sums(std::uint64_t{blocks} * threads);
  work.memory = memory.data();
  const DeviceArray<float> factors{std::span<const float>(&factor, 1)};
  work.factor = factors.data();
  work.sums = sums.data();
  Measurements rows(bench.columns(), {"time", ColumnType::real, "ns"}, Rows::of_kernels);
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double of_register = unknown;
  std::map<std::pair<std::uint64_t, unsigned>, double> times;  // by memory and addresses
  for (const Point& point : bench.points()) {
    const Case& each = cases[point["memory"]];
    const auto distinct = static_cast<unsigned>(point["addresses"]);
    if (distinct > each.max_addresses) continue;
    work.distinct = distinct;
    const auto read = [&] {
      each.kernel<<<blocks, threads, 0, gpu.stream()>>>(work);
      check_launch(each.name);
    };
    sums.clear(gpu.stream());
    read();
    bench.verify(is_right(sums.read(), each, distinct),
                 formatted("{}, {} addresses", std::string(each.name), distinct));
    constexpr double warps = static_cast<double>(threads) / warp;
    const Measured time = gpu.time(read).seconds.times(1e9 / reads / warps);
    times[{point["memory"], distinct}] = time.value;
    if (point["memory"] == 0) of_register = time.value;
    const auto of_half = times.find({point["memory"], distinct / 2});
    const auto all_threads = static_cast<double>(sums.size());
    rows.add(point.cells(), time, of_register / time.value,
             remark(distinct, time.value / of_register,
                    of_half == times.end() ? unknown : time.value / of_half->second),
             {2.0 * reads * all_threads, 4.0 * each.loads * all_threads},
             time.value * 1e-9 * reads * warps);
  }
  bench.note(formatted("A time is that of one read by a warp; each multiprocessor runs {} warps.",
                       threads / warp));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
