// One kernel, timed by different clocks. A launch returns before the kernel has run, so a host's
// clock that does not wait for the end measures only the launch. Events measure on the GPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "experiments/device_clock.cuh"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::link {

Table timers(Bench& bench);

extern const Experiment about_timers = {
    .name = "timers",
    .group = "link",
    .summary = "The host's clock measures only the launch if it does not wait for the kernel.",
    .explanation =
        "Kernels that run for 2 us to 2 ms by the GPU's own timer are timed in three ways: by "
        "the host's clock without waiting, by the host's clock with a wait for the end of the "
        "kernel, and by events. Without waiting, expect a few microseconds, the time of a "
        "launch, for every kernel. With waiting, expect some microseconds too much, for the "
        "launch and the wait. By events, expect a few microseconds too much, for the start and "
        "end of the kernel on the GPU. For the shortest kernel, these errors are as large as the "
        "time itself. CUDA C++ Best Practices Guide, section Timing.",
    .reference = "Events have a resolution of about 0.5 us.",
    .share = "the reported time over the length that the kernel was given",
    .figure = {.look = Look::lines,
               .x = "kernel",
               .y = "reported",
               .series = "timer",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<timers>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// Runs for `nanoseconds` by the GPU's own timer and stores the actual length in `*was`.
__global__ void run_for(std::uint64_t nanoseconds, std::uint64_t* was) {
  *was = spin(nanoseconds);
}

/// Times a kernel in different ways.
class Timers {
 public:
  explicit Timers(Gpu& gpu) : gpu_(gpu), was_(1), begin_(true), end_(true) {}

  void launch(std::uint64_t nanoseconds) const {
    run_for<<<1, 1, 0, gpu_.stream()>>>(nanoseconds, was_.data());
    check_launch("run_for");
  }
  std::uint64_t last() const { return was_.read()[0]; }

  /// The host's clock around the launch alone.
  double without_waiting(std::uint64_t nanoseconds) const {
    gpu_.synchronize();
    const auto begin = Clock::now();
    launch(nanoseconds);
    const double seconds = seconds_since(begin);
    gpu_.synchronize();
    return seconds;
  }
  /// The host's clock until the kernel has ended.
  double with_waiting(std::uint64_t nanoseconds) const {
    gpu_.synchronize();
    const auto begin = Clock::now();
    launch(nanoseconds);
    gpu_.synchronize();
    return seconds_since(begin);
  }
  /// Events before and after the kernel.
  double by_events(std::uint64_t nanoseconds) const {
    return between_events([&] { launch(nanoseconds); });
  }
  /// Two events with nothing between them.
  double of_nothing() const {
    return between_events([] {});
  }

 private:
  double between_events(const std::function<void()>& enqueue) const {
    check(cudaEventRecord(begin_.get(), gpu_.stream()), "cudaEventRecord");
    enqueue();
    check(cudaEventRecord(end_.get(), gpu_.stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }

  Gpu& gpu_;
  DeviceArray<std::uint64_t> was_;
  device::cuda::EventHandle begin_, end_;
};

/// The minimum difference between some hundred measured times, in seconds; NaN if all are equal.
double resolution(const std::function<double()>& measure) {
  constexpr int samples = 400;
  std::set<double> times;
  for (int i = 0; i < samples; ++i) times.insert(measure());
  double minimum = std::numeric_limits<double>::infinity();
  for (auto a = times.begin(), b = a; b != times.end() && ++b != times.end(); ++a) {
    // Events give milliseconds as float: smaller differences are rounding errors.
    if (*b - *a > 1e-6 * *b) minimum = std::min(minimum, *b - *a);
  }
  return std::isfinite(minimum) ? minimum : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Table timers(Bench& bench) {
  Gpu gpu(bench);
  const Timers timers(gpu);
  Measurements rows({{"timer", ColumnType::text}, {"kernel", ColumnType::real, "us"}},
                    {"reported", ColumnType::real, "us"});
  for (const std::uint64_t nanoseconds : {2'000, 20'000, 200'000, 2'000'000}) {
    timers.launch(nanoseconds);
    const std::uint64_t was = timers.last();
    bench.verify(was >= nanoseconds && was < 2 * nanoseconds + 10'000, "the length of a kernel");
    const double length = static_cast<double>(nanoseconds) / 1e9;
    const auto add = [&](const char* timer, const char* words,
                         const std::function<double()>& call) {
      const Measured seconds = bench.sample(call).seconds;
      rows.add({timer, length * 1e6}, seconds.times(1e6), seconds.value / length,
               formatted("{:+.1f} us: {}", (seconds.value - length) * 1e6, std::string(words)));
    };
    add("host's clock, no wait", "only the launch, not the kernel",
        [&] { return timers.without_waiting(nanoseconds); });
    add("host's clock, wait", "includes the launch and the wait",
        [&] { return timers.with_waiting(nanoseconds); });
    add("events", "includes the start and end on the GPU",
        [&] { return timers.by_events(nanoseconds); });
  }
  const double of_events = resolution([&] { return timers.of_nothing(); });
  const double of_host = resolution([] { return seconds_since(Clock::now()); });
  bench.note(
      formatted("Resolution (the minimum difference between two times): {:.2g} us by events, "
                "{:.2g} us by the host's clock.",
                of_events * 1e6, of_host * 1e6));
  bench.note(
      "`kernel` is the length that the kernel was given, by the GPU's own timer. A remark begins "
      "with the difference from it.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
