// The gain of keeping data in the L2 cache. A stream of data that is used once evicts data that is
// used repeatedly. An access policy window keeps the latter in a part of the cache that is set
// aside. If the window is larger than that part, it may evict its own lines, unless hitRatio limits
// the lines that stay to as many as fit.
#include <algorithm>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"l2-window.stream", OptionKind::size, "1GiB", "64MiB..",
     "Size of the stream of data that is used once, at least four times the part of the L2 "
     "cache that is set aside."},
};

Table l2_window(Bench& bench);

extern const Experiment about_l2_window = {
    .name = "l2-window",
    .group = "memory",
    .summary = "A part of the L2 cache can be reserved for data that is used repeatedly.",
    .explanation =
        "A kernel adds a small hot region, repeatedly, to a long stream of data that is used "
        "once. Without a window, the stream evicts the hot region from the L2 cache. An access "
        "policy window keeps lines of the region in a part of the cache that is set aside. The "
        "region grows from a third of that part to twice its size. The hit ratio is 1, or tuned "
        "so that only as many lines stay as fit. Expect a gain while the region fits. If it does "
        "not fit, GPUs differ: with hit ratio 1 the kernel may be slower, or still gain. CUDA "
        "C++ Best Practices Guide, section L2 Cache.",
    .reference =
        "A100, 30 MB set aside: up to 50 % faster while the region fits, 10 % slower if it does "
        "not fit; the tuned hit ratio recovers that.",
    .share = "of the rate of the same kernel without a window",
    .options = options,
    .figure = {.look = Look::lines, .x = "of_set_aside", .y = "rate", .series = "policy"},
    .needs = {.compute_capability = 80},
    .run = with_cuda<l2_window>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;

/// Adds one of the `hot` elements to each element of the stream. The hot ones are read repeatedly.
__global__ void add_hot(const float* stream, const float* hot, std::uint64_t hot_count, float* to,
                        std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[i] = stream[i] + hot[i % hot_count];
}

/// Counts elements that add_hot() should not have produced.
__global__ void count_wrong(const float* to, std::uint64_t hot_count, std::uint64_t count,
                            unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count && to[i] != unit_number(i) + unit_number(i % hot_count)) atomicAdd(wrong, 1);
}

std::string remark(const char* policy, double gain, bool fits) {
  const std::string change = formatted("{:+.0f} %", 100 * (gain - 1));
  if (std::string_view(policy) == "none") return "without a window";
  if (gain > 1.03)
    return change + (fits ? ": as expected, the hot region stays" : ": a part of the region stays");
  if (gain > 0.97)
    return change + ": no difference; the cache keeps the hot region without a window";
  return change +
         (fits ? ": unexpected" : ": as expected, the region is larger than the part set aside");
}

/// Measures all policies for a size of the hot region.
class Cases {
 public:
  /// Throws UsageError if the stream is too short to use the largest hot region repeatedly.
  Cases(Bench& bench, Gpu& gpu, Measurements& rows, std::uint64_t set_aside)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        set_aside_(set_aside),
        count_(bench.bytes("l2-window.stream", {.of_device = 0.2}) / sizeof(float)),
        stream_(count_),
        to_(count_),
        hot_(2 * set_aside / sizeof(float)),
        wrong_(1) {
    if (stream_.bytes() < 2 * hot_.bytes()) {
      throw UsageError(formatted(
          "l2-window.stream: {} is too small for hot regions of up to {}, which must be used "
          "repeatedly: choose at least {} MiB",
          format_size(stream_.bytes()), format_size(hot_.bytes()), (2 * hot_.bytes() >> 20) + 1));
    }
    fill(stream_, gpu.stream());
    fill(hot_, gpu.stream());
  }

  void measure(std::uint64_t hot_bytes) {
    const double without = one("none", hot_bytes, std::nullopt, 0);
    one("hit ratio 1", hot_bytes, 1.0F, without);
    const double fits = static_cast<double>(set_aside_) / static_cast<double>(hot_bytes);
    one("hit ratio tuned", hot_bytes, static_cast<float>(std::min(1.0, fits)), without);
  }

 private:
  double one(const char* policy, std::uint64_t hot_bytes, std::optional<float> hit_ratio,
             double without) {
    const std::uint64_t hot_count = hot_bytes / sizeof(float);
    const auto add = [&] {
      add_hot<<<blocks_for(count_, threads), threads, 0, gpu_.stream()>>>(
          stream_.data(), hot_.data(), hot_count, to_.data(), count_);
      check_launch("add_hot");
    };
    std::optional<WindowGuard> guard;
    if (hit_ratio) {
      cudaAccessPolicyWindow window{};
      window.base_ptr = hot_.data();
      window.num_bytes = hot_bytes;
      window.hitRatio = *hit_ratio;
      window.hitProp = cudaAccessPropertyPersisting;
      window.missProp = cudaAccessPropertyStreaming;
      guard.emplace(gpu_.stream(), window);
    }
    to_.clear(gpu_.stream());
    wrong_.clear(gpu_.stream());
    add();
    count_wrong<<<blocks_for(count_, threads), threads, 0, gpu_.stream()>>>(to_.data(), hot_count,
                                                                            count_, wrong_.data());
    check_launch("count_wrong");
    bench_.verify(wrong_.read()[0] == 0, "a stream with a hot region");
    const Measured rate = gpu_.time(add).rate(3.0 * sizeof(float) * static_cast<double>(count_));
    rows_.add({static_cast<std::int64_t>(hot_bytes), policy,
               static_cast<double>(hot_bytes) / static_cast<double>(set_aside_)},
              rate, hit_ratio ? rate.value / without : 1,
              remark(policy, rate.value / without, hot_bytes <= set_aside_));
    return rate.value;
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::uint64_t set_aside_, count_;
  DeviceArray<float> stream_, to_, hot_;
  DeviceArray<unsigned> wrong_;
};

}  // namespace

Table l2_window(Bench& bench) {
  Gpu gpu(bench);
  const auto max = static_cast<std::uint64_t>(gpu.properties().persistingL2CacheMaxSize);
  if (max == 0) throw NotAvailable("the GPU cannot set aside a part of its L2 cache");
  const LimitGuard guard(cudaLimitPersistingL2CacheSize, max);
  std::size_t set_aside = 0;
  check(cudaDeviceGetLimit(&set_aside, cudaLimitPersistingL2CacheSize), "cudaDeviceGetLimit");
  Measurements rows({{"hot", ColumnType::integer, "B"},
                     {"policy", ColumnType::text},
                     {"of_set_aside", ColumnType::real}},
                    {"rate", ColumnType::real, "GB/s"});
  Cases cases(bench, gpu, rows, set_aside);
  for (const unsigned sixths : {2U, 4U, 6U, 8U, 10U, 12U}) {
    if (bench.is_quick() && sixths != 2 && sixths != 6 && sixths != 12) continue;
    const std::uint64_t hot = set_aside / 6 * sixths / 4096 * 4096;
    if (hot <= static_cast<std::uint64_t>(gpu.properties().accessPolicyMaxWindowSize)) {
      cases.measure(hot);
    }
  }
  bench.note(formatted(
      "{} of the {} of L2 cache were set aside. Rates count the bytes that the kernel requests.",
      format_size(set_aside),
      format_size(static_cast<std::uint64_t>(gpu.properties().l2CacheSize))));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
