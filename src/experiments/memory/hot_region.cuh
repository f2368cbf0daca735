// The machinery of the experiment l2-window: the data of its kernel, windows, the check of a launch
// and its row.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/l2_sizes.hpp"

namespace shardstream::experiments::memory {

constexpr unsigned threads = 256;
constexpr std::uint64_t grain = threads * sizeof(uint4);  // regions are multiples of it, in bytes

__device__ inline bool is_all(uint4 x, std::uint64_t value) {
  return x.x == value && x.y == value && x.z == value && x.w == value;
}

/// Counts elements that one launch of add_one() with `adders` threads should not have produced from
/// zeros.
__global__ void count_wrong_updates(const uint4* stream, std::uint64_t count, const uint4* hot,
                                    std::uint64_t hot_count, std::uint64_t adders,
                                    unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count && !is_all(stream[i], 1)) atomicAdd(wrong, 1);
  if (i < hot_count && !is_all(hot[i], updates_of(i, adders, count, hot_count))) {
    atomicAdd(wrong, 1);
  }
}

/// The data of one launch of add_one().
struct HotStream {
  uint4* stream;
  std::uint64_t count;
  uint4* hot;
  std::uint64_t hot_count;
  unsigned blocks;

  std::uint64_t adders() const { return std::uint64_t{blocks} * threads; }
};

/// A window on the first `bytes` of `memory`. Of the accesses to it, `ratio` get the property
/// `hit`, the others `miss`.
inline cudaAccessPolicyWindow window_on(void* memory, std::uint64_t bytes, double ratio,
                                        cudaAccessProperty hit = cudaAccessPropertyPersisting,
                                        cudaAccessProperty miss = cudaAccessPropertyStreaming) {
  return {memory, bytes, static_cast<float>(ratio), hit, miss};
}

/// The varied quantities of a row. The region is the memory that the kernel uses repeatedly.
struct WindowCase {
  const char* varied;  ///< the quantity that `value` is, with its unit
  double value;
  const char* policy;
  std::uint64_t region;
  double ratio = std::nan("");
};

/// `gain` is the rate over that with nothing set aside.
inline std::string remark_on_gain(double gain) {
  const std::string change = formatted("{:+.0f} %", 100 * (gain - 1));
  if (gain > 1.03) return change + ": more of the hot region stays in the cache";
  if (gain > 0.97) return change + ": no difference";
  return change +
         ": less of the cache is left for the stream, or lines of the region evict each other";
}

inline double in_mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

/// The data of all parts of the experiment.
class WindowCases {
 public:
  /// `set_aside` bytes of the L2 cache are set aside; the GPU runs `max_blocks` of add_one() at the
  /// same time. Throws UsageError if the stream is too short to use the largest hot region
  /// repeatedly.
  WindowCases(Bench& bench, Gpu& gpu, Measurements& rows, std::uint64_t set_aside,
              unsigned max_blocks)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        set_aside_(set_aside),
        max_blocks_(max_blocks),
        count_(bench.bytes("l2-window.stream", {.of_device = 0.2}) / grain * threads),
        stream_(count_),
        hot_(2 * set_aside / sizeof(uint4)),
        wrong_(1) {
    if (stream_.bytes() < 2 * hot_.bytes()) {
      throw UsageError(formatted(
          "l2-window.stream: {} is too small for hot regions of up to {}, which must be used "
          "repeatedly: choose at least {} MiB",
          format_size(stream_.bytes()), format_size(hot_.bytes()), (2 * hot_.bytes() >> 20) + 1));
    }
  }

  /// Part `i` of `parts` of the stream, with a hot region of `bytes` of its own.
  HotStream piece(std::uint64_t bytes, unsigned i = 0, unsigned parts = 1) const {
    const std::uint64_t hot_count = bytes / sizeof(uint4), part = count_ / parts;
    const std::uint64_t blocks = std::min<std::uint64_t>(max_blocks_ / parts, hot_count / threads);
    return {stream_.data() + i * part, part, hot_.data() + i * hot_count, hot_count,
            static_cast<unsigned>(blocks)};
  }

  /// The reference of the other rows: measures `enqueue` with nothing set aside and no window.
  double measure_reference(WindowCase each, const std::vector<HotStream>& pieces,
                           const std::function<void()>& enqueue) {
    const LimitGuard guard(cudaLimitPersistingL2CacheSize, 0);
    each.policy = "nothing set aside";
    return measure(each, pieces, enqueue);
  }

  /// Checks and measures `enqueue`, which launches add_one() once for each of `pieces`. Returns its
  /// rate. `without` is the rate of measure_reference(); 0: this is that one.
  double measure(const WindowCase& each, const std::vector<HotStream>& pieces,
                 const std::function<void()>& enqueue, double without = 0) {
    stream_.clear(gpu_.stream());
    hot_.clear(gpu_.stream());
    wrong_.clear(gpu_.stream());
    enqueue();
    double elements = 0;
    for (const HotStream& piece : pieces) {
      count_wrong_updates<<<blocks_for(piece.count, threads), threads, 0, gpu_.stream()>>>(
          piece.stream, piece.count, piece.hot, piece.hot_count, piece.adders(), wrong_.data());
      check_launch("count_wrong_updates");
      elements += static_cast<double>(piece.count);
    }
    bench_.verify(wrong_.read()[0] == 0, "a stream with a hot region");
    // Two elements of four words are read, increased by one and written.
    const Work work{.operations = 8 * elements, .bytes = 4 * sizeof(uint4) * elements, .shared = 0};
    const Timing timing = gpu_.time(enqueue);
    const Measured rate = timing.rate(work.bytes);
    add(each, rate, without, without > 0 ? remark_on_gain(rate.value / without) : "the reference",
        work, timing.seconds.value);
    return rate.value;
  }

  /// `without` as above; `seconds`: of one call.
  void add(const WindowCase& each, const Measured& rate, double without, const std::string& text,
           const Work& work, double seconds) {
    rows_.add(
        {each.varied, each.value, each.policy, static_cast<std::int64_t>(each.region), each.ratio},
        rate, without > 0 ? rate.value / without : 1, text, work, seconds);
  }

  Bench& bench() const { return bench_; }
  Gpu& gpu() const { return gpu_; }
  std::uint64_t set_aside() const { return set_aside_; }
  unsigned max_blocks() const { return max_blocks_; }

 private:
  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::uint64_t set_aside_;
  unsigned max_blocks_;
  std::uint64_t count_;
  DeviceArray<uint4> stream_, hot_;
  DeviceArray<unsigned> wrong_;
};

/// `fraction` of `bytes`, as the size of a region.
inline std::uint64_t region_of(double fraction, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(fraction * static_cast<double>(bytes)) / grain * grain;
}

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
