// One kernel, timed by different clocks, on an idle GPU and beside the work of another stream. A
// launch returns before the kernel has run, so a host's clock that does not wait for the end
// measures only the launch; one that waits for the device measures the other work, too. Events
// measure on the GPU, in their own stream.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "experiments/device_clock.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::link {

Table timers(Bench& bench);

namespace {

constexpr std::uint64_t busy = 4'000'000;  // nanoseconds of the other stream's work

/// The length of the kernel, and the error of the same timer for the shortest one.
double expected_time(const MeasuredRow& row) {
  constexpr double shortest = 2, other = busy / 1e3;  // us
  const std::string timer = row.text("timer");
  const double reported =
      row.of_row("reported", {{"beside", "nothing"}, {"kernel", "2"}}, {"timer"});
  if (timer == "host's clock, no wait") return reported;
  const bool waits_for_other =
      timer == "host's clock, wait for device" && row.text("beside") == "another stream";
  return (waits_for_other ? other : row["kernel"]) + reported - shortest;
}

}  // namespace

extern const Experiment about_timers = {
    .name = "timers",
    .group = "link",
    .summary = "The host's clock measures only the launch if it does not wait for the kernel.",
    .explanation =
        {
            .question = "Which clock tells how long a kernel runs?",
            .varies =
                "Kernels that run for 2 us to 2 ms by the GPU's own timer are timed in four ways: "
                "by the host's clock without waiting, by the host's clock with a wait for the "
                "kernel's stream, by the host's clock with a wait for the device, and by events. "
                "First the GPU is idle otherwise (`beside` is `nothing`), then another stream is "
                "busy for 4 ms.",
            .expectation =
                "Without waiting, expect a few microseconds, the time of a launch, for every "
                "kernel. With waiting, expect some microseconds too much, for the launch and the "
                "wait. By events, expect a few microseconds too much, for the start and end of the "
                "kernel on the GPU. Beside another stream, expect a wait for the device to report "
                "the 4 ms of the other work; a wait for the stream and events report the kernel, "
                "as long as the GPU runs both at once. With waiting and by events, expect about "
                "the same error for kernels of all lengths.",
            .pitfalls = "For the shortest kernel, these errors are as large as the time itself.",
        },
    .read_on = {{Guide::best_practices, "Using CPU Timers"},
                {Guide::best_practices, "Using CUDA GPU Timers"}},
    .reference = "Events have a resolution of about 0.5 us.",
    .share = "the reported time over the length that the kernel was given",
    .expected = expected_time,
    .exercise =
        {.task = "Predict the reported time in us of a kernel of 200 us: by the host's "
                 "clock without waiting and with a wait for the stream, and beside another stream "
                 "with a wait for the device and by events.",
         .rows = {{{"timer", "host's clock, no wait"}, {"beside", "nothing"}, {"kernel", "200"}},
                  {{"timer", "host's clock, wait for stream"},
                   {"beside", "nothing"},
                   {"kernel", "200"}},
                  {{"timer", "host's clock, wait for device"},
                   {"beside", "another stream"},
                   {"kernel", "200"}},
                  {{"timer", "events"}, {"beside", "another stream"}, {"kernel", "200"}}}},
    .figure = {.look = Look::lines,
               .x = "kernel",
               .y = "reported",
               .series = "timer",
               .panel = "beside",
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

/// The work of the GPU while a kernel is timed.
enum class Beside { nothing, another_stream };

/// Times a kernel in different ways. Each measurement begins and ends with an idle device.
class Timers {
 public:
  explicit Timers(Gpu& gpu) : gpu_(gpu), was_(2), side_(1), begin_(true), end_(true) {}

  /// The actual length of a kernel that was given `nanoseconds`, by the GPU's own timer.
  std::uint64_t actual(std::uint64_t nanoseconds) const {
    launch(nanoseconds);
    return was_.read(0, 1)[0];
  }

  /// The host's clock from the launch until `wait` returns.
  double by_host(std::uint64_t nanoseconds, Beside beside,
                 const std::function<void()>& wait) const {
    prepare(beside);
    const auto begin = Clock::now();
    launch(nanoseconds);
    wait();
    const double seconds = seconds_since(begin);
    wait_for_device();
    return seconds;
  }
  void wait_for_stream() const { gpu_.synchronize(); }
  static void wait_for_device() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

  /// Events before and after the kernel.
  double by_events(std::uint64_t nanoseconds, Beside beside) const {
    prepare(beside);
    const double seconds = between_events([&] { launch(nanoseconds); });
    wait_for_device();
    return seconds;
  }
  /// Two events with nothing between them.
  double of_nothing() const {
    return between_events([] {});
  }

 private:
  void launch(std::uint64_t nanoseconds) const {
    run_for<<<1, 1, 0, gpu_.stream()>>>(nanoseconds, was_.data());
    check_launch("run_for");
  }
  /// Starts the other stream's work, if there is any.
  void prepare(Beside beside) const {
    wait_for_device();
    if (beside == Beside::nothing) return;
    run_for<<<1, 1, 0, side_[0]>>>(busy, was_.data() + 1);
    check_launch("run_for");
  }
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
  DeviceArray<std::uint64_t> was_;  ///< lengths of the kernels of the two streams
  SideStreams side_;
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

/// The meaning of a time, in seconds, that a timer reported for a kernel of `length` seconds.
std::string remark(double seconds, double length, Beside beside, const char* otherwise) {
  const double error = seconds - length;
  const double other = static_cast<double>(busy) / 1e9 - length;  // the rest of the other work
  const bool is_other = beside == Beside::another_stream && error > 0.5 * other;
  return formatted("{:+.1f} us: {}", error * 1e6,
                   std::string(is_other ? "includes the work of the other stream" : otherwise));
}

/// Adds the rows of all timers for a kernel of one length.
void add(Bench& bench, const Timers& timers, Beside beside, std::uint64_t nanoseconds,
         Measurements& rows) {
  const double length = static_cast<double>(nanoseconds) / 1e9;
  const auto row = [&](const char* timer, const char* words, const std::function<double()>& call) {
    const Measured seconds = bench.sample(call).seconds;
    rows.add({timer, beside == Beside::nothing ? "nothing" : "another stream", length * 1e6},
             seconds.times(1e6), seconds.value / length,
             remark(seconds.value, length, beside, words));
  };
  row("host's clock, no wait", "only the launch, not the kernel",
      [&] { return timers.by_host(nanoseconds, beside, [] {}); });
  row("host's clock, wait for stream", "includes the launch and the wait",
      [&] { return timers.by_host(nanoseconds, beside, [&] { timers.wait_for_stream(); }); });
  row("host's clock, wait for device", "includes the launch and the wait",
      [&] { return timers.by_host(nanoseconds, beside, [] { Timers::wait_for_device(); }); });
  row("events", "includes the start and end on the GPU",
      [&] { return timers.by_events(nanoseconds, beside); });
}

}  // namespace

Table timers(Bench& bench) {
  Gpu gpu(bench);
  const Timers timers(gpu);
  Measurements rows({{"timer", ColumnType::text},
                     {"beside", ColumnType::text},
                     {"kernel", ColumnType::real, "us"}},
                    {"reported", ColumnType::real, "us"});
  for (const Beside beside : {Beside::nothing, Beside::another_stream}) {
    for (const std::uint64_t nanoseconds : {2'000, 20'000, 200'000, 2'000'000}) {
      const std::uint64_t was = timers.actual(nanoseconds);
      bench.verify(was >= nanoseconds && was < 2 * nanoseconds + 10'000, "the length of a kernel");
      add(bench, timers, beside, nanoseconds, rows);
    }
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
