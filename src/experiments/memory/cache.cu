// The rates of the caches. All multiprocessors read the same bytes again and again: a working set
// that fits in L1 at the rate of L1, one that fits in L2 at that of L2, and a larger one at that of
// device memory.
#include <algorithm>
#include <string>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/memory.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr unsigned threads = 1024;
constexpr unsigned flight = 4;  // loads of a thread that are on their way at the same time

/// Every block reads the whole set `laps` times and adds it up. It begins at a place of its own, so
/// that no two blocks read the same lines at the same time.
__global__ void __launch_bounds__(threads)
    read_again(const uint4* words, unsigned count, unsigned laps, unsigned* sums) {
  const auto start = static_cast<unsigned>(std::uint64_t{blockIdx.x} * count / gridDim.x);
  unsigned sum = 0;
  for (unsigned lap = 0; lap < laps; ++lap) {
    for (unsigned i = threadIdx.x; i < count; i += flight * threads) {
      uint4 word[flight] = {};
#pragma unroll
      for (unsigned k = 0; k < flight; ++k) {
        const unsigned at = start + i + k * threads;
        if (i + k * threads < count) word[k] = words[at < count ? at : at - count];
      }
#pragma unroll
      for (unsigned k = 0; k < flight; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
    }
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

__global__ void count_up(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i);
}

/// The level that a working set is expected to be read from. `share` is of the rate of device
/// memory. L1 and shared memory are one; no cache is emptied by a set that is a little larger.
std::string remark(std::uint64_t bytes, double share, const cudaDeviceProp& gpu) {
  const std::uint64_t l1 = gpu.sharedMemPerMultiprocessor;
  const std::uint64_t loads = bytes / sizeof(uint4) / threads;  // of a thread in a pass
  if (loads < flight) {
    return formatted("from L1, below its rate: {} of the {} loads of a thread are used", loads,
                     flight);
  }
  if (bytes <= l1) return "expected from L1";
  if (bytes <= 4 * l1) return "expected from L2; L1 may still hold a part";
  if (bytes <= static_cast<std::uint64_t>(gpu.l2CacheSize)) return "expected from L2";
  return share > 1.05 ? "expected from device memory; L2 still holds a part" : "from device memory";
}

/// The sum of 0 ... count - 1, modulo 2^32.
unsigned sum_below(std::uint64_t count) {
  return static_cast<unsigned>(count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count);
}

}  // namespace

Table cache(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t most = bench.bytes("cache.most") / sizeof(uint4) * sizeof(uint4);
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount *
                                            (gpu.properties().maxThreadsPerMultiProcessor / 1024));
  DeviceArray<unsigned> words(most / sizeof(unsigned)), sums(blocks);
  count_up<<<blocks_for(words.size(), threads), threads, 0, gpu.stream()>>>(words.data(),
                                                                            words.size());
  check_launch("count_up");
  Measurements rows({{"bytes", ColumnType::integer, "B"}}, {"rate", ColumnType::real, "GB/s"});
  for (const std::uint64_t bytes : sizes_up_to(16384, most, bench.is_quick() ? 4 : 2)) {
    constexpr std::uint64_t traffic = std::uint64_t{8}
                                      << 20;  // of a block, so that it takes a while
    const auto laps = static_cast<unsigned>(std::max<std::uint64_t>(1, traffic / bytes));
    const auto read = [&] {
      read_again<<<blocks, threads, 0, gpu.stream()>>>(reinterpret_cast<const uint4*>(words.data()),
                                                       static_cast<unsigned>(bytes / sizeof(uint4)),
                                                       laps, sums.data());
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
    const Estimate rate = gpu.time(read).rate(all);
    const double share = rate.value / bench.ceiling("device_read");
    rows.add({static_cast<std::int64_t>(bytes)}, rate, share,
             remark(bytes, share, gpu.properties()));
  }
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
