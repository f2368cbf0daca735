// The seconds before the first useful kernel. A new process passes through stages, one after the
// other: Linux loads the program, MPI connects the ranks, the driver starts, creates a context and
// loads machine code (or compiles it from PTX), the first kernel runs, NCCL connects the GPUs. Each
// stage happens once in a process, so each sample is a new process.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "experiments/bench.hpp"
#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/helper_processes.hpp"
#include "experiments/machine/cache_folder.hpp"
#include "experiments/machine/collective_calls.hpp"
#include "experiments/machine/starts.hpp"
#include "ranks/session.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cuda.h>
#include <dlfcn.h>
#endif

namespace shardstream::experiments::machine {

constexpr OptionRow options[] = {
    {"startup.processes", OptionKind::count, "auto", "auto|1..1000",
     "Processes of each case, one after the other; auto is 3, with --quick 1. It replaces "
     "measure.repeat."},
};

Table startup(Bench& bench);
void startup_helper(HelperEnd& end);

namespace {

/// A setting saves the stage that it avoids, and the start as a run is the sum of its stages.
double expected_total(const MeasuredRow& row) {
  const std::string setting = row.text("setting");
  const auto of = [&](const char* column, const char* part, const char* other) {
    return row.of_row(column, {{"part", part}, {"setting", other}});
  };
  if (setting == "as a run") {
    return of("total", "GPU", "lazy loading") + of("mpi", "MPI", "OMPI_MCA_pml=ob1") +
           of("communicator", "NCCL", "as set");
  }
  if (setting == "lazy loading") {
    return of("total", "GPU", "eager loading") - of("modules", "GPU", "eager loading");
  }
  if (setting == "PTX, from the cache") return of("total", "GPU", "lazy loading");
  if (setting == "also OMPI_MCA_btl=self,vader") return of("total", "MPI", "OMPI_MCA_pml=ob1");
  return setting == "NCCL_IB_DISABLE=1" ? of("total", "NCCL", "as set") : std::nan("");
}

}  // namespace

extern const Experiment about_startup = {
    .name = "startup",
    .group = "machine",
    .summary = "The time before the first kernel, by stages, and how much each setting saves.",
    .explanation =
        {
            .question =
                "What takes the time before the first kernel of a program, and which settings "
                "shorten it?",
            .varies =
                "The experiment starts this program again and again, as further processes without "
                "a launcher, and each of them reports the times of its stages in ms. `process` is "
                "the time from the request to Linux until the program's own code runs; `mpi` is "
                "MPI_Init; `driver` loads the driver's library and calls cuInit; `context` creates "
                "the context on the GPU; `modules` connects the CUDA runtime to it, and with eager "
                "loading loads all machine code of the program; `kernel` allocates memory, "
                "launches one kernel and fetches its result, and with lazy loading loads the code "
                "of this kernel; `communicator` connects all GPUs that the process sees by NCCL "
                "(with several ranks, only the GPU of the rank, and all ranks start at once). "
                "`mpi` and `communicator` are steps of a run, too (/timing/startup); `driver`, "
                "`context` and `modules` together are its step `device`. A start has only the "
                "stages of its part, and `total` is their sum. Each row changes one thing against "
                "the row that its remark names.",
            .expectation =
                "Expect lazy loading (CUDA_MODULE_LOADING=LAZY, the default) to save most of "
                "`modules`. Expect a first start from PTX (CUDA_FORCE_PTX_JIT=1) to take longer by "
                "the compilation, which the JIT cache saves in later starts (CUDA_CACHE_PATH, "
                "CUDA_CACHE_MAXSIZE, CUDA_CACHE_DISABLE). Expect Open MPI to start sooner if it "
                "need not look for networks (the program itself requests ob1 if all ranks are on "
                "one host without a fast network), and fewer visible GPUs to shorten `driver`. On "
                "one host, a setting for networks that are not used saves nothing more. A whole "
                "start is the sum of the stages of its parts. The start is the serial part of "
                "Amdahl's law: it takes the same time on any number of GPUs.",
            .pitfalls =
                "The driver may ignore the cache because of CUDA_FORCE_PTX_JIT. `context` varies "
                "by tens of milliseconds, which may hide a part of the savings. If persistence "
                "mode is off, the first process after a pause waits seconds for the driver. This "
                "experiment cannot measure that, since its own process keeps the GPU open.",
        },
    .read_on = {{Guide::programming, "Initialization"},
                {Guide::programming, "Lazy Loading"},
                {Guide::programming, "Just-in-Time Compilation"},
                {Guide::programming, "CUDA Environment Variables"},
                {Guide::best_practices, "Strong Scaling and Amdahl's Law"},
                {Guide::best_practices, "Compiler JIT Cache Management Tools"},
                {Guide::project, "src/execution/README.md"}},
    .share = "of the total of the row that the remark names",
    .options = options,
    .expected = expected_total,
    .exercise = {.task = "Predict the total time in ms of a start with lazy loading, from PTX in "
                         "the cache, and as a run, if eager loading takes 265 ms, 110 ms of them "
                         "for `modules`, MPI 20 ms, and the communicator of NCCL 420 ms.",
                 .rows = {{{"part", "GPU"}, {"setting", "lazy loading"}},
                          {{"part", "GPU"}, {"setting", "PTX, from the cache"}},
                          {{"part", "all"}, {"setting", "as a run"}}}},
    .figure = {.look = Look::bars,
               .x = "setting",
               .y = "total",
               .panel = "part",
               .more_is_better = false,
               .is_rated = false},
    .run = with_cuda<startup>(),
    .run_host = startup,
    .helper = startup_helper,
};

namespace {

// The next part of this file runs in the helper processes.

constexpr unsigned values = 1U << 14;

#if SHARDSTREAM_HAS_CUDA
constexpr unsigned threads = 256;

constexpr int rounds = 256;

/// One step of xorshift (Marsaglia, Xorshift RNGs, 2003).
__host__ __device__ unsigned scrambled(unsigned x) {
  x ^= x << 13;
  x ^= x >> 17;
  return x ^ x << 5;
}

/// Scrambles the numbers 1 to `values` and adds them to `*sum`, modulo 2^32. The code is long, so
/// that compiling it takes a while, as with the kernels of a real program.
__global__ void add_scrambled(unsigned* sum) {
  unsigned x = blockIdx.x * threads + threadIdx.x + 1;
#pragma unroll
  for (int round = 0; round < rounds; ++round) x = scrambled(x);
  atomicAdd(sum, x);
}

unsigned expected_sum() {
  unsigned sum = 0;
  for (unsigned i = 1; i <= values; ++i) {
    unsigned x = i;
    for (int round = 0; round < rounds; ++round) x = scrambled(x);
    sum += x;
  }
  return sum;
}

/// The driver's library. The CUDA runtime would load it in its first call and do all stages at
/// once.
class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw Error("libcuda.so.1 cannot be loaded: check the driver");
    check(function<CUresult(unsigned)>("cuInit")(0), "cuInit");
  }
  void create_context(int gpu) const {
    CUcontext context = nullptr;  // the runtime uses the same one
    check(function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, gpu),
          "cuDevicePrimaryCtxRetain");
  }

 private:
  template <class Call>
  Call* function(const char* name) const {
    void* const found = dlsym(library_, name);
    if (found == nullptr) throw Error(formatted("the driver has no {}", std::string(name)));
    return reinterpret_cast<Call*>(found);
  }
  static void check(CUresult status, const char* call) {
    if (status == CUDA_SUCCESS) return;
    throw Error(formatted("{} failed (status {})", std::string(call), static_cast<int>(status)));
  }

  void* library_;
};

/// Makes the runtime use a GPU. With eager loading, it loads the code of all kernels here.
void use_runtime(int gpu) {
  check(cudaSetDevice(gpu), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree");
}

unsigned first_kernel() {
  const DeviceArray<unsigned> sum(1);
  check(cudaMemset(sum.data(), 0, sum.bytes()), "cudaMemset");
  add_scrambled<<<values / threads, threads>>>(sum.data());
  check_launch("add_scrambled");
  return sum.read()[0];
}

/// The start of one process.
class StartingProcess {
 public:
  /// `gpu` is the ordinal of the rank's GPU, `connected` are those that NCCL connects.
  StartingProcess(int gpu, std::vector<int> connected)
      : gpu_(gpu), connected_(std::move(connected)) {}

  /// Does what `stage` needs beyond the stages before it.
  void prepare(Stage stage) const {
    if (stage != Stage::communicator) return;
    for (const int gpu : connected_) use_runtime(gpu);
  }
  void pass(Stage stage) {
    switch (stage) {
      case Stage::process:
        return;
      case Stage::mpi:
        session_.emplace();
        return;
      case Stage::driver:
        driver_.emplace();
        return;
      case Stage::context:
        return driver_->create_context(gpu_);
      case Stage::modules:
        return use_runtime(gpu_);
      case Stage::kernel:
        sum_ = first_kernel();
        return;
      case Stage::communicator:
        return connect_plain_nccl(connected_);
    }
  }
  unsigned sum() const { return sum_; }

 private:
  int gpu_;
  std::vector<int> connected_;
  std::optional<ranks::Session> session_;
  std::optional<Driver> driver_;
  unsigned sum_ = 0;
};
#else
class StartingProcess {
 public:
  StartingProcess(int, const std::vector<int>&) {}

  void prepare(Stage) const {}
  void pass(Stage stage) {
    expect(stage <= Stage::mpi, "a build without CUDA starts no GPU");
    if (stage == Stage::mpi) session_.emplace();
  }
  static unsigned sum() { return 0; }

 private:
  std::optional<ranks::Session> session_;
};
#endif

/// Nanoseconds of the clock that all processes of a host share (CLOCK_MONOTONIC).
std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

/// The answer to "GPU GPUS STAGE ..." is the time at which this process began its work, the time
/// after and before each stage, and the sum of the kernel. GPUS is the number of GPUs that NCCL
/// connects: the first ones, or if it is 1, GPU.
std::string answer_of(std::uint64_t begin, const std::string& command) {
  const std::vector<std::string_view> words = split(command, ' ');
  const int gpu = std::stoi(std::string(words.at(0))), count = std::stoi(std::string(words.at(1)));
  std::vector<int> connected = {gpu};
  for (int other = 0; count > 1 && other < count; ++other) {
    if (other != gpu) connected.push_back(other);
  }
  StartingProcess process(gpu, std::move(connected));
  std::vector<std::uint64_t> numbers = {begin};
  for (std::size_t i = 2; i < words.size(); ++i) {
    const Stage stage = stage_named(words[i]);
    process.prepare(stage);
    numbers.push_back(now());
    process.pass(stage);
    numbers.push_back(now());
  }
  numbers.push_back(process.sum());
  return line_of(numbers);
}

}  // namespace

void startup_helper(HelperEnd& end) {
  const std::uint64_t begin = now();
  end.serve([&](const std::string& command) { return answer_of(begin, command); });
}

// The rest of this file runs in the experiment's own process.

namespace {

/// The times of several processes that start in the same way.
struct Started {
  std::vector<StageTimes> processes;

  Summary summary() const {
    std::vector<double> totals;
    for (const StageTimes& each : processes) totals.push_back(total(each));
    return summarize(totals);
  }
};

/// Starts processes one after the other.
class Starter {
 public:
  Starter(Bench& bench, const StartFacts& facts) : bench_(bench), facts_(facts) {
    if (facts.has_gpu) {
      gpu_ = current_gpu();
#if SHARDSTREAM_HAS_CUDA
      expected_ = expected_sum();
#endif
    }
  }

  Started start(const Start& how, std::size_t processes) const {
    std::optional<CacheFolder> cache;
    std::vector<std::string> changes = how.environment;
    if (how.cached) {
      cache.emplace(bench_.heartbeat());
      changes.push_back("CUDA_CACHE_PATH=" + cache->path().string());
      (void)start_one(how, changes);  // fills the cache
    }
    Started started;
    for (std::size_t i = 0; i < processes; ++i) {
      started.processes.push_back(start_one(how, changes));
    }
    return started;
  }

 private:
  StageTimes start_one(const Start& how, std::vector<std::string> changes) const {
    constexpr double limit = 120;  // seconds
    // NCCL must not write its log to standard output, which is the connection.
    changes.emplace_back("NCCL_DEBUG_FILE=/dev/null");
    if (how.own_gpu_only) {
      changes.push_back("CUDA_VISIBLE_DEVICES=" + bench_.device().info().uuid);
    }
    const std::vector<Stage> stages = stages_of(how, facts_);
    std::string command = formatted("{} {}", how.own_gpu_only ? 0 : gpu_,
                                    bench_.at_once() > 1 ? 1 : facts_.visible_gpus);
    for (const Stage stage : stages) command += ' ' + std::string(word_of(stage));
    const std::uint64_t begin = now();
    Helpers helper(this_program(about_startup.name, environ, changes), 1, bench_.heartbeat());
    std::vector<std::uint64_t> answer = numbers_of(helper.ask(1, command, limit).at(0));
    const bool has_kernel = std::ranges::find(stages, Stage::kernel) != stages.end();
    bench_.verify(!has_kernel || answer.back() == expected_, "the sum of the first kernel");
    answer.pop_back();
    return times_of(begin, stages, answer);
  }

  Bench& bench_;
  StartFacts facts_;
  int gpu_ = 0;
  std::uint64_t expected_ = 0;
};

void add_row(Measurements& rows, const Start& how, const Started& started,
             const std::optional<Summary>& other) {
  const StageTimes stages = medians(started.processes);
  const Summary own = started.summary();
  std::vector<Cell> varied = {std::string(how.part), std::string(how.setting)};
  for (const double stage : stages) varied.emplace_back(stage);
  rows.add(std::move(varied), {own.median, own.ci_lo, own.ci_hi},
           other ? own.median / other->median : std::nan(""),
           other ? words_on_saving(own, *other, how.compared_with) : words_on_longest(stages));
}

std::vector<std::string> environment_now() {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  return variables;
}

StartFacts facts_of(Bench& bench) {
  const bool has_gpu = bench.device().info().backend == "cuda";
  const std::string& mode = bench.facts().compute_mode;
  if (has_gpu && !permits_second_process(mode)) {
    throw NotAvailable(
        formatted("the GPU is in compute mode {}, so that no further process can use it: an "
                  "administrator permits that by nvidia-smi -c DEFAULT",
                  mode));
  }
  return {.has_open_mpi = ranks::Session::library_version().starts_with("Open MPI"),
          .has_gpu = has_gpu,
          .has_nccl = !comm::nccl_version().empty(),
          .visible_gpus = has_gpu ? visible_gpus() : 0};
}

void add_notes(Bench& bench, const StartFacts& facts, double milliseconds) {
  bench.note(words_on_serial_part(milliseconds));
  if (facts.has_gpu) bench.note(words_on_persistence(bench.facts().persistence_mode));
  if (!facts.has_gpu) bench.note("There is no GPU: its stages are not measured.");
}

}  // namespace

Table startup(Bench& bench) {
  const Options& given = bench.options();
  const std::size_t processes = !given.is_auto("startup.processes")
                                    ? given.count("startup.processes")
                                : bench.is_quick() ? 1
                                                   : 3;
  const StartFacts facts = facts_of(bench);
  const std::vector<Start> starts = possible_starts(facts, bench.is_quick());
  const Starter starter(bench, facts);
  std::vector<Column> varied = {{"part", ColumnType::text}, {"setting", ColumnType::text}};
  for (const auto word : stage_words) varied.push_back({std::string(word), ColumnType::real, "ms"});
  Measurements rows(std::move(varied), {"total", ColumnType::real, "ms"});
  std::map<std::pair<std::string_view, std::string_view>, Summary> totals;
  (void)starter.start(starts.front(), 1);  // so that the files of all libraries are in memory
  for (const Start& how : starts) {
    const std::string name(how.setting);
    if (changes_nothing(how, starts, environment_now())) {
      bench.note(formatted("{} is already set here, so it has no row.", name));
      continue;
    }
    Started started;
    try {
      started = starter.start(how, processes);
    } catch (const Unverified&) {
      throw;
    } catch (const Error& error) {
      if (how.compared_with.empty()) throw;
      bench.note(formatted("{} is not available: {}.", name, std::string(error.what())));
      continue;
    }
    const auto other = totals.find({how.part, how.compared_with});
    totals[{how.part, how.setting}] = started.summary();
    add_row(rows, how, started,
            other == totals.end() ? std::nullopt : std::optional(other->second));
  }
  add_notes(bench, facts, totals.at({starts[0].part, starts[0].setting}).median);
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::machine
