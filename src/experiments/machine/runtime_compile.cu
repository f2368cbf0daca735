// Compilation at run time. A program can compile a kernel that it learns of only when it runs, such
// as a user's expression: CUDA C++ to PTX, which the driver compiles when it loads it, or to
// machine code (cubin), which the driver only loads. The time until the first result is the price;
// the kernel itself is as fast as one that was compiled before.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"
#include "experiments/driver_function.hpp"
#include "experiments/execution/sharing_facts.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/helper_processes.hpp"
#include "experiments/machine/cache_folder.hpp"
#include "experiments/machine/expression.hpp"
#include "experiments/machine/loaded_image.hpp"
#include "experiments/machine/nvrtc.hpp"
#include "experiments/machine/ptx_compiler.hpp"
#include "experiments/machine/runtime_compile.hpp"
#include "experiments/machine/values.hpp"

namespace shardstream::experiments::machine {

constexpr OptionRow options[] = {
    {"runtime-compile.map", OptionKind::text, default_expression, "",
     "The expression that is compiled, in CUDA C++. x is an element of an array, a float."},
    {"runtime-compile.size", OptionKind::size, "16MiB", "1MiB..",
     "Size of that array. The values of the expression are stored in a second one."},
    {"runtime-compile.processes", OptionKind::count, "2", "1..100",
     "Processes that are started for each row. With --quick the default is 1."},
};

Table runtime_compile(Bench& bench);
void runtime_compile_helper(HelperEnd& end);

namespace {

/// An empty cache saves nothing, a filled one the time to load PTX. A cubin takes as long as PTX,
/// whose machine code the driver compiles.
double expected_total(const MeasuredRow& row) {
  const std::string way = row.text("way"), cache = row.text("cache");
  const bool is_cubin = way == "NVRTC to cubin" || way == "NVRTC, PTX compiler";
  if (cache == "empty") return row.measured({{"cache", "off"}}, {"way"});
  if (cache == "filled" && !is_cubin) {
    const auto of_empty = [&](const char* column) {
      return row.of_row(column, {{"cache", "empty"}}, {"way"});
    };
    return of_empty("total") - of_empty("load") + row.of_row("load", {{"way", "precompiled"}});
  }
  return is_cubin && cache == "off" ? row.measured({{"way", "NVRTC to PTX"}}, {"cache"})
                                    : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

extern const Experiment about_runtime_compile = {
    .name = "runtime-compile",
    .group = "machine",
    .summary = "A user's expression becomes a kernel at run time, as fast as a precompiled one.",
    .explanation =
        {
            .question =
                "How long does it take to compile a kernel at run time, and is that kernel as fast "
                "as a precompiled one?",
            .varies =
                "NVRTC compiles a kernel that applies runtime-compile.map to each element of an "
                "array. It compiles to PTX, which the driver compiles to machine code when it "
                "loads it (JIT: just in time); to machine code (cubin); or to PTX that the PTX "
                "compiler library compiles. They are compared with a kernel that was compiled with "
                "this program, and with its PTX, which CUDA_FORCE_PTX_JIT=1 makes the driver "
                "compile: that happens on a GPU that is newer than the program. The JIT cache is "
                "off (CUDA_CACHE_DISABLE=1), empty, or filled by an earlier process; it lies in a "
                "private folder (CUDA_CACHE_PATH). `compile` loads NVRTC and compiles, `load` "
                "gives the result to the driver and finds the kernel, `launch` is the first launch "
                "until its end, `total` is their sum, and `kernel` the time of later launches. "
                "Without a GPU, only `compile` is measured.",
            .expectation =
                "Expect PTX to load slowly at first and fast from a filled cache, a cubin to load "
                "fast in any case but to take longer to compile, and `kernel` to be the same "
                "everywhere. In total, a cubin takes about as long as PTX without the cache, since "
                "the same steps run in another place. An empty cache costs as much as none, and a "
                "filled one makes PTX load as fast as precompiled code. So ship PTX for GPUs to "
                "come, keep the cache on a local disk, and make it larger (CUDA_CACHE_MAXSIZE) if "
                "programs fill it.",
            .pitfalls =
                "Drivers may ignore a filled cache with CUDA_FORCE_PTX_JIT. Since version 12.9, "
                "NVRTC itself uses the cache. So each number is from a new process, after its "
                "context has begun. Write float constants with an f: 0.5*x is computed in double "
                "precision. NVRTC may take longer than the driver to make machine code, and the "
                "same compilation takes different times in different processes. All kernels have "
                "-fmad=false. A wrong expression is rejected with and without a GPU.",
        },
    .read_on = {{Guide::best_practices, "Using PTX"},
                {Guide::best_practices, "Dynamic Code Generation"},
                {Guide::best_practices, "Compiler JIT Cache Management Tools"},
                {Guide::programming, "Just-in-Time Compilation"},
                {Guide::nvrtc}},
    .share = "of the rate of the precompiled kernel",
    .options = options,
    .expected = expected_total,
    .exercise = {.task = "Predict the total time in ms of NVRTC to PTX with the cache off, empty "
                         "and filled, and of NVRTC to cubin with the cache off, if NVRTC compiles "
                         "to PTX in 50 ms and the driver compiles that to machine code in 25 ms.",
                 .rows = {{{"way", "NVRTC to PTX"}, {"cache", "off"}},
                          {{"way", "NVRTC to PTX"}, {"cache", "empty"}},
                          {{"way", "NVRTC to PTX"}, {"cache", "filled"}},
                          {{"way", "NVRTC to cubin"}, {"cache", "off"}}}},
    .figure =
        {.look = Look::bars, .x = "way", .y = "total", .panel = "cache", .more_is_better = false},
    .turns = Turns::one_by_one,
    .run = with_cuda<runtime_compile>(),
    .run_host = compile_without_gpu,
    .helper = with_cuda<runtime_compile_helper>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr unsigned threads = 256;

/// The same as kernel_source(default_expression).
__global__ void map_default(const float* from, float* to, unsigned long long count) {
  const unsigned long long step = gridDim.x * static_cast<unsigned long long>(blockDim.x);
  for (unsigned long long i =
           blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
       i < count; i += step) {
    const float x = from[i];
    to[i] = sqrt(x * x + 1);
  }
}

enum class CompileWay : std::uint64_t { precompiled, embedded_ptx, ptx, cubin, ptx_compiler };
constexpr std::array way_names = {"precompiled", "PTX of the program", "NVRTC to PTX",
                                  "NVRTC to cubin", "NVRTC, PTX compiler"};
const char* word_of(CompileWay way) {
  return way_names.at(static_cast<std::size_t>(way));
}
bool uses_nvrtc(CompileWay way) {
  return way >= CompileWay::ptx;
}

/// The result of one process. Times are in nanoseconds.
struct Result {
  std::uint64_t
      status;  ///< of loading, a cudaError_t. If it is not 0, there are no times of the kernel
  std::uint64_t compile, load, launch, kernel;
  std::uint64_t hash;   ///< of the bits of all values
  std::uint64_t error;  ///< the largest one, in thousandths of an ulp, if the function is known
};

// -------------------------------------------------------------------- in the helper processes

std::uint64_t nanoseconds_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(seconds_since(begin) * 1e9);
}

/// The work of a helper process. It begins with a context, and with the data on the GPU.
class Worker {
 public:
  explicit Worker(std::uint64_t bytes)
      : x_(elements(bytes / sizeof(float))),
        stream_(device::Priority::normal),
        from_(std::span<const float>(x_)),
        to_(x_.size()) {
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&capability_, cudaDevAttrComputeCapabilityMajor, 0),
          "cudaDeviceGetAttribute");
    int minor = 0;
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0),
          "cudaDeviceGetAttribute");
    capability_ = 10 * capability_ + minor;
  }

  Result run(CompileWay way, const std::string& expression) {
    Result result{};
    LoadedImage image;
    auto begin = Clock::now();
    const std::string code = uses_nvrtc(way) ? compiled(way, expression) : std::string();
    result.compile = uses_nvrtc(way) ? nanoseconds_since(begin) : 0;
    begin = Clock::now();
    CUfunction function = nullptr;
    if (uses_nvrtc(way)) {
      result.status = static_cast<std::uint64_t>(image.load(code, kernel_name));
      function = image.function();
    } else {  // the first use of a kernel of this program loads it
      result.status = static_cast<std::uint64_t>(
          cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(map_default)));
    }
    if (result.status != 0) return result;
    result.load = nanoseconds_since(begin);
    begin = Clock::now();
    launch(function);
    synchronize();
    result.launch = nanoseconds_since(begin);
    result.kernel = nanoseconds_of_kernel(function);
    const std::vector<float> values = to_.read();
    result.hash = hash_of(values);
    if (const KnownFunction* const known = find_known(expression)) {
      const double largest = largest_error(x_, values, *known);
      constexpr double max = 1e15;  // an infinite error, too, is a number
      result.error = static_cast<std::uint64_t>(std::ceil(std::min(largest * 1e3, max)));
    }
    return result;
  }

 private:
  std::string compiled(CompileWay way, const std::string& expression) const {
    const Targets targets = targets_for(capabilities_of_nvrtc(), capability_);
    const bool is_cubin = way == CompileWay::cubin;
    const std::string code =
        compile(kernel_source(expression), is_cubin ? Code::cubin : Code::ptx,
                is_cubin ? targets.cubin.value() : targets.ptx, OwnCache::allowed);
    return way == CompileWay::ptx_compiler ? cubin_of(code, targets.cubin.value()) : code;
  }
  void launch(CUfunction function) {
    constexpr unsigned blocks_of_multiprocessor = 8;
    const float* from = from_.data();
    float* to = to_.data();
    unsigned long long count = to_.size();
    std::array<void*, 3> arguments = {static_cast<void*>(&from), &to, &count};
    const CUresult result =
        launch_(function, static_cast<unsigned>(multiprocessors_) * blocks_of_multiprocessor, 1, 1,
                threads, 1, 1, 0, stream_.get(), arguments.data(), nullptr);
    check(static_cast<cudaError_t>(result), "cuLaunchKernel");  // they have the same numbers
  }
  /// The median of several samples, each of which is the mean of several launches.
  std::uint64_t nanoseconds_of_kernel(CUfunction function) {
    constexpr int samples = 5, launches = 20;
    std::vector<double> times;
    for (int sample = 0; sample < samples; ++sample) {
      check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
      for (int i = 0; i < launches; ++i) launch(function);
      check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
      synchronize();
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
      times.push_back(double{milliseconds} * 1e6 / launches);
    }
    return static_cast<std::uint64_t>(median(times));
  }
  void synchronize() const { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

  std::vector<float> x_;
  device::cuda::StreamHandle stream_;
  device::cuda::EventHandle begin_{true}, end_{true};
  DeviceArray<float> from_, to_;
  PFN_cuLaunchKernel_v4000 launch_ =
      driver_function<PFN_cuLaunchKernel_v4000>("cuLaunchKernel", 4000);
  int multiprocessors_ = 0, capability_ = 0;
};

// ------------------------------------------------------------- in the experiment's own process

/// Runs processes, each with one way and one state of the cache.
class Processes {
 public:
  explicit Processes(Bench& bench, std::uint64_t bytes)
      : bench_(bench), bytes_(bytes), folder_(bench.heartbeat()) {}

  /// `cache`: a folder that holds the cache; empty: the cache is off.
  Result run(CompileWay way, const std::string& expression, const std::string& cache) {
    constexpr double limit = 120;  // seconds
    const std::filesystem::path path = folder_.path() / (cache.empty() ? "unused" : cache);
    std::filesystem::create_directory(path);
    const auto state = [](const char* variable, bool is_on) {
      return std::string(variable) + (is_on ? "=1" : "=0");
    };
    Helpers helper(this_program(about_runtime_compile.name, environ,
                                {"CUDA_VISIBLE_DEVICES=" + bench_.device().info().uuid,
                                 "CUDA_MODULE_LOADING=LAZY", "CUDA_DISABLE_PTX_JIT=0",
                                 "CUDA_CACHE_MAXSIZE=268435456", "CUDA_CACHE_PATH=" + path.string(),
                                 state("CUDA_CACHE_DISABLE", cache.empty()),
                                 state("CUDA_FORCE_PTX_JIT", way == CompileWay::embedded_ptx)}),
                   1, bench_.heartbeat());
    const std::string command =
        line_of({static_cast<std::uint64_t>(way), bytes_}) + ' ' + expression;
    const std::vector<std::uint64_t> answer = numbers_of(helper.ask(1, command, limit).at(0));
    bench_.verify(answer.size() == 7, "the answer of a process");
    return {answer[0], answer[1], answer[2], answer[3], answer[4], answer[5], answer[6]};
  }

 private:
  Bench& bench_;
  std::uint64_t bytes_;
  CacheFolder folder_;
};

/// The states of the cache that matter for a way. A filled one follows an empty one.
std::vector<std::string> cache_states(CompileWay way, bool is_quick) {
  if (way == CompileWay::precompiled || way == CompileWay::ptx_compiler) return {"off"};
  if (way != CompileWay::ptx && is_quick) return {"off"};
  return {"off", "empty", "filled"};
}

using Field = std::uint64_t Result::*;

/// Measures all ways and adds their rows.
class Survey {
 public:
  Survey(Bench& bench, std::string expression, std::uint64_t bytes)
      : bench_(bench), expression_(std::move(expression)), processes_(bench, bytes) {
    const Options& given = bench.options();
    constexpr std::string_view key = "runtime-compile.processes";
    rounds_ = bench.is_quick() && given.is_default(key) ? 1 : given.count(key);
    // The system now holds the compilers' files in its memory, as in later processes.
    (void)processes_.run(CompileWay::ptx, expression_, "");
  }

  void measure(CompileWay way) {
    const std::string expression(uses_nvrtc(way) ? expression_ : std::string(default_expression));
    std::map<std::string, std::vector<Result>> results;  // by state of the cache
    const std::vector<std::string> states = cache_states(way, bench_.is_quick());
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      const std::string cache = formatted("{}-{}", static_cast<std::uint64_t>(way), round);
      for (const std::string& state : states) {
        const Result result = processes_.run(way, expression, state == "off" ? "" : cache);
        if (result.status != 0) return note_failure(way, result.status);
        verify(way, expression, result);
        results[state].push_back(result);
      }
    }
    for (const std::string& state : states) add(way, expression, state, results.at(state));
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  void note_failure(CompileWay way, std::uint64_t status) {
    bench_.note(
        formatted("{}: the driver cannot load it ({}). A driver that is older than the "
                  "compiler cannot compile its PTX, and a program may have none for this "
                  "GPU.",
                  std::string(word_of(way)),
                  std::string(cudaGetErrorName(static_cast<cudaError_t>(status)))));
  }
  /// The bits are the same in all ways, and the errors of known functions are small.
  void verify(CompileWay way, const std::string& expression, const Result& result) {
    const std::uint64_t wanted = hashes_.emplace(key_of(expression), result.hash).first->second;
    bench_.verify(result.hash == wanted, formatted("the kernel {}", std::string(word_of(way))));
    const KnownFunction* const known = find_known(expression);
    bench_.verify(known == nullptr || static_cast<double>(result.error) / 1e3 <= known->max_error,
                  formatted("the error of the kernel {}", std::string(word_of(way))));
  }
  static std::string key_of(const std::string& expression) {
    return same_expression(expression, default_expression) ? std::string(default_expression)
                                                           : expression;
  }
  Measured median_of(const std::vector<Result>& results, const std::vector<Field>& fields) const {
    std::vector<double> sums;
    for (const Result& result : results) {
      double sum = 0;
      for (const Field field : fields) sum += static_cast<double>(result.*field);
      sums.push_back(sum);
    }
    const Summary summary = summarize(std::move(sums));
    return {summary.median, summary.ci_lo, summary.ci_hi};
  }
  void add(CompileWay way, const std::string& expression, const std::string& cache,
           const std::vector<Result>& results);
  std::string remark(CompileWay way, const std::string& expression, const std::string& cache,
                     const std::vector<Result>& results, double total);

  Bench& bench_;
  std::string expression_;
  std::uint64_t rounds_ = 1;
  Processes processes_;
  double precompiled_ = none;                    ///< the time of that kernel, in ns
  double without_cache_ = none;                  ///< the total of the same way, in ms
  std::map<std::string, std::uint64_t> hashes_;  ///< of the values, by expression
  Measurements rows_{{{"way", ColumnType::text},
                      {"cache", ColumnType::text},
                      {"compile", ColumnType::real, "ms"},
                      {"load", ColumnType::real, "ms"},
                      {"launch", ColumnType::real, "ms"},
                      {"kernel", ColumnType::real, "us"}},
                     {"total", ColumnType::real, "ms"}};
};

void Survey::add(CompileWay way, const std::string& expression, const std::string& cache,
                 const std::vector<Result>& results) {
  const auto milliseconds = [&](Field field) { return median_of(results, {field}).value / 1e6; };
  const double kernel = median_of(results, {&Result::kernel}).value;
  if (way == CompileWay::precompiled) precompiled_ = kernel;
  const Measured total =
      median_of(results, {&Result::compile, &Result::load, &Result::launch}).times(1e-6);
  if (cache == "off") without_cache_ = total.value;
  const bool is_same = same_expression(expression, default_expression);
  rows_.add({word_of(way), cache, milliseconds(&Result::compile), milliseconds(&Result::load),
             milliseconds(&Result::launch), kernel / 1e3},
            total, is_same ? precompiled_ / kernel : none,
            remark(way, expression, cache, results, total.value));
}

std::string Survey::remark(CompileWay way, const std::string& expression, const std::string& cache,
                           const std::vector<Result>& results, double total) {
  std::string text = "not verified: no reference for this expression, but equal bits in all ways";
  if (find_known(expression) != nullptr) {
    std::uint64_t error = 0;
    for (const Result& result : results) error = std::max(error, result.error);
    text = formatted("at most {:.2f} ulp from double precision", static_cast<double>(error) / 1e3);
    if (uses_nvrtc(way) && same_expression(expression, default_expression)) {
      text += ", and the bits of the precompiled kernel";
    }
  }
  if (cache != "filled") return text;
  const double saved = without_cache_ - total;
  if (saved < 0.05 * without_cache_) return text + "; the cache saves nothing";
  return text + formatted("; the cache saves {:.0f} % of the time without it",
                          100 * saved / without_cache_);
}

}  // namespace

/// A command is the number of the way, the bytes of the array, and the expression.
void runtime_compile_helper(HelperEnd& end) {
  end.serve([](const std::string& command) {
    const std::size_t first = command.find(' '), second = command.find(' ', first + 1);
    const std::vector<std::uint64_t> numbers = numbers_of(command.substr(0, second));
    Worker worker(numbers.at(1));
    const Result result =
        worker.run(static_cast<CompileWay>(numbers.at(0)), command.substr(second + 1));
    return line_of({result.status, result.compile, result.load, result.launch, result.kernel,
                    result.hash, result.error});
  });
}

Table runtime_compile(Bench& bench) {
  const std::uint64_t bytes =
      bench.bytes("runtime-compile.size", {.of_device = 0.2, .of_host = 0.1}) / 4 * 4;
  check_expression(bench.options().text("runtime-compile.map"));
  const int capability = bench.device().info().compute_capability;
  const Targets targets = targets_for(capabilities_of_nvrtc(), capability);
  const std::string expression = checked_expression(bench, targets.ptx);
  (void)execution::ways_to_share(execution::facts_of_this_machine());
  Survey survey(bench, expression, bytes);
  for (const CompileWay way :
       {CompileWay::precompiled, CompileWay::embedded_ptx, CompileWay::ptx}) {
    survey.measure(way);
  }
  if (!targets.cubin) {
    bench.note(
        "NVRTC does not know this GPU, so it can compile to PTX only: a newer CUDA toolkit "
        "compiles to machine code.");
    return std::move(survey).table();
  }
  survey.measure(CompileWay::cubin);
  if (has_ptx_compiler()) {
    survey.measure(CompileWay::ptx_compiler);
  } else {
    bench.note(
        "There is no row of the PTX compiler library: for that, build the program with "
        "-DSHARDSTREAM_PTX_COMPILER=ON, which adds 35 MB to it.");
  }
  return std::move(survey).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::machine
