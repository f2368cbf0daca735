// The rates of the caches. All multiprocessors read the same working set repeatedly. A set that
// fits in L1 is read at the rate of L1, one that fits in L2 at the rate of L2, and a larger one at
// the rate of device memory.
#include <algorithm>
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"cache.most", OptionKind::size, "256MiB", "64KiB..16GiB", "The largest working set."},
};

Table cache(Bench& bench);

extern const Experiment about_cache = {
    .name = "cache",
    .group = "memory",
    .summary = "Data that is read again comes from L1 or L2, several times as fast as from memory.",
    .explanation =
        "All multiprocessors read the same working set repeatedly, each with one block. The sets "
        "have 4 KiB to cache.most bytes. Every multiprocessor has its own L1, so a set that fits "
        "in L1 (up to some 200 KiB) is read at the rate of all L1 caches; a set that fits in L2 "
        "at the rate of L2; a larger one at the rate of device memory. The steps show the sizes "
        "of the caches. Below 64 KiB, a pass has fewer than eight loads per thread, which may be "
        "too few for the rate of L1; 4 KiB are too few bytes for all threads of a block, so half "
        "as many read them. Each block begins at a different offset. In sets of a few MiB, "
        "several multiprocessors still read the same cache line almost simultaneously. Recent "
        "GPUs merge such reads, so the rate is higher than for larger sets in L2, and that of a "
        "set "
        "in memory is above the rate of memory: the rate counts what all multiprocessors read, but "
        "a line that several of them read almost simultaneously is fetched once. If an L2 cache "
        "has two partitions, the rate may "
        "fall from half of its size on. Expect L1 to "
        "be several times as fast as L2, and L2 faster than memory. CUDA C++ Best Practices "
        "Guide, chapter Memory Optimizations.",
    .reference =
        "Tesla V100, measured by gpu-benches (github.com/te42kyfo/gpu-benches): L1 13700, L2 2500 "
        "GB/s.",
    .share = "of the rate of reading device memory",
    .options = options,
    .figure = {.look = Look::lines, .x = "set", .y = "rate", .log_x = true, .log_y = true},
    .needs = {.ceilings = {"device_read"}},
    .run = with_cuda<cache>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 512, half = threads / 2;   // of a block; half read the smallest set
constexpr unsigned max_in_flight = 8;                   // loads of a thread at the same time
constexpr std::uint64_t row = threads * sizeof(uint4);  // bytes that a block loads at a time
constexpr std::uint64_t line = 128;

/// Each block reads the whole set `laps` times and adds it up: `count` words, a multiple of
/// Flight * Threads, in steps of Flight loads per thread. Block b begins at word b * `distance`.
/// The addresses of a step differ by constants: computing each one would slow down reads of L1.
template <unsigned Threads, unsigned Flight>
__global__ void __launch_bounds__(Threads)
    read_again(const uint4* words, unsigned count, unsigned distance, unsigned laps,
               unsigned* sums) {
  const unsigned start = blockIdx.x * distance;
  unsigned sum = 0;
  for (unsigned lap = 0; lap < laps; ++lap) {
    for (unsigned step = 0; step < count; step += Flight * Threads) {
      const unsigned at = start + step < count ? start + step : start + step - count;
      uint4 word[Flight];
      if (at + Flight * Threads <= count) {
        const uint4* from = words + at + threadIdx.x;
#pragma unroll
        for (unsigned k = 0; k < Flight; ++k) word[k] = from[k * Threads];
      } else {  // once per lap, beyond the end of the set
#pragma unroll
        for (unsigned k = 0; k < Flight; ++k) {
          const unsigned place = at + k * Threads + threadIdx.x;
          word[k] = words[place < count ? place : place - count];
        }
      }
#pragma unroll
      for (unsigned k = 0; k < Flight; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
    }
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

/// Sets each word to its index.
__global__ void count_up(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i);
}

/// The level that serves a working set. `share` is the rate over that of device memory. L1 and
/// shared memory are one memory. A set that is a little larger than a cache still lies partly in
/// it.
std::string remark(std::uint64_t bytes, double share, const cudaDeviceProp& gpu) {
  const std::uint64_t l1 = gpu.sharedMemPerMultiprocessor;
  if (bytes < row) return "from L1, below its rate: half of the threads have a load each in a pass";
  const std::uint64_t loads = bytes / row;  // per thread in a pass
  if (loads < max_in_flight) {
    return formatted("from L1, below its rate: a pass has {} load{} per thread", loads,
                     std::string(loads == 1 ? "" : "s"));
  }
  if (bytes <= l1) return "expected from L1";
  if (bytes <= 4 * l1) return "expected from L2; L1 may still hold a part";
  if (bytes <= static_cast<std::uint64_t>(gpu.l2CacheSize)) return "expected from L2";
  return share > 1.05 ? "from device memory; L2 holds a part, or serves several readers at once"
                      : "from device memory";
}

/// The sum of 0 ... count - 1, modulo 2^32.
unsigned sum_below(std::uint64_t count) {
  return static_cast<unsigned>(count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count);
}

}  // namespace

Table cache(Bench& bench) {
  Gpu gpu(bench);
  constexpr std::uint64_t step = max_in_flight * row;
  const std::uint64_t max = bench.bytes("cache.most") / step * step;
  // One per multiprocessor: two could share one L1 and find each other's lines there.
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount);
  const DeviceArray<uint4> words(max / sizeof(uint4));
  const DeviceArray<unsigned> sums(blocks);
  count_up<<<blocks_for(max / sizeof(unsigned), threads), threads, 0, gpu.stream()>>>(
      reinterpret_cast<unsigned*>(words.data()), max / sizeof(unsigned));
  check_launch("count_up");
  Measurements rows({{"set", ColumnType::integer, "B"}}, {"rate", ColumnType::real, "GB/s"},
                    Rows::of_kernels);
  for (const std::uint64_t bytes : sizes_up_to(row / 2, max, bench.is_quick() ? 4 : 2)) {
    constexpr std::uint64_t traffic = std::uint64_t{64} << 20;  // per block: a launch takes 3 us
    const auto laps = static_cast<unsigned>(std::max<std::uint64_t>(1, traffic / bytes));
    const bool is_in_l2 = bytes > gpu.properties().sharedMemPerMultiprocessor;
    const std::uint64_t distance = is_in_l2 ? bytes / blocks / line * line : 0;
    const unsigned block = bytes < row ? half : threads;
    const auto kernel = bytes < row        ? read_again<half, 1>
                        : bytes == row     ? read_again<threads, 1>
                        : bytes == 2 * row ? read_again<threads, 2>
                        : bytes == 4 * row ? read_again<threads, 4>
                                           : read_again<threads, max_in_flight>;
    const auto read = [&] {
      kernel<<<blocks, block, 0, gpu.stream()>>>(
          words.data(), static_cast<unsigned>(bytes / sizeof(uint4)),
          static_cast<unsigned>(distance / sizeof(uint4)), laps, sums.data());
      check_launch("read_again");
    };
    sums.clear(gpu.stream());
    read();
    gpu.synchronize();
    const unsigned expected = laps * sum_below(bytes / sizeof(unsigned));
    const std::vector<unsigned> found = sums.read();
    bench.verify(std::ranges::all_of(found, [&](unsigned sum) { return sum == expected; }),
                 formatted("reading {} bytes again", bytes));
    const double all = static_cast<double>(bytes) * laps * blocks;
    const Measured rate = gpu.time(read).rate(all);
    const double share = rate.value / bench.ceiling("device_read");
    rows.add({static_cast<std::int64_t>(bytes)}, rate, share,
             remark(bytes, share, gpu.properties()), {all / sizeof(unsigned), all});
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
