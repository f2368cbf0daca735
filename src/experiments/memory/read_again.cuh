// Reads working sets repeatedly, so that the cache in which a set fits limits the rate. Each
// multiprocessor has a slice of its own, so that no two of them ask for the same line.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// The caches that loads use.
enum class Through : std::uint8_t { l1, l2 };

inline constexpr unsigned readers = 512;  // threads of a block
inline constexpr unsigned in_flight = 8;  // loads of a thread at the same time
inline constexpr unsigned step_words = readers * in_flight;
/// Slices are multiples of it: the bytes that a block loads at a time.
inline constexpr std::uint64_t step_bytes = step_words * sizeof(uint4);

/// Block b adds up its slice, `count` words from word b * count on, `laps` times. `count` is a
/// multiple of step_words. The addresses of a step differ by constants: computing each one would
/// slow down reads of L1.
template <Through Caches>
__global__ void __launch_bounds__(readers)
    read_again(const uint4* words, unsigned count, unsigned laps, unsigned* sums) {
  const uint4* const slice = words + std::uint64_t{blockIdx.x} * count + threadIdx.x;
  unsigned sum = 0;
  for (unsigned lap = 0; lap < laps; ++lap) {
    for (unsigned step = 0; step < count; step += step_words) {
      uint4 word[in_flight];
#pragma unroll
      for (unsigned k = 0; k < in_flight; ++k) {
        const uint4* const from = slice + step + k * readers;
        word[k] = Caches == Through::l1 ? __ldca(from) : __ldcg(from);
      }
#pragma unroll
      for (unsigned k = 0; k < in_flight; ++k) {
        sum += word[k].x + word[k].y + word[k].z + word[k].w;
      }
    }
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

/// Sets each word to its index.
__global__ inline void count_up(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i);
}

/// Reads working sets with one block on each multiprocessor: two would share one L1. Not
/// thread-safe.
class RepeatedReads {
 public:
  /// For slices of up to `max` bytes, a multiple of step_bytes.
  RepeatedReads(Bench& bench, Gpu& gpu, std::uint64_t max)
      : bench_(bench),
        gpu_(gpu),
        sums_(static_cast<std::uint64_t>(gpu.properties().multiProcessorCount)),
        words_(sums_.size() * max / sizeof(uint4)) {
    const std::uint64_t count = words_.bytes() / sizeof(unsigned);
    count_up<<<blocks_for(count, readers), readers, 0, gpu.stream()>>>(
        reinterpret_cast<unsigned*>(words_.data()), count);
    check_launch("count_up");
  }

  struct Result {
    Timing timing;  ///< of a launch
    double bytes;   ///< that all blocks read in it
  };
  /// Verifies and measures reads of slices of `bytes`, a multiple of step_bytes.
  Result measure(std::uint64_t bytes, Through caches) {
    constexpr std::uint64_t traffic = std::uint64_t{64} << 20;  // per block, far beyond a launch
    const auto blocks = static_cast<unsigned>(sums_.size());
    const auto laps = static_cast<unsigned>(std::max<std::uint64_t>(1, traffic / bytes));
    const auto kernel = caches == Through::l1 ? read_again<Through::l1> : read_again<Through::l2>;
    const auto read = [&] {
      kernel<<<blocks, readers, 0, gpu_.stream()>>>(
          words_.data(), static_cast<unsigned>(bytes / sizeof(uint4)), laps, sums_.data());
      check_launch("read_again");
    };
    sums_.clear(gpu_.stream());
    read();
    bench_.verify(has_read(sums_.read(), bytes / sizeof(unsigned), laps),
                  formatted("reading slices of {} bytes again", bytes));
    return {gpu_.time(read), static_cast<double>(bytes) * laps * blocks};
  }

 private:
  /// The sum of n, n + 1, ..., n + count - 1, modulo 2^32. `count` is even.
  static unsigned sum_from(std::uint64_t n, std::uint64_t count) {
    return static_cast<unsigned>(count * n + count / 2 * (count - 1));
  }
  static bool has_read(const std::vector<unsigned>& sums, std::uint64_t count, unsigned laps) {
    for (std::size_t b = 0; b < sums.size(); ++b) {
      if (sums[b] != laps * sum_from(b * count, count)) return false;
    }
    return true;
  }

  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<unsigned> sums_;
  DeviceArray<uint4> words_;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
