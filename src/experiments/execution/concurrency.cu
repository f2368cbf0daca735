// Many small kernels. Kernels of one stream run one after the other; kernels of different streams
// may run at the same time, up to a limit of the GPU. Each launch costs the host some microseconds,
// which a graph pays once for all of its kernels.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/device_clock.cuh"
#include "experiments/execution/begin_flag.hpp"
#include "experiments/execution/spans.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/graph.hpp"

namespace shardstream::experiments::execution {

constexpr OptionRow options[] = {
    {"concurrency.most", OptionKind::count, "256", "1..512",
     "The largest number of kernels. Callbacks and default streams have at most 32."},
};

Table concurrency(Bench& bench);

extern const Experiment about_concurrency = {
    .name = "concurrency",
    .group = "execution",
    .summary =
        "Small kernels run at the same time in different streams, and a graph launches them with "
        "one call.",
    .explanation =
        "From 1 to concurrency.most kernels of one warp, which run for 20 us each, are launched "
        "in several ways: in one stream; each in its own stream; as a graph that is a chain or "
        "has a branch for each kernel; in one stream with a call of the host (cudaLaunchHostFunc) "
        "between two kernels; and in own streams, with an empty kernel in the legacy or the "
        "per-thread default stream between two of them. `time` is the time on the GPU for each "
        "kernel; the ways with a default stream are timed by the host's clock. `launch` is the "
        "time that the host needs to launch each kernel, without waiting. `start` is the time "
        "from the launch of the first kernel until it runs. `at_once` is the largest number of "
        "kernels that ran at the same time, found from the begin and the end of each by the "
        "GPU's timer; there, each kernel runs long enough for all of them to start. Expect 1 in "
        "one stream and in a chain, and otherwise all kernels, up to the maximum of resident "
        "grids: 128 on most GPUs. CUDA_DEVICE_MAX_CONNECTIONS (8 by default) is the number of "
        "queues between host and GPU; kernels of different streams in one queue may delay each "
        "other. Expect graphs to launch with a fraction of the time for each kernel. A callback "
        "costs tens of microseconds. The legacy default stream waits for all other streams, and "
        "they wait for it, so expect 1 at once; the per-thread one does not. The last two rows "
        "show priorities: a grid of four waves of blocks fills the GPU, and a kernel is launched "
        "behind it. `start` and `time` then count from the begin of the grid. Expect the kernel "
        "to begin after one wave if its stream has a high priority, and after all four waves "
        "otherwise: blocks that run are not interrupted, but waiting blocks are overtaken. CUDA "
        "C++ Programming Guide, sections Streams, CUDA Graphs and Stream Priorities.",
    .share =
        "the time of the kernels themselves over the measured time. Kernels that do not depend on "
        "each other run at the same time, up to the maximum of resident grids",
    .options = options,
    .figure = {.look = Look::lines,
               .x = "kernels",
               .y = "time",
               .series = "way",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<concurrency>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned warp = 32;
constexpr std::uint64_t usual_length = 20'000;   // nanoseconds of a kernel
constexpr std::uint64_t time_to_start = 10'000;  // more than a launch and a start take
constexpr std::uint64_t resolution = 1'000;      // of the GPU's timer
constexpr int repetitions = 9;                   // of measurements by the host's clock

/// Each block runs for `nanoseconds` by the GPU's timer and stores its times. The first one sets
/// `*has_begun`, which is in the memory of the host.
__global__ void run_for(std::uint64_t nanoseconds, Span* spans, volatile unsigned* has_begun) {
  const std::uint64_t begin = global_nanoseconds();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *has_begun = 1;
    __threadfence_system();
  }
  while (global_nanoseconds() - begin < nanoseconds) {
  }
  if (threadIdx.x == 0) spans[blockIdx.x] = {begin, global_nanoseconds()};
}

__global__ void do_nothing() {}

void count_call(void* calls) {
  ++*static_cast<std::atomic<unsigned>*>(calls);
}

void synchronize_device() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

enum class LaunchWay {
  one_stream,
  own_streams,
  chain,      ///< a graph
  branches,   ///< a graph
  callbacks,  ///< between the kernels of one stream
  legacy,     ///< own streams, with kernels in the legacy default stream between
  per_thread  ///< own streams, with kernels in the per-thread default stream between
};

const char* word_of(LaunchWay way) {
  switch (way) {
    case LaunchWay::one_stream:
      return "one stream";
    case LaunchWay::own_streams:
      return "own streams";
    case LaunchWay::chain:
      return "graph: chain";
    case LaunchWay::branches:
      return "graph: branches";
    case LaunchWay::callbacks:
      return "one stream, callbacks between";
    case LaunchWay::legacy:
      return "own streams, legacy default between";
    case LaunchWay::per_thread:
      return "own streams, per-thread default between";
  }
  return "";
}

bool is_graph(LaunchWay way) {
  return way == LaunchWay::chain || way == LaunchWay::branches;
}
/// Whether the kernels need not wait for each other.
bool is_parallel(LaunchWay way) {
  return way == LaunchWay::own_streams || way == LaunchWay::branches ||
         way == LaunchWay::per_thread;
}
bool has_own_streams(LaunchWay way) {
  return is_parallel(way) || way == LaunchWay::legacy;
}
/// Whether other kernels run in a default stream. The own streams are then blocking ones, which
/// wait for the legacy default stream, and it for them.
bool uses_default_stream(LaunchWay way) {
  return way == LaunchWay::legacy || way == LaunchWay::per_thread;
}

/// A number of kernels that are launched in one of the ways.
class Kernels {
 public:
  Kernels(Gpu& gpu, LaunchWay way, unsigned count, std::uint64_t nanoseconds)
      : gpu_(gpu),
        way_(way),
        count_(count),
        nanoseconds_(nanoseconds),
        own_(has_own_streams(way) ? count : 0,
             uses_default_stream(way) ? cudaStreamDefault : cudaStreamNonBlocking),
        spans_(count) {
    if (!is_graph(way)) return;
    const auto begin = Clock::now();
    graph_.emplace(captured(gpu.stream(), [&] { enqueue(); }));
    seconds_to_make_ = seconds_since(begin);
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() { device::cuda::report(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

  /// Launches all kernels, so that they wait for earlier work of the GPU's stream, and later work
  /// of that stream waits for them. Not for ways that use the default stream.
  void enqueue() {
    const bool forks = !graph_ && has_own_streams(way_);
    if (forks) own_.fork(gpu_.stream());
    launch();
    if (forks) own_.join(gpu_.stream());
  }

  /// Launches all kernels, or the graph.
  void launch() {
    if (graph_) {
      graph_->launch(gpu_.stream());
      return;
    }
    for (unsigned i = 0; i < count_; ++i) {
      if (i > 0) launch_between();
      launch_kernel(i);
    }
  }

  /// Seconds of the host for launch(), without the wait for the kernels.
  double seconds_to_launch() {
    const auto begin = Clock::now();
    launch();
    const double seconds = seconds_since(begin);
    synchronize_device();
    return seconds;
  }

  /// Seconds from the launch of the first kernel, or of the graph, until that kernel runs.
  double seconds_to_start() {
    begun_.forget();
    const auto begin = Clock::now();
    if (graph_) {
      launch();
    } else {
      launch_kernel(0);
    }
    begun_.wait();
    const double seconds = seconds_since(begin);
    synchronize_device();
    return seconds;
  }

  /// The times of the kernels of the last launch. Waits for the device.
  std::vector<Span> spans() const { return spans_.read(); }
  void forget_spans() const { spans_.clear(gpu_.stream()); }
  /// Number of callbacks since the object was made.
  unsigned calls() const { return calls_; }
  /// Seconds to capture and instantiate the graph.
  double seconds_to_make() const { return seconds_to_make_; }

 private:
  cudaStream_t stream_of(unsigned i) const {
    return has_own_streams(way_) ? own_[i] : gpu_.stream();
  }
  void launch_kernel(unsigned i) {
    run_for<<<1, warp, 0, stream_of(i)>>>(nanoseconds_, spans_.data() + i, begun_.data());
    check_launch("run_for");
  }
  /// Launches the work between two kernels.
  void launch_between() {
    if (way_ == LaunchWay::callbacks) {
      check(cudaLaunchHostFunc(gpu_.stream(), count_call, &calls_), "cudaLaunchHostFunc");
    }
    if (!uses_default_stream(way_)) return;
    do_nothing<<<1, 1, 0, way_ == LaunchWay::legacy ? cudaStreamLegacy : cudaStreamPerThread>>>();
    check_launch("do_nothing");
  }

  Gpu& gpu_;
  LaunchWay way_;
  unsigned count_;
  std::uint64_t nanoseconds_;
  SideStreams own_;
  DeviceArray<Span> spans_;
  BeginFlag begun_;
  std::atomic<unsigned> calls_ = 0;
  std::optional<ExecutableGraph> graph_;
  double seconds_to_make_ = 0;
};

double median_of(const std::function<double()>& seconds) {
  std::vector<double> all;
  for (int i = 0; i < repetitions; ++i) all.push_back(seconds());
  return median(std::move(all));
}

/// The measurements of a number of kernels. Times are in microseconds.
struct Found {
  double launch = 0;  ///< of the host, for each kernel
  double start = 0;   ///< of the first kernel
  double make = 0;    ///< of the graph
  unsigned at_once = 0;
  Measured time = {};  ///< for each kernel
};

class Concurrency {
 public:
  Concurrency(Bench& bench, Gpu& gpu);

  void measure(LaunchWay way, unsigned count);
  void measure_priority(device::Priority priority, const char* name);
  Table table() &&;

 private:
  unsigned kernels_at_once(LaunchWay way, unsigned count);
  std::string words_on_overlap(unsigned at_once, unsigned count) const;
  std::string remark(LaunchWay way, unsigned count) const;

  Bench& bench_;
  Gpu& gpu_;
  Gate gate_;
  unsigned limit_;     ///< of kernels at the same time, by the documentation
  unsigned most_ = 0;  ///< kernels that ran at the same time
  std::map<std::pair<LaunchWay, unsigned>, Found> found_;
  Measurements rows_;
};

Concurrency::Concurrency(Bench& bench, Gpu& gpu)
    : bench_(bench),
      gpu_(gpu),
      gate_(Gate::usual_limit()),
      limit_(max_resident_grids(10 * gpu.properties().major + gpu.properties().minor)),
      rows_({{"way", ColumnType::text},
             {"kernels", ColumnType::integer},
             {"launch", ColumnType::real, "us"},
             {"start", ColumnType::real, "us"},
             {"at_once", ColumnType::integer, "kernels"}},
            {"time", ColumnType::real, "us"}) {
  // Loads the kernels. The driver may wait for the device to do so: behind a closed gate, until it
  // gives up.
  Kernels(gpu, LaunchWay::legacy, 2, usual_length).launch();
}

/// Checks that each kernel has run for its time, and in its order if it waits for the one before.
unsigned Concurrency::kernels_at_once(LaunchWay way, unsigned count) {
  const std::uint64_t length =
      is_parallel(way) ? std::max(usual_length, count * time_to_start) : usual_length;
  Kernels kernels(gpu_, way, count, length);
  kernels.forget_spans();
  gpu_.synchronize();
  if (uses_default_stream(way)) {
    kernels.launch();
  } else {
    const ClosedGateGuard closed(gate_, gpu_.stream());
    kernels.enqueue();
  }
  const std::vector<Span> spans = kernels.spans();
  for (unsigned i = 0; i < count; ++i) {
    bench_.verify(spans[i].begin > 0 && spans[i].end >= spans[i].begin + length, word_of(way));
    const bool waits = i > 0 && !is_parallel(way);
    bench_.verify(!waits || spans[i].begin + resolution >= spans[i - 1].end, word_of(way));
  }
  bench_.verify(kernels.calls() == (way == LaunchWay::callbacks ? count - 1 : 0), word_of(way));
  return largest_overlap(spans);
}

void Concurrency::measure(LaunchWay way, unsigned count) {
  Found& found = found_[{way, count}];
  found.at_once = kernels_at_once(way, count);
  most_ = std::max(most_, found.at_once);
  Kernels kernels(gpu_, way, count, usual_length);
  // Once a sample: the kernels of later launches would wait for each other in the queues.
  const auto behind_gate = [&] { kernels.enqueue(); };
  const auto until_end = [&] {
    kernels.launch();
    synchronize_device();
  };
  const Timing timing =
      uses_default_stream(way) ? gpu_.time_call(until_end) : gpu_.time_after([] {}, behind_gate);
  found.time = timing.seconds.times(1e6 / count);
  found.launch = median_of([&] { return kernels.seconds_to_launch(); }) * 1e6 / count;
  found.start = median_of([&] { return kernels.seconds_to_start(); }) * 1e6;
  found.make = kernels.seconds_to_make() * 1e6;
  const unsigned rounds = is_parallel(way) ? (count + limit_ - 1) / limit_ : count;
  const double ideal = static_cast<double>(rounds * usual_length) / 1e3 / count;
  rows_.add(
      {word_of(way), std::int64_t{count}, found.launch, found.start, std::int64_t{found.at_once}},
      found.time, ideal / found.time.value, remark(way, count));
}

std::string Concurrency::words_on_overlap(unsigned at_once, unsigned count) const {
  if (at_once == count) return count == 1 ? "a single kernel" : "all at once";
  if (at_once == 1) return "one after the other";
  if (at_once == limit_) return "as many at once as this GPU holds";
  return formatted("{} at once; this GPU holds {}", at_once, std::min(count, limit_));
}

std::string Concurrency::remark(LaunchWay way, unsigned count) const {
  const Found& found = found_.at({way, count});
  const std::string overlap = words_on_overlap(found.at_once, count);
  if (way == LaunchWay::one_stream) {
    return overlap + formatted(": {:.1f} us more than the kernel itself",
                               found.time.value - usual_length / 1e3);
  }
  const Found& one = found_.at({LaunchWay::one_stream, count});
  if (way == LaunchWay::callbacks) {
    return overlap + formatted(": a callback takes {:.1f} us",
                               (found.time.value - one.time.value) * count / (count - 1));
  }
  if (!is_graph(way)) return overlap;
  const Found& plain = way == LaunchWay::chain ? one : found_.at({LaunchWay::own_streams, count});
  const double saved = (plain.launch - found.launch) * count;  // us for all kernels
  if (saved <= 0) return overlap + "; no faster to launch than without a graph";
  return overlap + formatted(
                       "; launched {:.1f} times as fast as without a graph, which pays from "
                       "launch {:.0f} on",
                       plain.launch / found.launch, std::ceil(found.make / saved));
}

void Concurrency::measure_priority(device::Priority priority, const char* name) {
  constexpr unsigned waves = 4, threads = 256;
  constexpr std::uint64_t length = 100'000;  // nanoseconds of a wave
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, run_for, threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const auto blocks =
      waves * static_cast<unsigned>(resident * gpu_.properties().multiProcessorCount);
  const DeviceArray<Span> of_grid(blocks), of_kernel(1);
  const BeginFlag grid_begun, kernel_begun;
  const device::cuda::StreamHandle stream(priority);
  std::vector<double> starts;
  const Timing timing = bench_.sample([&] {
    grid_begun.forget();
    run_for<<<blocks, threads, 0, gpu_.stream()>>>(length, of_grid.data(), grid_begun.data());
    check_launch("run_for");
    grid_begun.wait();
    run_for<<<1, warp, 0, stream.get()>>>(usual_length, of_kernel.data(), kernel_begun.data());
    check_launch("run_for");
    const std::uint64_t begin = hull(of_grid.read()).begin;
    const Span kernel = of_kernel.read()[0];
    bench_.verify(kernel.begin > begin && kernel.end >= kernel.begin + usual_length, name);
    starts.push_back(static_cast<double>(kernel.begin - begin) / 1e3);
    return static_cast<double>(kernel.end - begin) / 1e9;
  });
  const double start = median(std::move(starts));
  const Measured time = timing.seconds.times(1e6);
  const unsigned waits = priority == device::Priority::urgent ? 1 : waves;
  const double ideal = static_cast<double>(waits * length + usual_length) / 1e3;
  rows_.add({name, std::int64_t{1}, std::nan(""), start, std::int64_t{1}}, time, ideal / time.value,
            formatted("begins after {:.1f} of {} waves", start * 1e3 / length, waves));
}

Table Concurrency::table() && {
  const char* const queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const cudaDeviceProp& properties = gpu_.properties();
  bench_.note(formatted(
      "At most {} kernels ran at the same time. GPUs of compute capability {}.{} hold up to {} "
      "grids. CUDA_DEVICE_MAX_CONNECTIONS is {}.",
      most_, properties.major, properties.minor, limit_,
      std::string(queues == nullptr ? "not set, so there are 8 queues" : queues)));
  return std::move(rows_).table();
}

}  // namespace

Table concurrency(Bench& bench) {
  constexpr std::uint64_t max_between = 32;  // kernels with something between two of them
  Gpu gpu(bench);
  Concurrency measured(bench, gpu);
  const std::uint64_t most = bench.options().count("concurrency.most");
  const std::vector<std::uint64_t> counts = sizes_up_to(1, most, bench.is_quick() ? 16 : 4);
  for (const LaunchWay way :
       {LaunchWay::one_stream, LaunchWay::own_streams, LaunchWay::chain, LaunchWay::branches,
        LaunchWay::callbacks, LaunchWay::legacy, LaunchWay::per_thread}) {
    const bool has_between = way == LaunchWay::callbacks || uses_default_stream(way);
    for (const std::uint64_t count : counts) {
      if (has_between && (count == 1 || count > max_between)) continue;
      measured.measure(way, static_cast<unsigned>(count));
    }
  }
  measured.measure_priority(device::Priority::normal, "behind 4 waves, same priority");
  measured.measure_priority(device::Priority::urgent, "behind 4 waves, high priority");
  return std::move(measured).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
