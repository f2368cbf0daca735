// Reads of constant memory. If all lanes of a warp read the same word, one access serves them.
// Different words are served one after the other. Global memory serves one line after the other;
// here each address lies in its own line.
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

Table constant(Bench& bench);

extern const Experiment about_constant = {
    .name = "constant",
    .group = "memory",
    .summary = "Constant memory serves one address at a time, to all lanes that read it.",
    .explanation =
        "The lanes of a warp read 1, 2, 4, ... 32 different addresses, each in its own cache "
        "line, from constant memory and from global memory. Constant memory serves one address "
        "after the other, and global memory one line after the other. Expect the time to grow "
        "with the number of addresses in both memories, but faster in constant memory. CUDA C++ "
        "Best Practices Guide, section Constant Memory.",
    .share = "of the speed with one address",
    .figure = {.look = Look::lines,
               .x = "addresses",
               .y = "time",
               .series = "memory",
               .more_is_better = false},
    .run = with_cuda<constant>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256, lanes = 32;
constexpr unsigned words = 4096;  // 16 KiB of the 64 KiB of constant memory
constexpr unsigned reads = 1024;  // per thread
constexpr unsigned step = 32;     // words between two addresses, so that each has its own line

__constant__ unsigned constants[words];

/// Adds up `reads` words. In each read, the lanes of a warp read `distinct` different addresses.
template <bool FromConstant>
__global__ void read_distinct(const unsigned* memory, unsigned distinct, unsigned* sums) {
  const unsigned first = threadIdx.x % lanes % distinct * step;
  unsigned sum = 0;
  for (unsigned r = 0; r < reads; ++r) {
    const unsigned at = (first + r) % words;
    sum += FromConstant ? constants[at] : memory[at];
  }
  sums[blockIdx.x * threads + threadIdx.x] = sum;
}

/// The sum of a lane. Word i has the value 3 i.
unsigned expected(unsigned lane, unsigned distinct) {
  unsigned sum = 0;
  for (unsigned r = 0; r < reads; ++r) sum += (lane % distinct * step + r) % words * 3;
  return sum;
}

bool is_right(const std::vector<unsigned>& sums, unsigned distinct) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != expected(static_cast<unsigned>(i) % lanes, distinct)) return false;
  }
  return true;
}

/// `ratio` is the time over that of one address, `growth` the time over that of half as many.
std::string remark(unsigned distinct, double ratio, double growth) {
  if (distinct == 1) return "all lanes read the same word";
  const std::string times = formatted("{:.3g} times as long as one address", ratio);
  return growth > 2.5 ? times + ": more than in proportion, as if the cache were too small" : times;
}

}  // namespace

Table constant(Bench& bench) {
  Gpu gpu(bench);
  std::vector<unsigned> numbers(words);
  for (unsigned i = 0; i < words; ++i) numbers[i] = 3 * i;
  check(cudaMemcpyToSymbol(constants, numbers.data(), sizeof(constants)), "cudaMemcpyToSymbol");
  const DeviceArray<unsigned> memory{std::span<const unsigned>(numbers)};
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount);
  const DeviceArray<unsigned> sums(std::uint64_t{blocks} * threads);
  Measurements rows({{"memory", ColumnType::text}, {"addresses", ColumnType::integer}},
                    {"time", ColumnType::real, "ns"});
  for (const bool from_constant : {true, false}) {
    double of_one = 0, of_half = 0;
    for (unsigned distinct = 1; distinct <= lanes; distinct *= 2) {
      const auto read = [&] {
        const auto kernel = from_constant ? read_distinct<true> : read_distinct<false>;
        kernel<<<blocks, threads, 0, gpu.stream()>>>(memory.data(), distinct, sums.data());
        check_launch("read_distinct");
      };
      sums.clear(gpu.stream());
      read();
      gpu.synchronize();
      bench.verify(is_right(sums.read(), distinct), formatted("{} addresses", distinct));
      const Measured seconds = gpu.time(read).seconds;
      constexpr double warps = static_cast<double>(threads) / lanes;
      const double each = 1e9 / reads / warps;  // from seconds of all reads to ns per read
      const Measured time = seconds.times(each);
      if (distinct == 1) of_one = time.value;
      rows.add({from_constant ? "constant" : "global", std::int64_t{distinct}}, time,
               of_one / time.value, remark(distinct, time.value / of_one, time.value / of_half));
      of_half = time.value;
    }
  }
  bench.note("A time is that of one read by a warp; each multiprocessor runs eight warps.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
