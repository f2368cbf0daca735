// The rates of the caches. All multiprocessors read the same working set repeatedly. A set that
// fits in L1 is read at the rate of L1, one that fits in L2 at the rate of L2, and a larger one at
// the rate of device memory.
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/read_again.cuh"

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

}  // namespace

Table cache(Bench& bench) {
  Gpu gpu(bench);
  constexpr std::uint64_t step = max_in_flight * row;
  const std::uint64_t max = bench.bytes("cache.most") / step * step;
  RepeatedReads reads(bench, gpu, max);
  Measurements rows({{"set", ColumnType::integer, "B"}}, {"rate", ColumnType::real, "GB/s"},
                    Rows::of_kernels);
  for (const std::uint64_t bytes : sizes_up_to(row / 2, max, bench.is_quick() ? 4 : 2)) {
    const auto [timing, all] = reads.measure(bytes);
    const Measured rate = timing.rate(all);
    const double share = rate.value / bench.ceiling("device_read");
    rows.add({static_cast<std::int64_t>(bytes)}, rate, share,
             remark(bytes, share, gpu.properties()), {all / sizeof(unsigned), all},
             timing.seconds.value);
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
