// Reads working sets repeatedly, so that the cache in which a set fits limits the rate.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

inline constexpr unsigned readers = 512;      // threads of a block; half read the smallest set
inline constexpr unsigned max_in_flight = 8;  // loads of a thread at the same time
inline constexpr std::uint64_t row = readers * sizeof(uint4);  // bytes that a block loads at a time

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
__global__ inline void count_up(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i);
}

/// Reads working sets with one block on each multiprocessor: two could share one L1 and find each
/// other's lines there. Not thread-safe.
class RepeatedReads {
 public:
  /// For sets of up to `max` bytes, a multiple of max_in_flight * row.
  RepeatedReads(Bench& bench, Gpu& gpu, std::uint64_t max)
      : bench_(bench),
        gpu_(gpu),
        words_(max / sizeof(uint4)),
        sums_(static_cast<std::uint64_t>(gpu.properties().multiProcessorCount)) {
    count_up<<<blocks_for(max / sizeof(unsigned), readers), readers, 0, gpu.stream()>>>(
        reinterpret_cast<unsigned*>(words_.data()), max / sizeof(unsigned));
    check_launch("count_up");
  }

  struct Result {
    Timing timing;  ///< of a launch
    double bytes;   ///< that all blocks read in it
  };
  /// Verifies and measures reads of a set: half a row, 1, 2 or 4 rows, or a multiple of
  /// max_in_flight rows.
  Result measure(std::uint64_t bytes) {
    constexpr std::uint64_t traffic = std::uint64_t{64} << 20;  // per block: a launch takes 3 us
    constexpr std::uint64_t line = 128;
    const auto blocks = static_cast<unsigned>(sums_.size());
    const auto laps = static_cast<unsigned>(std::max<std::uint64_t>(1, traffic / bytes));
    const bool is_in_l1 = bytes <= gpu_.properties().sharedMemPerMultiprocessor;
    const std::uint64_t distance = is_in_l1 ? 0 : bytes / blocks / line * line;
    const Kernel kernel = kernel_for(bytes);
    const unsigned threads = bytes < row ? readers / 2 : readers;
    const auto read = [&] {
      kernel<<<blocks, threads, 0, gpu_.stream()>>>(
          words_.data(), static_cast<unsigned>(bytes / sizeof(uint4)),
          static_cast<unsigned>(distance / sizeof(uint4)), laps, sums_.data());
      check_launch("read_again");
    };
    sums_.clear(gpu_.stream());
    read();
    const unsigned expected = laps * sum_below(bytes / sizeof(unsigned));
    const std::vector<unsigned> found = sums_.read();
    bench_.verify(std::ranges::all_of(found, [&](unsigned sum) { return sum == expected; }),
                  formatted("reading {} bytes again", bytes));
    return {gpu_.time(read), static_cast<double>(bytes) * laps * blocks};
  }

 private:
  using Kernel = void (*)(const uint4*, unsigned, unsigned, unsigned, unsigned*);
  static Kernel kernel_for(std::uint64_t bytes) {
    return bytes < row        ? read_again<readers / 2, 1>
           : bytes == row     ? read_again<readers, 1>
           : bytes == 2 * row ? read_again<readers, 2>
           : bytes == 4 * row ? read_again<readers, 4>
                              : read_again<readers, max_in_flight>;
  }
  /// The sum of 0 ... count - 1, modulo 2^32.
  static unsigned sum_below(std::uint64_t count) {
    return static_cast<unsigned>(count % 2 == 0 ? count / 2 * (count - 1)
                                                : (count - 1) / 2 * count);
  }

  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<uint4> words_;
  DeviceArray<unsigned> sums_;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
