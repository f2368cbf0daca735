// The cost of bank conflicts. Shared memory has 32 banks, each one word wide. Lanes of a warp that
// read different words of the same bank are served one after the other; lanes that read the same
// word are served together. The classic case of conflicts is the transpose of a matrix through a
// tile in shared memory; one word of padding per row avoids them.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "experiments/count_wrong.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/shared_reads.cuh"

namespace shardstream::experiments::memory {

Table banks(Bench& bench);

namespace {

/// Reads have the rate of stride 1 over the ways of the conflict. A transpose moves 8 bytes of an
/// element through memory, and through the tile a word without conflicts and one with them.
double expected_rate(const MeasuredRow& row) {
  const std::string name = row.text("case");
  const double ways = row["conflict"], of_stride_1 = row.measured({{"case", "reads, stride 1"}});
  if (name == "transpose, no tile") return std::nan("");
  if (name.starts_with("reads")) return of_stride_1 / ways;
  return std::min(row.ceiling("device_copy"), 2 * of_stride_1 / (1 + ways));
}

}  // namespace

extern const Experiment about_banks = {
    .name = "banks",
    .group = "memory",
    .summary = "Words in the same bank of shared memory are read one after the other.",
    .explanation =
        {
            .question =
                "Which access patterns of shared memory have a bank conflict, so that the lanes of "
                "a warp wait for each other?",
            .varies =
                "All warps read shared memory with strides of 1 to 32 words. Then several lanes "
                "read the same word: 2, 4, 8 or 16 lanes each (multicast), or all 32, which is "
                "stride 0 (broadcast). Then they read words of 8 and 16 bytes. Then a matrix is "
                "transposed in three ways: without shared memory; through a tile of 32 x 32 "
                "words, in which each column lies in one bank; and through a tile with one word "
                "of padding in each row.",
            .expectation =
                "Two lanes conflict if their words are different and lie in the same one of the 32 "
                "banks. Each bank sends one word of 4 bytes in a clock, so that a multiprocessor "
                "reads 128 bytes. If g is the greatest common divisor of the stride and 32, expect "
                "g-way conflicts, which take g times as long, and none for odd strides. If lanes "
                "read the same word, expect the rate of stride 1, since a bank sends a word to all "
                "lanes that want it. Expect the padding to remove the conflicts of the transpose. "
                "A tile takes a word without conflicts and gives it back with them: w-way "
                "conflicts limit the rate, which counts 8 bytes of an element, to 2 / (1 + w) of "
                "that of stride 1. Expect words of 8 and 16 bytes to have the rate of stride 1 or "
                "a little more, with fewer instructions.",
            .pitfalls =
                "Transposes stay below these rates: a thread has few words in flight, and a block "
                "waits between writing and reading its tile.",
        },
    .read_on = {{Guide::best_practices, "Shared Memory and Memory Banks"}},
    .share =
        "for reads, of the rate of stride 1; for transposes, of the rate of a copy in device "
        "memory",
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s of reads with strides of 1, 2 and 32 words and "
                         "of all lanes on one word (stride 0), from the clock and the number of "
                         "multiprocessors.",
                 .rows = {{{"case", "reads, stride 1"}},
                          {{"case", "reads, stride 2"}},
                          {{"case", "reads, stride 32"}},
                          {{"case", "reads, stride 0"}}}},
    .figure = {.look = Look::bars, .x = "case", .y = "rate"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<banks>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned banks_of_memory = 32;
constexpr unsigned threads = 1024;
constexpr unsigned words = 2048;          // in shared memory
constexpr unsigned run = 1024;            // consecutive words that a thread reads
constexpr unsigned rounds = 8;            // so many that the start of the kernel does not count
constexpr unsigned reads = rounds * run;  // per thread

/// The words that a warp reads: `sharing` consecutive lanes read the same word, and the words of
/// neighbouring groups lie `stride` words apart.
struct Pattern {
  unsigned stride, sharing;

  __host__ __device__ unsigned first_word(unsigned thread) const {
    return thread % banks_of_memory / sharing * stride;
  }
  /// The largest number of different words in one bank.
  unsigned ways() const {
    std::array<std::set<unsigned>, banks_of_memory> banks;
    for (unsigned lane = 0; lane < banks_of_memory; ++lane) {
      const unsigned word = first_word(lane);
      banks.at(word % banks_of_memory).insert(word);
    }
    return static_cast<unsigned>(std::ranges::max(banks, {}, &std::set<unsigned>::size).size());
  }
  std::string name() const {
    if (stride == 0) return "reads, stride 0";
    if (sharing > 1) return formatted("reads, {} lanes on a word", sharing);
    return formatted("reads, stride {}", stride);
  }
};

/// Thread t adds up the words first_word(t) + r for r below `run`, in each round.
__global__ void __launch_bounds__(threads) read_words(Pattern pattern, unsigned* sums) {
  __shared__ unsigned memory[words];
  for (unsigned i = threadIdx.x; i < words; i += threads) memory[i] = i;
  __syncthreads();
  const unsigned first = pattern.first_word(threadIdx.x);
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll 16
    for (unsigned r = 0; r < run; ++r) sum += memory[first + r];
  }
  sums[blockIdx.x * threads + threadIdx.x] = sum;
}

bool is_right(const std::vector<unsigned>& sums, const Pattern& pattern) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const unsigned first = pattern.first_word(static_cast<unsigned>(i % threads));
    if (sums[i] != rounds * (run * first + run * (run - 1) / 2)) return false;
  }
  return true;
}

/// Every stride, or the powers of two with `quick`; then words that several lanes share.
std::vector<Pattern> patterns(bool quick) {
  std::vector<Pattern> all;
  for (unsigned stride = 1; stride <= banks_of_memory; stride = quick ? 2 * stride : stride + 1) {
    all.push_back({stride, 1});
  }
  for (unsigned sharing = 2; sharing < banks_of_memory; sharing *= 2) all.push_back({1, sharing});
  all.push_back({0, 1});
  return all;
}

/// `slower`: the time over the time without conflicts.
std::string remark(const Pattern& pattern, double slower) {
  const unsigned ways = pattern.ways();
  std::string text = pattern.stride == 0   ? "broadcast to all lanes"
                     : pattern.sharing > 1 ? "multicast to the lanes of a group"
                     : ways == 1           ? "free of conflicts"
                                           : ratio_text(slower) + " times slower";
  const bool expected = slower > 0.8 * ways && slower < 1.2 * ways;
  if (!expected && ways > 1) text += formatted(", not {} times: other costs hide a part", ways);
  if (!expected && ways == 1) text += ", but " + ratio_text(slower) + " times as long as stride 1";
  return text;
}

constexpr unsigned tile = 32, rows_of_block = 8;

/// Without shared memory: neighbouring threads write words that are n words apart.
__global__ void transpose_plainly(const float* from, float* to, unsigned n) {
  const unsigned x = blockIdx.x * tile + threadIdx.x;
  for (unsigned y = blockIdx.y * tile + threadIdx.y; y < (blockIdx.y + 1) * tile;
       y += rows_of_block) {
    to[std::uint64_t{x} * n + y] = from[std::uint64_t{y} * n + x];
  }
}

/// Through a tile in shared memory with `Padding` additional words per row. Global memory is read
/// and written in whole lines. Without padding, the 32 words of a column of the tile lie in one
/// bank.
template <unsigned Padding>
__global__ void transpose_through_tile(const float* from, float* to, unsigned n) {
  __shared__ float square[tile][tile + Padding];
  const unsigned row = blockIdx.y * tile, column = blockIdx.x * tile;
  for (unsigned y = threadIdx.y; y < tile; y += rows_of_block) {
    square[y][threadIdx.x] = from[std::uint64_t{row + y} * n + column + threadIdx.x];
  }
  __syncthreads();
  for (unsigned y = threadIdx.y; y < tile; y += rows_of_block) {
    to[std::uint64_t{column + y} * n + row + threadIdx.x] = square[threadIdx.x][y];
  }
}

/// Expects the transpose of a matrix of n x n.
struct IsWrong {
  const float* to;
  unsigned n;

  __device__ bool operator()(std::uint64_t i) const {
    return to[i] != unit_number(i % n * n + i / n);
  }
};

template <class Word>
void add_wide_reads(Bench& bench, Gpu& gpu, Measurements& rows, double of_stride_1) {
  const auto [timing, work] = measure_shared_reads<Word>(bench, gpu);
  const Measured rate = timing.rate(work.shared);
  rows.add({formatted("reads of {} bytes", sizeof(Word)), std::int64_t{1}}, rate,
           rate.value / of_stride_1,
           formatted("one instruction reads {} bytes for a lane", sizeof(Word)), work,
           timing.seconds.value);
}

/// Measures reads of shared memory.
void add_reads(Bench& bench, Gpu& gpu, Measurements& rows) {
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount * 2);
  DeviceArray<unsigned> sums(std::uint64_t{blocks} * threads);
  const auto all = static_cast<double>(sums.size());
  double free_of_conflicts = 0;  // the rate of stride 1, which comes first
  for (const Pattern& pattern : patterns(bench.is_quick())) {
    const auto read = [&] {
      read_words<<<blocks, threads, 0, gpu.stream()>>>(pattern, sums.data());
      check_launch("read_words");
    };
    sums.clear(gpu.stream());
    read();
    gpu.synchronize();
    bench.verify(is_right(sums.read(), pattern), pattern.name());
    const Timing timing = gpu.time(read);
    const Measured rate = timing.rate(sizeof(unsigned) * reads * all);
    if (free_of_conflicts == 0) free_of_conflicts = rate.value;
    // An addition for each word. Global memory gets the sums only.
    rows.add({pattern.name(), std::int64_t{pattern.ways()}}, rate, rate.value / free_of_conflicts,
             remark(pattern, free_of_conflicts / rate.value),
             {.operations = reads * all,
              .bytes = sizeof(unsigned) * all,
              .distinct = sizeof(unsigned) * all,
              .shared = shared_access * pattern.ways() * reads * all / banks_of_memory,
              .instructions = 2 * reads * all / banks_of_memory},
             timing.seconds.value);
  }
  add_wide_reads<uint2>(bench, gpu, rows, free_of_conflicts);
  add_wide_reads<uint4>(bench, gpu, rows, free_of_conflicts);
}

void add_transposes(Bench& bench, Gpu& gpu, Measurements& rows) {
  const unsigned n = bench.is_quick() ? 8192 : 16384;
  const std::uint64_t count = std::uint64_t{n} * n;
  DeviceArray<float> from(count), to(count);
  fill(from, gpu.stream());
  const dim3 grid(n / tile, n / tile), block(tile, rows_of_block);
  using Kernel = void (*)(const float*, float*, unsigned);
  /// `accesses` of shared memory for each element, with their conflicts.
  const auto add = [&](const char* name, Kernel kernel, std::int64_t conflict, double accesses,
                       const char* remark) {
    const auto transpose = [&] {
      kernel<<<grid, block, 0, gpu.stream()>>>(from.data(), to.data(), n);
      check_launch(name);
    };
    to.clear(gpu.stream());
    transpose();
    bench.verify(count_wrong(count, IsWrong{to.data(), n}, gpu.stream()) == 0, name);
    Work work = streaming(2.0 * sizeof(float) * static_cast<double>(count));
    work.shared = accesses * sizeof(float) * static_cast<double>(count);
    const Timing timing = gpu.time(transpose);
    const Measured rate = timing.rate(work.bytes);
    rows.add({name, conflict}, rate, rate.value / bench.ceiling("device_copy"), remark, work,
             timing.seconds.value);
  };
  add("transpose, no tile", transpose_plainly, 1, 0,
      "no shared memory; writes with a stride of one row");
  add("transpose 32 x 32", transpose_through_tile<0>, 32, 1 + 32,
      "whole lines, but reads of the tile have 32-way conflicts");
  add("transpose 32 x 33", transpose_through_tile<1>, 1, 1 + 1,
      "one word of padding removes the conflicts");
}

}  // namespace

Table banks(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"case", ColumnType::text}, {"conflict", ColumnType::integer, "ways"}},
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  add_reads(bench, gpu, rows);
  add_transposes(bench, gpu, rows);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
