// Calls that keep two kernels from running at the same time. The kernels are in two streams and
// leave room for each other, so they overlap. Some calls of CUDA synchronise all streams without
// being asked to: if the host makes one between the two launches, the second kernel waits for the
// first one.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/statistics.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/execution/spans.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::execution {

Table serialising(Bench& bench);

namespace {

/// In lengths of a kernel: 1 or 2.
double time_of_both(const MeasuredRow& row) {
  constexpr std::array<std::string_view, 3> always = {"cudaFree", "cudaFreeHost",
                                                      "another carve-out is needed"};
  constexpr std::array<std::string_view, 3> in_legacy_stream = {
      "kernel, legacy default stream", "cudaMemset", "cudaMemcpy inside the device"};
  const auto is_among = [between = row.text("between")](const auto& calls) {
    return std::ranges::find(calls, between) != calls.end();
  };
  const bool waits =
      is_among(always) || (is_among(in_legacy_stream) && row.text("streams") == "blocking");
  return waits ? 2 : 1;
}

}  // namespace

extern const Experiment about_serialising = {
    .name = "serialising",
    .group = "execution",
    .summary = "Some calls between two kernels keep them from running at the same time.",
    .explanation =
        {
            .question =
                "Which calls between two launches keep the two kernels from running at the same "
                "time?",
            .varies =
                "Two kernels of one warp per multiprocessor are launched in two streams. The host "
                "makes a call between the two launches: none, a kernel in the legacy default "
                "stream or in the per-thread default stream, allocation or release of device or "
                "pinned memory, memset, a copy inside the device, or a launch that needs another "
                "division between L1 cache and shared memory. The two streams are blocking ones "
                "(cudaStreamCreate), which wait for the legacy default stream and let it wait, or "
                "non-blocking ones. `both` is the time from the begin of the first kernel to the "
                "end of the second one, in lengths of a kernel: 1 if they overlap completely, 2 if "
                "they do not. `call` is the time until the call returned.",
            .expectation =
                "The guide lists calls that serialise the kernels around them: allocation of "
                "pinned and of device memory, memset, copies inside the device, anything in the "
                "legacy default stream, and a change of the division. Expect the list to be "
                "cautious: newer drivers allocate without a wait. Work in the legacy default "
                "stream, such as cudaMemset() and cudaMemcpy(), must wait for both, if the streams "
                "are blocking. A release must wait, since a kernel may still use the memory, and "
                "so must a kernel that needs another division. A preferred division is only a "
                "hint. Allocate before the kernels, and use non-blocking streams.",
            .pitfalls =
                "A slow call alone could keep the kernels apart. Each kernel reads the GPU's timer "
                "when it begins and when it ends, and runs for at least four times the time of the "
                "call.",
        },
    .read_on = {{Guide::programming, "Implicit Synchronization"},
                {Guide::programming, "Default Stream"}},
    .share = "the part of the first kernel during which the second one ran",
    .expected = time_of_both,
    .exercise = {.task = "Predict the time of both kernels, in lengths of a kernel, with "
                         "cudaMemset between blocking and between non-blocking streams, and with "
                         "cudaMalloc and cudaFree between blocking ones.",
                 .rows = {{{"between", "cudaMemset"}, {"streams", "blocking"}},
                          {{"between", "cudaMemset"}, {"streams", "non-blocking"}},
                          {{"between", "cudaMalloc"}, {"streams", "blocking"}},
                          {{"between", "cudaFree"}, {"streams", "blocking"}}}},
    .figure = {.look = Look::bars,
               .x = "between",
               .y = "both",
               .panel = "streams",
               .more_is_better = false},
    .run = with_cuda<serialising>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 32;                                 // a warp
constexpr std::uint64_t handled_bytes = std::uint64_t{4} << 20;  // by a call between the kernels

/// Runs for `nanoseconds`, and records when each block begins and ends.
__device__ void run_for(std::uint64_t nanoseconds, Span* blocks) {
  const std::uint64_t begin = global_nanoseconds();
  spin(nanoseconds);
  if (threadIdx.x == 0) blocks[blockIdx.x] = {begin, global_nanoseconds()};
}

// Two kernels, since the division of the L1 cache is an attribute of a kernel.
__global__ void first_kernel(std::uint64_t nanoseconds, Span* blocks) {
  run_for(nanoseconds, blocks);
}
__global__ void second_kernel(std::uint64_t nanoseconds, Span* blocks) {
  run_for(nanoseconds, blocks);
}

__global__ void add_one(float* x) {
  *x += 1;
}

/// The division of the L1 cache for the two kernels, and dynamic shared memory of the second one.
struct Division {
  int first = cudaSharedmemCarveoutDefault, second = cudaSharedmemCarveoutDefault;
  unsigned shared_bytes = 0;
};

/// A call between the launches of the two kernels.
struct Between {
  const char* name;
  bool is_listed;  ///< whether the guide lists it as one that serialises
  /// Whether that holds only for streams that synchronise with the legacy default stream.
  bool needs_blocking_streams = false;
  std::function<void()> call = [] {};
  std::function<void()> before = [] {};  ///< before the first kernel
  std::function<void()> after = [] {};   ///< after both kernels
  Division division = {};
};

/// Memory that the calls handle.
struct Scratch {
  DeviceArray<float> from{handled_bytes / sizeof(float)}, to{handled_bytes / sizeof(float)};
  std::optional<DeviceArray<std::byte>> on_device;
  std::optional<PinnedArray<std::byte>> pinned;

  void allocate() { on_device.emplace(handled_bytes); }
  void allocate_pinned() { pinned.emplace(handled_bytes); }
};

void launch_add_one(float* x, cudaStream_t stream) {
  add_one<<<1, 1, 0, stream>>>(x);
  check_launch("add_one");
}

void allocate_in_order_of(cudaStream_t stream) {
  void* data = nullptr;
  check(cudaMallocAsync(&data, handled_bytes, stream), "cudaMallocAsync");
  check(cudaFreeAsync(data, stream), "cudaFreeAsync");
}

/// The calls refer to `scratch`. Those that take a stream get `third`, which is idle.
std::vector<Between> calls_on(Scratch& scratch, cudaStream_t third) {
  const auto in_legacy = [&scratch] { launch_add_one(scratch.to.data(), cudaStreamLegacy); };
  const auto in_per_thread = [&scratch] { launch_add_one(scratch.to.data(), cudaStreamPerThread); };
  const auto set = [&scratch] {
    check(cudaMemset(scratch.to.data(), 0, handled_bytes), "cudaMemset");
  };
  const auto set_async = [&scratch, third] { scratch.to.clear(third); };
  const auto copy = [&scratch] {
    check(
        cudaMemcpy(scratch.to.data(), scratch.from.data(), handled_bytes, cudaMemcpyDeviceToDevice),
        "cudaMemcpy");
  };
  const auto copy_async = [&scratch, third] {
    check(cudaMemcpyAsync(scratch.to.data(), scratch.from.data(), handled_bytes,
                          cudaMemcpyDeviceToDevice, third),
          "cudaMemcpyAsync");
  };
  const auto allocate = [&scratch] { scratch.allocate(); };
  const auto release = [&scratch] { scratch.on_device.reset(); };
  const auto allocate_pinned = [&scratch] { scratch.allocate_pinned(); };
  const auto release_pinned = [&scratch] { scratch.pinned.reset(); };
  constexpr unsigned much = 48U << 10;  // bytes that any kernel may have
  return {
      {.name = "nothing", .is_listed = false},
      {"kernel, legacy default stream", true, true, in_legacy},
      {"kernel, per-thread default stream", false, false, in_per_thread},
      {"cudaMalloc", true, false, allocate, [] {}, release},
      {"cudaFree", false, false, release, allocate},
      {"cudaMallocAsync, cudaFreeAsync", false, false, [third] { allocate_in_order_of(third); }},
      {"cudaHostAlloc", true, false, allocate_pinned, [] {}, release_pinned},
      {"cudaFreeHost", false, false, release_pinned, allocate_pinned},
      {"cudaMemset", true, false, set},
      {"cudaMemsetAsync", true, false, set_async},
      {"cudaMemcpy inside the device", true, false, copy},
      {"cudaMemcpyAsync inside the device", true, false, copy_async},
      {.name = "another carve-out is preferred",
       .is_listed = true,
       .division = {cudaSharedmemCarveoutMaxL1, cudaSharedmemCarveoutMaxShared}},
      {.name = "another carve-out is needed",
       .is_listed = true,
       .division = {cudaSharedmemCarveoutMaxL1, cudaSharedmemCarveoutMaxShared, much}},
  };
}

/// Seconds of one trial.
struct Trial {
  double both;    ///< from the begin of the first kernel to the end of the second one
  double shared;  ///< for which both kernels ran
  double call;    ///< until the call between them returned
};

/// Two kernels in two streams, with room for each other on every multiprocessor.
class Kernels {
 public:
  /// `flags` are those of the streams.
  Kernels(Bench& bench, Gpu& gpu, unsigned flags)
      : bench_(bench),
        streams_(3, flags),
        blocks_(static_cast<unsigned>(gpu.properties().multiProcessorCount)),
        first_(blocks_),
        second_(blocks_) {}

  cudaStream_t idle_stream() const { return streams_[2]; }

  /// Kernels of `nanoseconds` with the call between their launches.
  Trial run(const Between& between, std::uint64_t nanoseconds) const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    between.before();
    first_kernel<<<blocks_, threads, 0, streams_[0]>>>(nanoseconds, first_.data());
    check_launch("first_kernel");
    const auto begin = Clock::now();
    between.call();
    const double call = seconds_since(begin);
    second_kernel<<<blocks_, threads, between.division.shared_bytes, streams_[1]>>>(nanoseconds,
                                                                                    second_.data());
    check_launch("second_kernel");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    between.after();
    const Span first = ran(first_, nanoseconds), second = ran(second_, nanoseconds);
    return {seconds_of(hull({first, second})), seconds_of(common({first, second})), call};
  }

  /// The median seconds of the call while the device is idle.
  double alone(const Between& between) const {
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) {
      between.before();
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const auto begin = Clock::now();
      between.call();
      seconds.push_back(seconds_since(begin));
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      between.after();
    }
    return median(std::move(seconds));
  }

 private:
  static double seconds_of(Span span) { return static_cast<double>(span.end - span.begin) / 1e9; }

  /// The time for which a kernel ran. Throws Unverified if a block did not run for `nanoseconds`.
  Span ran(const DeviceArray<Span>& blocks, std::uint64_t nanoseconds) const {
    const std::vector<Span> spans = blocks.read();
    bench_.verify(
        std::ranges::all_of(spans,
                            [&](const Span& span) { return span.end >= span.begin + nanoseconds; }),
        "the length of a kernel");
    return hull(spans);
  }

  Bench& bench_;
  SideStreams streams_;
  unsigned blocks_;
  DeviceArray<Span> first_, second_;
};

/// Compares the result with the guide. `possible`: whether kernels overlap with nothing between
/// them.
std::string remark(bool overlapped, bool is_listed, bool possible) {
  if (!possible) return "no conclusion: kernels never overlap here, whatever lies between them";
  if (overlapped) return is_listed ? "although the guide lists it" : "the guide does not list it";
  return is_listed ? "as the guide lists it" : "although the guide does not list it";
}

/// The medians of some trials.
struct Result {
  Measured both;        ///< seconds
  double shared, call;  ///< seconds
  double kernel;        ///< the length that each kernel was given, in seconds

  bool overlapped() const { return shared > 0.01 * kernel; }
};

Result measure(Bench& bench, const Kernels& kernels, const Between& between) {
  const CarveoutGuard of_first(reinterpret_cast<const void*>(first_kernel), between.division.first);
  const CarveoutGuard of_second(reinterpret_cast<const void*>(second_kernel),
                                between.division.second);
  (void)kernels.run(between, 0);  // loads the kernels; for that, the driver may wait for the device
  const double kernel = 2e-3 + 4 * kernels.alone(between);
  std::vector<double> shared, call;
  const Timing both = bench.sample([&] {
    const Trial trial = kernels.run(between, static_cast<std::uint64_t>(kernel * 1e9));
    shared.push_back(trial.shared);
    call.push_back(trial.call);
    return trial.both;
  });
  return {both.seconds, median(std::move(shared)), median(std::move(call)), kernel};
}

/// Measures all calls with streams that have these flags.
void add_all(Bench& bench, Gpu& gpu, unsigned flags, Measurements& rows) {
  const Kernels kernels(bench, gpu, flags);
  Scratch scratch;
  scratch.from.clear(gpu.stream());
  scratch.to.clear(gpu.stream());
  const bool is_blocking = flags == cudaStreamDefault;
  std::optional<bool> possible;  // the first case has nothing between the kernels
  for (const Between& between : calls_on(scratch, kernels.idle_stream())) {
    const Result result = measure(bench, kernels, between);
    if (!possible) possible = result.overlapped();
    const bool is_listed = between.is_listed && (is_blocking || !between.needs_blocking_streams);
    rows.add(
        {between.name, is_blocking ? "blocking" : "non-blocking",
         result.overlapped() ? "overlapped" : "serialised", result.kernel * 1e3, result.call * 1e6},
        result.both.times(1 / result.kernel), result.shared / result.kernel,
        remark(result.overlapped(), is_listed, *possible));
  }
}

}  // namespace

Table serialising(Bench& bench) {
  Gpu gpu(bench);
  if (gpu.properties().concurrentKernels == 0) {
    throw NotAvailable("this GPU runs one kernel at a time");
  }
  Measurements rows({{"between", ColumnType::text},
                     {"streams", ColumnType::text},
                     {"kernels", ColumnType::text},
                     {"kernel", ColumnType::real, "ms"},
                     {"call", ColumnType::real, "us"}},
                    {"both", ColumnType::real, "kernels"});
  add_all(bench, gpu, cudaStreamDefault, rows);
  add_all(bench, gpu, cudaStreamNonBlocking, rows);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
