// Many small kernels. Kernels of one stream run one after the other; kernels of different streams
// may run at the same time, up to a limit of the GPU. Each launch costs the host some microseconds,
// which a graph pays once for all of its kernels.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/driver_function.hpp"
#include "experiments/execution/begin_flag.hpp"
#include "experiments/execution/divided_gpu.hpp"
#include "experiments/execution/launch_ways.cuh"
#include "experiments/execution/repeated_kernel.hpp"
#include "experiments/execution/spans.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/launch_attributes.cuh"

namespace shardstream::experiments::execution {

constexpr OptionRow options[] = {
    {"concurrency.most", OptionKind::count, "256", "1..512",
     "The largest number of kernels. Callbacks and default streams have at most 32."},
};

Table concurrency(Bench& bench);

namespace {

/// The time in us for each kernel of 20 us. Kernels with local memory or textures take as long as
/// those without. Ways that the host's clock times have none.
double expected_time(const MeasuredRow& row) {
  constexpr double length = 20, wave = 100, max_resident = 128;
  const std::string part = row.text("part"), way = row.text("way");
  if (part == "local memory and textures") {
    return row.measured({{"way", "own streams"}}, {"kernels"});
  }
  if (part == "beside a grid") {
    const double waves = way.starts_with("beside") ? 0 : way.ends_with("high priority") ? 1 : 4;
    return waves * wave + length;
  }
  if (part != "plain launches" && part != "graphs") return std::nan("");
  const bool is_in_turn = way.starts_with("one stream") || way.starts_with("graph: chain");
  return is_in_turn ? length : length / std::min(row["kernels"], max_resident);
}

}  // namespace

extern const Experiment about_concurrency = {
    .name = "concurrency",
    .group = "execution",
    .summary =
        "Small kernels run at the same time in different streams, and a graph launches them with "
        "one call.",
    .explanation =
        {
            .question =
                "Which ways to launch small kernels let them run at the same time, and what does "
                "each launch cost?",
            .varies =
                "From 1 to concurrency.most kernels of one warp, which run for 20 us each, are "
                "launched in several ways: in one stream; each in its own stream; as a graph that "
                "is a chain or has a branch for each kernel; in one stream with a call of the host "
                "(cudaLaunchHostFunc) between two kernels; and in own streams, with an empty "
                "kernel in the legacy or the per-thread default stream between two of them. "
                "Dependent launches let a kernel begin while the previous one runs; it then waits "
                "on the GPU for the end of that one. In `own streams, local memory` each thread "
                "also uses 4 KiB of local memory, and in `own streams, textures` 16 textures. In "
                "the ways `loop`, a kernel runs until a counter is zero: the host reads the "
                "counter after each run, or a WHILE node of a graph repeats the kernel, or the "
                "kernel launches its own graph again. `time` is the time on the GPU for each "
                "kernel. `launch` is the time that the host needs to launch each kernel, without "
                "waiting. `start` is the time from the launch of the first kernel until it runs. "
                "`at_once` is the largest number of kernels that ran at the same time, found from "
                "the begin and the end of each by the GPU's timer. In the last three rows, a grid "
                "of four waves of blocks of 100 us fills the GPU, and a kernel is launched after "
                "it: in a stream of the same priority, of a high one, and on multiprocessors of "
                "its own (green contexts). `start` and `time` then count from the begin of the "
                "grid.",
            .expectation =
                "Expect one kernel at once in one stream and in a chain, and otherwise all "
                "kernels, up to the maximum of resident grids: 128 on most GPUs. The time for each "
                "kernel is then 20 us over their number. Many kernels take longer than that, since "
                "the GPU starts them one after the other. Expect graphs to launch with a fraction "
                "of the time for each kernel. A dependent launch overlaps the previous kernel: "
                "expect less time above the 20 us of a kernel. Expect kernels with local memory or "
                "textures to run at the same time here, although the guide calls that less likely. "
                "Expect a loop of the host to cost a launch and a wait for each run, and a loop of "
                "a graph less. A callback costs tens of microseconds. The legacy default stream "
                "waits for all other streams, and they wait for it, so expect 1 at once; the "
                "per-thread one does not. Behind the grid, expect the kernel to begin after all "
                "four waves; with a high priority after one, since blocks that run are not "
                "interrupted, but waiting blocks are overtaken; and on multiprocessors of its own "
                "at once. The grid then has fewer multiprocessors, and takes longer.",
            .pitfalls =
                "Short kernels may end before the last one starts. For `at_once`, each kernel runs "
                "long enough for all of them to start. CUDA_DEVICE_MAX_CONNECTIONS (8 by default) "
                "is the number of queues between host and GPU; kernels of different streams in one "
                "queue may delay each other. The ways with a default stream and the loops are "
                "timed by the host's clock. A dependent kernel must wait before it reads what the "
                "previous one writes. The first launch of a kernel with more local memory than any "
                "before it may wait for the device, so each kernel runs once before.",
        },
    .read_on = {{Guide::programming, "Concurrent Kernel Execution"},
                {Guide::programming, "CUDA Graphs"},
                {Guide::programming, "Host Functions (Callbacks)"},
                {Guide::programming, "Default Stream"},
                {Guide::programming, "Stream Priorities"},
                {Guide::programming, "Programmatic Dependent Launch and Synchronization"},
                {Guide::programming, "Conditional Graph Nodes"},
                {Guide::programming, "Device Graph Launch"},
                {Guide::driver_api, "Green Contexts", "group__CUDA__GREEN__CONTEXTS.html"}},
    .share =
        "the time of the kernels themselves over the measured time. Kernels that do not depend on "
        "each other run at the same time, up to the maximum of resident grids",
    .options = options,
    .expected = expected_time,
    .exercise = {.task = "Predict the time in us for each of 16 kernels in one stream and in own "
                         "streams, and of the kernel behind the grid with the same and with a high "
                         "priority.",
                 .rows = {{{"way", "one stream"}, {"kernels", "16"}},
                          {{"way", "own streams"}, {"kernels", "16"}},
                          {{"way", "behind 4 waves, same priority"}},
                          {{"way", "behind 4 waves, high priority"}}}},
    .figure = {.look = Look::lines,
               .x = "kernels",
               .y = "time",
               .series = "way",
               .panel = "part",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<concurrency>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr std::uint64_t usual_length = 20'000;   // nanoseconds of a kernel
constexpr std::uint64_t time_to_start = 10'000;  // more than a launch and a start take
constexpr std::uint64_t resolution = 1'000;      // of the GPU's timer
constexpr int repetitions = 9;                   // of measurements by the host's clock

/// The figure in which the report draws the way.
const char* part_of(LaunchWay way) {
  if (is_graph(way)) return "graphs";
  if (has_resources(way)) return "local memory and textures";
  return uses_default_stream(way) || way == LaunchWay::callbacks ? "something between"
                                                                 : "plain launches";
}

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

/// A grid of several waves of blocks, and a kernel that is launched behind it.
struct GridAndKernel {
  const char* name;
  cudaStream_t grid, kernel;
  unsigned waits;  ///< waves that the kernel has to wait for
};

class Concurrency {
 public:
  Concurrency(Bench& bench, Gpu& gpu);

  void measure(LaunchWay way, unsigned count);
  /// Throws NotAvailable if this GPU or driver lacks the way.
  void measure_repeated(Decider by, unsigned count);
  void measure_behind(const GridAndKernel& each);
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
      rows_({{"part", ColumnType::text},
             {"way", ColumnType::text},
             {"kernels", ColumnType::integer},
             {"launch", ColumnType::real, "us"},
             {"start", ColumnType::real, "us"},
             {"at_once", ColumnType::integer, "kernels"}},
            {"time", ColumnType::real, "us"}) {
  // Loads the kernels. The driver may wait for the device to do so: behind a closed gate, until it
  // gives up.
  for (const LaunchWay way : {LaunchWay::legacy, LaunchWay::local, LaunchWay::textures}) {
    Kernels(gpu, way, 2, usual_length).launch();
  }
  if (has_launch_attributes(gpu.properties())) {
    Kernels(gpu, LaunchWay::dependent, 2, usual_length).launch();
  }
}

/// Checks that each kernel has run for its time, and in its order if it waits for the one before.
unsigned Concurrency::kernels_at_once(LaunchWay way, unsigned count) {
  const std::uint64_t length =
      is_parallel(way) ? std::max(usual_length, count * time_to_start) : usual_length;
  Kernels kernels(gpu_, way, count, length);
  kernels.forget_spans();
  gpu_.synchronize();
  if (uses_default_stream(way) || has_resources(way)) {
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
  bench_.verify(kernels.are_sums_right(), word_of(way));
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
  // A launch that waits for the kernel before it would wait for the gate.
  const bool waits = has_resources(way) && count > 1 && found.at_once == 1;
  const Timing timing = uses_default_stream(way) || waits ? gpu_.time_call(until_end)
                                                          : gpu_.time_after([] {}, behind_gate);
  found.time = timing.seconds.times(1e6 / count);
  found.launch = median_of([&] { return kernels.seconds_to_launch(); }) * 1e6 / count;
  found.start = median_of([&] { return kernels.seconds_to_start(); }) * 1e6;
  found.make = kernels.seconds_to_make() * 1e6;
  const unsigned rounds = is_parallel(way) ? (count + limit_ - 1) / limit_ : count;
  const double ideal = static_cast<double>(rounds * usual_length) / 1e3 / count;
  rows_.add({part_of(way), word_of(way), std::int64_t{count}, found.launch, found.start,
             std::int64_t{found.at_once}},
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
  if (way == LaunchWay::one_stream || way == LaunchWay::dependent) {
    return overlap + formatted(": {:.1f} us more than the kernel itself",
                               found.time.value - usual_length / 1e3);
  }
  const Found& one = found_.at({LaunchWay::one_stream, count});
  if (way == LaunchWay::callbacks) {
    return overlap + formatted(": a callback takes {:.1f} us",
                               (found.time.value - one.time.value) * count / (count - 1));
  }
  if (has_resources(way)) {
    const Found& without = found_.at({LaunchWay::own_streams, count});
    return overlap + formatted("; {:.2f} times the time of kernels without them",
                               found.time.value / without.time.value);
  }
  if (!is_graph(way)) return overlap;
  const LaunchWay without_graph = way == LaunchWay::chain             ? LaunchWay::one_stream
                                  : way == LaunchWay::dependent_chain ? LaunchWay::dependent
                                                                      : LaunchWay::own_streams;
  const Found& plain = found_.at({without_graph, count});
  const double saved = (plain.launch - found.launch) * count;  // us for all kernels
  if (saved <= 0) return overlap + "; no faster to launch than without a graph";
  return overlap + formatted(
                       "; launched {:.1f} times as fast as without a graph, which pays from "
                       "launch {:.0f} on",
                       plain.launch / found.launch, std::ceil(found.make / saved));
}

void Concurrency::measure_repeated(Decider by, unsigned count) {
  RepeatedKernel kernel(gpu_.stream(), by, usual_length, count);
  const char* const name = word_of(by);
  kernel.run();
  const std::vector<Span> spans = kernel.spans();
  for (unsigned i = 0; i < count; ++i) {
    bench_.verify(spans[i].begin > 0 && spans[i].end >= spans[i].begin + usual_length, name);
    bench_.verify(i == 0 || spans[i].begin + resolution >= spans[i - 1].end, name);
  }
  const Measured time = gpu_.time_call([&] { kernel.run(); }).seconds.times(1e6 / count);
  constexpr double ideal = usual_length / 1e3;
  rows_.add(
      {"loops", name, std::int64_t{count}, std::nan(""), std::nan(""), std::int64_t{1}}, time,
      ideal / time.value,
      formatted("one after the other: {:.1f} us more than the kernel itself", time.value - ideal));
}

void Concurrency::measure_behind(const GridAndKernel& each) {
  constexpr unsigned waves = 4, threads = 256;
  constexpr std::uint64_t length = 100'000;  // nanoseconds of a wave
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, run_for, threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const auto blocks =
      waves * static_cast<unsigned>(resident * gpu_.properties().multiProcessorCount);
  const DeviceArray<Span> of_grid(blocks), of_kernel(1);
  const BeginFlag grid_begun, kernel_begun;
  std::vector<double> starts, ends;
  const Timing timing = bench_.sample([&] {
    grid_begun.forget();
    run_for<<<blocks, threads, 0, each.grid>>>(length, of_grid.data(), grid_begun.data());
    check_launch("run_for");
    grid_begun.wait();
    run_for<<<1, warp, 0, each.kernel>>>(usual_length, of_kernel.data(), kernel_begun.data());
    check_launch("run_for");
    for (const cudaStream_t stream : {each.grid, each.kernel}) {
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
    const Span grid = hull(of_grid.read());
    const Span kernel = of_kernel.read()[0];
    bench_.verify(kernel.begin > grid.begin && kernel.end >= kernel.begin + usual_length,
                  each.name);
    starts.push_back(static_cast<double>(kernel.begin - grid.begin) / 1e3);
    ends.push_back(static_cast<double>(grid.end - grid.begin) / 1e3);
    return static_cast<double>(kernel.end - grid.begin) / 1e9;
  });
  const double start = median(std::move(starts));
  const Measured time = timing.seconds.times(1e6);
  const double ideal = static_cast<double>(each.waits * length + usual_length) / 1e3;
  rows_.add({"beside a grid", each.name, std::int64_t{1}, std::nan(""), start, std::int64_t{1}},
            time, ideal / time.value,
            formatted("begins after {:.1f} of {} waves; the grid takes {:.0f} us",
                      start * 1e3 / length, waves, median(std::move(ends))));
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

/// The ways that this GPU and its driver have.
std::vector<LaunchWay> launch_ways(Bench& bench, const Gpu& gpu) {
  std::vector<LaunchWay> ways = {LaunchWay::one_stream};
  const bool has_dependent = has_launch_attributes(gpu.properties());
  constexpr int since = 12040;  // captured as edges of a graph
  const bool has_edges = has_dependent && driver_version() >= since;
  if (has_dependent) ways.push_back(LaunchWay::dependent);
  ways.insert(ways.end(), {LaunchWay::own_streams, LaunchWay::chain});
  if (has_edges) ways.push_back(LaunchWay::dependent_chain);
  ways.insert(ways.end(), {LaunchWay::branches, LaunchWay::callbacks, LaunchWay::legacy,
                           LaunchWay::per_thread, LaunchWay::local, LaunchWay::textures});
  if (!has_dependent) {
    bench.note("Dependent launches are not measured: they need compute capability 9.0.");
  } else if (!has_edges) {
    bench.note("A graph of dependent launches is not measured: it needs a driver for CUDA 12.4.");
  }
  return ways;
}

void add_repeated(Bench& bench, Concurrency& measured, const std::vector<std::uint64_t>& counts) {
  for (const Decider by : {Decider::host, Decider::while_node, Decider::own_graph}) {
    try {
      for (const std::uint64_t count : counts) {
        if (count > 1) measured.measure_repeated(by, static_cast<unsigned>(count));
      }
    } catch (const NotAvailable& reason) {
      bench.note(formatted("\"{}\" is not available: {}.", std::string(word_of(by)),
                           std::string(reason.what())));
    }
  }
}

void add_behind_grid(Bench& bench, Gpu& gpu, Concurrency& measured) {
  constexpr unsigned waves = 4;
  const device::cuda::StreamHandle normal(device::Priority::normal),
      urgent(device::Priority::urgent);
  measured.measure_behind({"behind 4 waves, same priority", gpu.stream(), normal.get(), waves});
  measured.measure_behind({"behind 4 waves, high priority", gpu.stream(), urgent.get(), 1});
  try {
    const DividedGpu divided;
    measured.measure_behind({"beside 4 waves, own multiprocessors", divided.rest().stream(),
                             divided.part().stream(), 0});
    bench.note(formatted(
        "Green contexts: the kernel has {} multiprocessors of its own, and the grid has {}.",
        divided.part().multiprocessors(), divided.rest().multiprocessors()));
  } catch (const NotAvailable& reason) {
    bench.note(formatted("Multiprocessors are not divided: {}.", std::string(reason.what())));
  }
}

}  // namespace

Table concurrency(Bench& bench) {
  constexpr std::uint64_t max_between = 32;  // kernels with something between two of them
  Gpu gpu(bench);
  Concurrency measured(bench, gpu);
  const std::uint64_t most = bench.options().count("concurrency.most");
  const std::vector<std::uint64_t> counts = sizes_up_to(1, most, bench.is_quick() ? 16 : 4);
  for (const LaunchWay way : launch_ways(bench, gpu)) {
    const bool has_between = way == LaunchWay::callbacks || uses_default_stream(way);
    for (const std::uint64_t count : counts) {
      if (has_between && (count == 1 || count > max_between)) continue;
      measured.measure(way, static_cast<unsigned>(count));
    }
  }
  add_repeated(bench, measured, counts);
  add_behind_grid(bench, gpu, measured);
  return std::move(measured).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
