// The rate of device memory for the kernels of the STREAM benchmark, a plain read and a plain
// write, compared with the theoretical rate. A kernel that moves only the data it needs, in whole
// lines, comes close to it.
#include <cmath>
#include <limits>
#include <string>

#include "experiments/bench.hpp"
#include "experiments/count_wrong.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/ecc.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"bandwidth.size", OptionKind::size, "4GiB", "1MiB..", "Size of each array."},
    {"bandwidth.clock", OptionKind::number, "auto", "auto|1..100000",
     "The memory clock in MHz, for the theoretical rate; auto reads it from the GPU."},
    {"bandwidth.width", OptionKind::number, "auto", "auto|1..100000",
     "The width of the memory bus in bits; auto reads it from the GPU."},
};

Table bandwidth(Bench& bench);
Table theoretical_bandwidth(Bench& bench);

namespace {

/// The bytes that a kernel writes, and as many that it reads, move at the rate of a copy. The rest
/// is read at the rate of reading.
double expected_rate(const MeasuredRow& row) {
  const std::string kernel = row.text("kernel");
  if (kernel == "read") return row.ceiling("device_read");
  if (kernel == "write") return std::nan("");
  constexpr double copied = 2 * sizeof(float);
  const double traffic = row["traffic"];
  return traffic /
         (copied / row.ceiling("device_copy") + (traffic - copied) / row.ceiling("device_read"));
}

}  // namespace

extern const Experiment about_bandwidth = {
    .name = "bandwidth",
    .group = "memory",
    .summary = "Simple kernels reach most of the theoretical rate of device memory.",
    .explanation =
        {
            .question =
                "Which part of the theoretical rate of device memory do simple kernels reach?",
            .varies =
                "Six kernels use arrays that are much larger than any cache: read, write, copy, "
                "scale, add and triad. The rate counts the bytes that a kernel reads and writes "
                "(the effective bandwidth). Without a GPU, bandwidth.clock and bandwidth.width "
                "give the theoretical rate.",
            .expectation =
                "The remark compares the rate with the theoretical one: 2 x memory clock x bus "
                "width / 8. Expect 0.8 to 0.95 of that. Kernels that both read and write are "
                "slower than those that only read, because the bus must change its direction. Add "
                "and triad read two words for each that they write: expect 8 of their 12 bytes to "
                "move at the rate of a copy, and the other 4 at that of reading.",
            .pitfalls =
                "ECC costs rate on some GPUs, and a note states whether it is on. HBM has bits of "
                "its own for ECC, which then costs next to nothing. GDDR stores them among the "
                "data, which costs 6.25 % of the memory and about 20 % of the rate, so expect 0.65 "
                "to 0.75 there.",
        },
    .read_on = {{Guide::best_practices, "Bandwidth"},
                {Guide::best_practices, "Theoretical Bandwidth Calculation"},
                {Guide::best_practices, "Effective Bandwidth Calculation"}},
    .reference = "Tesla V100: theoretical 898 GB/s (877 MHz, 4096 bits).",
    .share = "of the rate of a copy in device memory; for `read`, of the rate of reading it",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s of the kernels read, copy and triad, from the "
                         "theoretical rate of the GPU.",
                 .rows = {{{"kernel", "read"}}, {{"kernel", "copy"}}, {{"kernel", "triad"}}}},
    .figure = {.look = Look::bars, .x = "kernel", .y = "rate"},
    .needs = {.ceilings = {"device_copy", "device_read"}},
    .run = with_cuda<bandwidth>(),
    .run_host = theoretical_bandwidth,
};

namespace {

/// The rate in GB/s of a memory that moves data twice per cycle, each time as wide as the bus, with
/// `clock` in MHz and a bus of `width` bits (CUDA C++ Best Practices Guide, section Theoretical
/// Bandwidth Calculation).
double theoretical_rate(double clock, double width) {
  constexpr double transfers_a_cycle = 2, bits_of_byte = 8;
  return transfers_a_cycle * clock * 1e6 * width / bits_of_byte / 1e9;
}

/// The same for bandwidth.clock and bandwidth.width. If they are auto: for the memory clock of this
/// rank's GPU and `own_width`. NaN if one of them is unknown.
double theoretical_rate(const Bench& bench, double own_width) {
  const auto given = [&](const char* key, double own) {
    return bench.options().is_auto(key) ? own : bench.options().number(key);
  };
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const int clock = bench.facts().memory_clock_max;
  return theoretical_rate(given("bandwidth.clock", clock > 0 ? clock : unknown),
                          given("bandwidth.width", own_width));
}

}  // namespace

Table theoretical_bandwidth(Bench& bench) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double rate = theoretical_rate(bench, none);
  if (std::isnan(rate)) {
    throw NotAvailable(
        "there is no GPU: the theoretical rate needs --bandwidth.clock and --bandwidth.width");
  }
  Measurements rows({{"kernel", ColumnType::text}}, {"rate", ColumnType::real, "GB/s"});
  rows.add({"theoretical"}, {rate, none, none}, none,
           "2 x clock x width / 8; nothing was measured");
  return std::move(rows).table();
}

#if SHARDSTREAM_HAS_CUDA
namespace {

/// The peak of the memory in GB/s; NaN if it is unknown. `with_ecc`: the part that remains with
/// ECC.
struct Peak {
  double theoretical, with_ecc;
};

/// A remark: the share of `rate`, in GB/s, in the theoretical rate.
std::string share_of_theoretical(double rate, const Peak& peak) {
  if (std::isnan(peak.theoretical)) {
    return "the theoretical rate is unknown: NVML does not report it";
  }
  const double share = rate / peak.theoretical;
  const char* const verdict = share > 1 ? ": a part of the data stays in the L2 cache"
                              : share < 0.75 * peak.with_ecc ? ": less than usual"
                              : share < 0.75                 ? ": usual with ECC on GDDR"
                                                             : "";
  return formatted("{:.2f} of the theoretical {:.0f} GB/s{}", share, peak.theoretical,
                   std::string(verdict));
}

constexpr unsigned threads = 256;
constexpr float factor = 0.4F;

/// A kernel's work per element of the result: floats that it reads and writes, and arithmetic.
struct Cost {
  int reads, writes, operations;
};

/// Each thread of these kernels handles one word of four floats. All threads together have enough
/// loads in flight.
__global__ void write_words(float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < words) to[i] = make_float4(factor, factor, factor, factor);
}

__global__ void copy_words(const float4* from, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < words) to[i] = from[i];
}

__global__ void scale_words(const float4* from, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const float4 x = from[i];
  to[i] = make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
}

__global__ void add_words(const float4* a, const float4* b, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const float4 x = a[i], y = b[i];
  to[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

__global__ void triad_words(const float4* a, const float4* b, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const float4 x = a[i], y = b[i];
  to[i] = make_float4(fmaf(factor, y.x, x.x), fmaf(factor, y.y, x.y), fmaf(factor, y.z, x.z),
                      fmaf(factor, y.w, x.w));
}

/// Adds up the words, so that the compiler cannot remove the reads. Each block writes one sum.
__global__ void read_words(const float4* from, std::uint64_t words, float* sums) {
  constexpr unsigned per_thread = 8;
  const std::uint64_t first = blockIdx.x * std::uint64_t{threads} * per_thread + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < per_thread; ++k) {
    const std::uint64_t i = first + k * threads;
    if (i < words) sum += from[i].x + from[i].y + from[i].z + from[i].w;
  }
  __shared__ float parts[threads];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

/// Expects p + q unit_number(i).
struct IsWrong {
  const float* to;
  float p, q;

  __device__ bool operator()(std::uint64_t i) const {
    return fabsf(to[i] - (p + q * unit_number(i))) > 1e-6F;
  }
};

/// Whether the sums of read_words() add up to the sum of the numbers, within six standard
/// deviations. The numbers have mean 1/2 and variance 1/12.
bool is_sum(const std::vector<float>& sums, std::uint64_t count) {
  double sum = 0;
  for (const float part : sums) sum += part;
  const auto n = static_cast<double>(count);
  return std::abs(sum - n / 2) < 6 * std::sqrt(n / 12);
}

/// Launches the kernels, checks their results and adds their rows. The arrays `a` and `b` hold the
/// same numbers.
class Kernels {
 public:
  Kernels(Bench& bench, Gpu& gpu, Measurements& rows)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        words_(bench.bytes("bandwidth.size", {.of_device = 0.25}) / sizeof(float4)),
        a_(4 * words_),
        b_(4 * words_),
        to_(4 * words_),
        sums_(blocks_for(words_, 8 * threads)),
        peak_{theoretical_rate(bench, gpu.properties().memoryBusWidth),
              rate_with_ecc(bench.facts().ecc, gpu.properties().memoryBusWidth)} {
    fill(a_, gpu.stream());
    fill(b_, gpu.stream());
  }

  void measure_read() {
    const auto launch = [&] {
      read_words<<<static_cast<unsigned>(sums_.size()), threads, 0, gpu_.stream()>>>(a(), words_,
                                                                                     sums_.data());
      check_launch("read_words");
    };
    measure("read", {1, 0, 1}, bench_.ceiling("device_read"), launch,
            [&] { return is_sum(sums_.read(), to_.size()); });
  }
  /// The kernel writes p + q times the numbers of the arrays.
  template <class... Parameters, class... Arguments>
  void measure_writer(const char* name, Cost cost, float p, float q, void (*kernel)(Parameters...),
                      Arguments... arguments) {
    const auto launch = [&] {
      kernel<<<blocks_for(words_, threads), threads, 0, gpu_.stream()>>>(arguments...,
                                                                         as_float4(to_), words_);
      check_launch(name);
    };
    measure(name, cost, bench_.ceiling("device_copy"), launch, [&] { return has(p, q); });
  }
  const float4* a() const { return as_float4(a_); }
  const float4* b() const { return as_float4(b_); }

 private:
  static float4* as_float4(const DeviceArray<float>& array) {
    return reinterpret_cast<float4*>(array.data());
  }
  /// Whether each element of the result is p + q times its number.
  bool has(float p, float q) const {
    return count_wrong(to_.size(), IsWrong{to_.data(), p, q}, gpu_.stream()) == 0;
  }
  void measure(const char* name, Cost cost, double ceiling, const std::function<void()>& launch,
               const std::function<bool()>& is_right) {
    to_.clear(gpu_.stream());
    launch();
    bench_.verify(is_right(), name);
    const int bytes = static_cast<int>(sizeof(float)) * (cost.reads + cost.writes);
    const auto all = static_cast<double>(to_.size());
    Work work = streaming(bytes * all);
    work.operations = cost.operations * all;
    work.arithmetic = "fp32";
    const Timing timing = gpu_.time(launch);
    const Measured rate = timing.rate(work.bytes);
    rows_.add({name, std::int64_t{bytes}}, rate, rate.value / ceiling,
              share_of_theoretical(rate.value, peak_), work, timing.seconds.value);
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::uint64_t words_;  ///< of an array
  DeviceArray<float> a_, b_, to_, sums_;
  Peak peak_;
};

}  // namespace

Table bandwidth(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"kernel", ColumnType::text}, {"traffic", ColumnType::integer, "B/element"}},
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  Kernels kernels(bench, gpu, rows);
  const float4 *a = kernels.a(), *b = kernels.b();
  kernels.measure_read();
  kernels.measure_writer("write", {0, 1, 0}, factor, 0, write_words);
  kernels.measure_writer("copy", {1, 1, 0}, 0, 1, copy_words, a);
  kernels.measure_writer("scale", {1, 1, 1}, 0, factor, scale_words, a);
  kernels.measure_writer("add", {2, 1, 1}, 0, 2, add_words, a, b);
  kernels.measure_writer("triad", {2, 1, 2}, 0, 1 + factor, triad_words, a, b);
  bench.note(words_on_ecc(bench.facts().ecc, gpu.properties().memoryBusWidth));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
