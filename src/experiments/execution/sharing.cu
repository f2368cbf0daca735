// Several processes on one GPU. Each process has a context of its own, and contexts take turns: at
// any moment, the kernels of one process run. With MPS, the kernels of all processes run in one
// context, and so at the same time.
#include <unistd.h>
#include <limits>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/context.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/execution/sharing_facts.hpp"
#include "experiments/execution/sharing_ways.hpp"
#include "experiments/execution/spans.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/helper_processes.hpp"

namespace shardstream::experiments::execution {

constexpr OptionRow options[] = {
    {"sharing.size", OptionKind::size, "1GiB", "1MiB..",
     "Size of the array that each process reads."},
    {"sharing.processes", OptionKind::count, "4", "1..16", "The largest number of processes."},
};
constexpr Axis axes[] = {
    {.name = "sharing",
     .unit = "",
     .values = "own contexts|MPS",
     .sentence = "The way in which processes share the GPU."},
    {.name = "processes",
     .unit = "",
     .values = "1..",
     .range = "1..16",
     .most = "sharing.processes",
     .sentence = "The number of processes at the same time."},
};

Table sharing(Bench& bench);
void sharing_helper(HelperEnd& end);

extern const Experiment about_sharing = {
    .name = "sharing",
    .group = "execution",
    .summary = "Processes that share a GPU take turns; with MPS, their kernels run together.",
    .explanation =
        {
            .question =
                "What do several processes on one GPU cost each other, with and without MPS?",
            .varies =
                "From 1 to sharing.processes processes use the GPU at the same time, while this "
                "one waits. They do three things, one after the other. First, each process reads "
                "its own array again and again: `rate` is the sum of the rates of all processes "
                "while all of them run, and `slowest` is the lowest rate of one process. Then each "
                "process launches an empty kernel and waits for it, again and again: `call` is the "
                "mean time of one call, by the host's clock. Last, one thread of each process "
                "reads the GPU's timer without a pause. When the GPU runs another process, this "
                "thread sees a gap: `turn` is the median time without a gap, and `at_once` is the "
                "largest number of processes that run at the same moment.",
            .expectation =
                "Without MPS, expect at_once to be 1, turns of some milliseconds, the sum of the "
                "rates close to the rate of one process, and calls that take longer with each "
                "process, since each waits for its turn. With MPS (Multi-Process Service), expect "
                "all processes at once, no gaps, and calls that take hardly longer; the sum of the "
                "rates stays the same, since the processes share one memory.",
            .pitfalls =
                "The experiment does not start MPS: if its control daemon runs, both cases are "
                "measured, and if the GPU is in exclusive mode, MPS alone. The processes are "
                "further copies of this program, without MPI.",
        },
    .read_on = {{Guide::mps}, {Guide::best_practices, "Multiple contexts"}},
    .share = "of the rate of a kernel that only reads",
    .options = options,
    .axes = axes,
    .expected =
        [](const MeasuredRow& row) {
          return row["processes"] == 1 ? row.ceiling("device_read")
                                       : row.measured({{"processes", "1"}}, {"sharing"});
        },
    .exercise = {.task = "Predict the rate in GB/s, the sum over all processes, of 1 and 4 "
                         "processes with own contexts, from your GPU's rate of reading memory.",
                 .rows = {{{"sharing", "own contexts"}, {"processes", "1"}},
                          {{"sharing", "own contexts"}, {"processes", "4"}}}},
    .figure = {.look = Look::lines, .x = "processes", .y = "rate", .series = "sharing"},
    .needs = {.ceilings = {"device_read"}},
    .turns = Turns::one_by_one,
    .run = with_cuda<sharing>(),
    .helper = with_cuda<sharing_helper>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256, blocks_of_multiprocessor = 8;

// The next part of this file runs in the helper processes.

__global__ void number_words(unsigned* words, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < count; i += step) {
    words[i] = static_cast<unsigned>(i);
  }
}

/// Adds all words to `*sum`, modulo 2^32. Extends `*span`, so that it covers the run of every
/// block.
__global__ void add_words(const uint4* words, std::uint64_t count, unsigned* sum, Span* span) {
  const std::uint64_t begin = global_nanoseconds();
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  unsigned own = 0;
#pragma unroll 4
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < count; i += step) {
    const uint4 four = words[i];
    own += four.x + four.y + four.z + four.w;
  }
  for (unsigned lanes = warpSize / 2; lanes > 0; lanes /= 2) {
    own += __shfl_down_sync(0xffffffffU, own, lanes);
  }
  if (threadIdx.x % warpSize == 0) atomicAdd(sum, own);
  __syncthreads();
  if (threadIdx.x != 0) return;
  using Word = unsigned long long;  // the type that atomic functions take
  atomicMin(reinterpret_cast<Word*>(&span->begin), static_cast<Word>(begin));
  atomicMax(reinterpret_cast<Word*>(&span->end), static_cast<Word>(global_nanoseconds()));
}

__global__ void do_nothing() {}

/// Reads the timer for `nanoseconds`. Stores up to `max` times without a gap, and their number. A
/// gap is longer than `gap` nanoseconds: meanwhile this thread did not run.
__global__ void watch_timer(std::uint64_t nanoseconds, std::uint64_t gap, Span* turns, unsigned max,
                            unsigned* count) {
  const std::uint64_t begin = global_nanoseconds();
  Span turn = {begin, begin};
  unsigned found = 0;
  while (turn.end - begin < nanoseconds && found < max) {
    const std::uint64_t now = global_nanoseconds();
    if (now - turn.end > gap) {
      turns[found++] = turn;
      turn.begin = now;
    }
    turn.end = now;
  }
  if (found < max) turns[found++] = turn;
  *count = found;
}

/// The time that a helper works for one command.
double seconds_of(std::uint64_t milliseconds) {
  return static_cast<double>(milliseconds) / 1e3;
}

/// The work of a helper process.
class Worker {
 public:
  explicit Worker(std::uint64_t bytes)
      : stream_(device::Priority::normal),
        words_(bytes / sizeof(unsigned)),
        sum_(1),
        count_(1),
        spans_(max_spans) {
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0),
          "cudaDeviceGetAttribute");
    for (std::size_t i = 0; i < in_flight; ++i) ended_.emplace_back(false);
    number_words<<<blocks(), threads, 0, stream_.get()>>>(words_.data(), words_.size());
    check_launch("number_words");
    synchronize();
  }

  /// Reads the array again and again. Returns whether each sum was right, and the time of each
  /// kernel.
  std::vector<std::uint64_t> read(std::uint64_t milliseconds) {
    const std::vector<Span> empty(max_spans, {~std::uint64_t{0}, 0});
    check(cudaMemcpy(spans_.data(), empty.data(), spans_.bytes(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    sum_.clear(stream_.get());
    synchronize();
    const auto begin = Clock::now();
    unsigned kernels = 0;
    for (; kernels < max_spans && seconds_since(begin) < seconds_of(milliseconds); ++kernels) {
      const cudaEvent_t ended = ended_[kernels % in_flight].get();
      check(cudaEventSynchronize(ended), "cudaEventSynchronize");
      add_words<<<blocks(), threads, 0, stream_.get()>>>(
          reinterpret_cast<const uint4*>(words_.data()), words_.size() / 4, sum_.data(),
          spans_.data() + kernels);
      check_launch("add_words");
      check(cudaEventRecord(ended, stream_.get()), "cudaEventRecord");
    }
    const std::uint64_t n = words_.size();
    const std::uint64_t sum = n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n;  // modulo 2^64
    const bool is_right = sum_.read()[0] == static_cast<unsigned>(kernels * sum);
    return with_spans(is_right ? 1 : 0, spans_.read(0, kernels));
  }

  /// Launches an empty kernel and waits for it, again and again. Returns the number of calls and
  /// the nanoseconds of all of them.
  std::vector<std::uint64_t> call(std::uint64_t milliseconds) {
    const auto begin = Clock::now();
    std::uint64_t calls = 0;
    double seconds = 0;
    for (; seconds < seconds_of(milliseconds); ++calls) {
      do_nothing<<<1, 1, 0, stream_.get()>>>();
      check_launch("do_nothing");
      synchronize();
      seconds = seconds_since(begin);
    }
    return {calls, static_cast<std::uint64_t>(seconds * 1e9)};
  }

  /// Returns 1 and the times at which a thread ran without a gap.
  std::vector<std::uint64_t> watch(std::uint64_t milliseconds) {
    constexpr std::uint64_t gap = 20'000;
    watch_timer<<<1, 1, 0, stream_.get()>>>(milliseconds * 1'000'000, gap, spans_.data(), max_spans,
                                            count_.data());
    check_launch("watch_timer");
    return with_spans(1, spans_.read(0, count_.read()[0]));
  }

 private:
  static constexpr unsigned max_spans = 4096;
  static constexpr std::size_t in_flight = 8;  // kernels that are enqueued and have not ended

  unsigned blocks() const {
    return static_cast<unsigned>(multiprocessors_) * blocks_of_multiprocessor;
  }
  void synchronize() const { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }
  static std::vector<std::uint64_t> with_spans(std::uint64_t first,
                                               const std::vector<Span>& spans) {
    std::vector<std::uint64_t> numbers = {first};
    for (const Span& span : spans) numbers.insert(numbers.end(), {span.begin, span.end});
    return numbers;
  }

  device::cuda::StreamHandle stream_;
  std::vector<device::cuda::EventHandle> ended_;
  DeviceArray<unsigned> words_, sum_, count_;
  DeviceArray<Span> spans_;
  int multiprocessors_ = 0;
};

/// The answer to "start BYTES" is mps_state(); other commands have a number of milliseconds.
std::string answer_of(std::optional<Worker>& worker, const std::string& command) {
  const std::size_t space = command.find(' ');
  const std::string verb = command.substr(0, space);
  const std::uint64_t number = numbers_of(command.substr(space + 1)).at(0);
  if (verb == "start") {
    worker.emplace(number);
    return line_of({mps_state()});
  }
  if (verb == "read") return line_of(worker->read(number));
  if (verb == "call") return line_of(worker->call(number));
  return line_of(worker->watch(number));
}

// The rest of this file runs in the experiment's own process.

/// Helpers on the GPU of this rank. Without MPS, their driver finds no control daemon.
HelperProgram helper_program(const Bench& bench, SharingWay way) {
  std::vector<std::string> changes = {"CUDA_VISIBLE_DEVICES=" + bench.device().info().uuid};
  if (way == SharingWay::without_mps) changes.emplace_back("CUDA_MPS_PIPE_DIRECTORY=/dev/null");
  return this_program(about_sharing.name, environ, changes);
}

/// The processes of one way to share the GPU.
class Processes {
 public:
  Processes(Bench& bench, SharingWay way, std::size_t count, std::uint64_t bytes)
      : bench_(bench),
        bytes_(static_cast<double>(bytes)),
        period_(bench.is_quick() ? 30 : 100),
        helpers_(helper_program(bench, way), count, bench.heartbeat()) {
    const std::uint64_t wanted = way == SharingWay::with_mps ? 1 : 0;
    for (const auto& answer : ask(count, "start", bytes)) {
      if (answer.at(0) == wanted || answer[0] == 2) continue;
      throw Error(
          formatted("the helper processes are {} clients of MPS: check "
                    "CUDA_MPS_PIPE_DIRECTORY and the log of MPS",
                    std::string(wanted == 1 ? "no" : "unexpected")));
    }
  }

  /// The sum of the rates of `count` processes that read, in GB/s. Adds the lowest rate of a
  /// process to `slowest`.
  double read(std::size_t count, std::vector<double>& slowest) {
    const std::vector<std::vector<Span>> kernels = spans("read", count);
    std::vector<Span> hulls;
    for (const auto& each : kernels) hulls.push_back(hull(each));
    const Span window = common(hulls);
    if (window.end <= window.begin) {
      throw Error(
          "the helper processes did not run at the same time: something else uses this machine, so "
          "run the experiment again when it is idle");
    }
    const auto nanoseconds = static_cast<double>(window.end - window.begin);
    std::vector<double> rates;  // bytes per nanosecond, which is GB/s
    for (const auto& each : kernels) {
      rates.push_back(count_inside(each, window) * bytes_ / nanoseconds);
    }
    slowest.push_back(*std::ranges::min_element(rates));
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  }

  /// Microseconds of a call that launches an empty kernel and waits for it.
  double call(std::size_t count) {
    constexpr int rounds = 5;
    std::vector<double> microseconds;
    for (int round = 0; round < rounds; ++round) {
      double sum = 0;
      for (const auto& answer : ask(count, "call", period_)) {
        sum += static_cast<double>(answer.at(1)) / static_cast<double>(answer[0]) / 1e3;
      }
      microseconds.push_back(sum / static_cast<double>(count));
    }
    return median(microseconds);
  }

  /// The times at which a thread of each process ran.
  std::vector<std::vector<Span>> watch(std::size_t count) { return spans("watch", count); }

 private:
  std::vector<std::vector<std::uint64_t>> ask(std::size_t count, const std::string& verb,
                                              std::uint64_t number) {
    constexpr double limit = 60;  // seconds
    std::vector<std::vector<std::uint64_t>> answers;
    for (const auto& line : helpers_.ask(count, verb + ' ' + line_of({number}), limit)) {
      answers.push_back(numbers_of(line));
    }
    return answers;
  }
  std::vector<std::vector<Span>> spans(const std::string& verb, std::size_t count) {
    std::vector<std::vector<Span>> of_processes;
    for (const auto& answer : ask(count, verb, period_)) {
      bench_.verify(answer.at(0) == 1, "the sum of a process");
      std::vector<Span> own;
      for (std::size_t i = 1; i + 1 < answer.size(); i += 2) {
        own.push_back({answer[i], answer[i + 1]});
      }
      if (own.empty()) {
        throw Error(
            "a helper process ran no kernel in its time: something else uses this GPU, so run the "
            "experiment again when it is idle");
      }
      of_processes.push_back(std::move(own));
    }
    return of_processes;
  }

  Bench& bench_;
  double bytes_;          ///< that each kernel reads
  std::uint64_t period_;  ///< milliseconds of each measurement
  Helpers helpers_;
};

/// How the processes ran at the same time.
struct TurnTaking {
  unsigned at_once;  ///< processes
  double length;     ///< median, in ns; NaN if there are no turns
};

TurnTaking turns_of(const std::vector<std::vector<Span>>& processes) {
  std::vector<Span> all;
  std::vector<double> lengths;
  for (const auto& own : processes) {
    all.insert(all.end(), own.begin(), own.end());
    if (const double length = median_length(own); !std::isnan(length)) lengths.push_back(length);
  }
  return {largest_overlap(all), lengths.empty() ? std::nan("") : median(lengths)};
}

/// `relative` is the rate over that of one process, NaN if that is not measured.
std::string remark(const TurnTaking& turns, std::size_t count, double relative) {
  if (count == 1) return "one process has the GPU for itself";
  const std::string rate = std::isnan(relative)
                               ? std::string("no single process to compare with")
                               : formatted("{:.2f} of the rate of one process", relative);
  if (turns.at_once == 1) return rate + ": the processes take turns";
  if (turns.at_once == count) return rate + ": the kernels of all processes run at the same time";
  return rate + formatted(": the kernels of {} processes run at the same time", turns.at_once);
}

}  // namespace

void sharing_helper(HelperEnd& end) {
  std::optional<Worker> worker;
  end.serve([&](const std::string& command) { return answer_of(worker, command); });
}

Table sharing(Bench& bench) {
  const std::size_t max_count = bench.options().count("sharing.processes");
  const double room = 0.4 / static_cast<double>(max_count);
  const std::uint64_t bytes =
      bench.bytes("sharing.size", {.of_device = room}) / sizeof(uint4) * sizeof(uint4);
  const SharingFacts facts = facts_of_this_machine();
  Measurements rows(bench.columns({{"call", ColumnType::real, "us"},
                                   {"at_once", ColumnType::integer, "processes"},
                                   {"turn", ColumnType::real, "ms"},
                                   {"slowest", ColumnType::real, "GB/s"}}),
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  const std::vector<SharingWay> possible = ways_to_share(facts);
  const Work work = {.operations = static_cast<double>(bytes / sizeof(unsigned)),
                     .bytes = static_cast<double>(bytes)};
  double alone = std::nan("");           // the rate of one process of that way
  std::unique_ptr<Processes> processes;  // of one way after the other
  std::optional<SharingWay> started;
  for (const Point& point : bench.points()) {
    const auto way = point["sharing"] == 0 ? SharingWay::without_mps : SharingWay::with_mps;
    const std::size_t count = point["processes"];
    if (std::ranges::find(possible, way) == possible.end()) continue;
    if (started != way) {
      processes.reset();
      processes = std::make_unique<Processes>(bench, way, max_count, bytes);
      started = way;
      alone = std::nan("");
    }
    std::vector<double> slowest;
    const Measured rate = bench.repeat([&] { return processes->read(count, slowest); });
    if (count == 1) alone = rate.value;
    const double call = processes->call(count);
    const TurnTaking turns = turns_of(processes->watch(count));
    rows.add(point.cells({call, std::int64_t{turns.at_once}, turns.length / 1e6, median(slowest)}),
             rate, rate.value / bench.ceiling("device_read"),
             remark(turns, count, rate.value / alone), work,
             std::numeric_limits<double>::quiet_NaN());
  }
  if (!facts.has_mps) {
    bench.note(
        "MPS is not in use here, so only processes with their own contexts were measured. The "
        "command nvidia-cuda-mps-control -d starts it.");
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
