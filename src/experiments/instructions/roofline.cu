// The roofs of the GPU, and kernels below them. A kernel that makes I operations for each byte
// reaches at most the lower of two rates: the peak of its arithmetic, and I times the rate of the
// memory that serves it. So a kernel that repeats an operation on each element walks along the
// roof, from the slope, which memory sets, to the flat part, which arithmetic sets.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "report/limiter.hpp"
#include "runtime/runtime.hpp"
#if SHARDSTREAM_HAS_CUDA
#include "experiments/instructions/issue_rate.hpp"
#include "experiments/instructions/unit_rates.hpp"
#include "experiments/ladders/library_product.hpp"
#include "experiments/memory/read_again.cuh"
#include "experiments/memory/shared_reads.cuh"
#endif

namespace shardstream::experiments::instructions {

constexpr OptionRow options[] = {
    {"roofline.size", OptionKind::size, "1GiB", "64MiB..",
     "Size of the array that the kernels of rising intensity read."},
    {"roofline.n", OptionKind::count, "8192", "256..16384",
     "The edge of the largest matrices that cross the host link; a multiple of 128."},
};

Table roofline(Bench& bench);

namespace {

/// The rate of kernels with one warp on each multiprocessor. An element takes the latency, which
/// the kernel with one fma shows, and the time in which one of four schedulers starts its fma.
double expected_rate_of_one_warp(const MeasuredRow& row, double peak) {
  constexpr auto smallest = "1 fma for each element, one warp on each multiprocessor";
  constexpr double schedulers = 4;
  const auto of_smallest = [&](const char* column) {
    return row.of_row(column, {{"name", smallest}});
  };
  const double time_of_byte = of_smallest("intensity") / of_smallest("rate");
  const double more = row["intensity"] - of_smallest("intensity");  // operations
  return row["intensity"] / (time_of_byte + more * schedulers / peak);
}

/// A kernel reaches the lower one of its two roofs. A transfer uploads two thirds of the bytes,
/// then computes, and then downloads one third.
double expected_rate(const MeasuredRow& row) {
  const std::string part = row.text("part"), name = row.text("name");
  const double intensity = row["intensity"];
  const double peak = row.measured({{"part", report::arithmetic_roof}, {"name", "fp32"}});
  if (part == report::transfer) {
    const double time_of_byte =
        (2 / row.ceiling("link_up") + 1 / row.ceiling("link_down")) / 3 + intensity / peak;
    return intensity / time_of_byte;
  }
  if (part != report::device_kernel) return std::numeric_limits<double>::quiet_NaN();
  return name.ends_with("one warp on each multiprocessor")
             ? expected_rate_of_one_warp(row, peak)
             : std::min(peak, intensity * row.ceiling("device_read"));
}

}  // namespace

extern const Experiment about_roofline = {
    .name = "roofline",
    .group = "instructions",
    .summary = "A kernel is bound by data, by instructions, by both, or by latency.",
    .explanation =
        {
            .question = "Is a kernel limited by memory, by arithmetic, or by neither?",
            .varies =
                "The intensity of a kernel is its number of operations for each byte that its "
                "threads load and store. `memory roof` has the rates of L1 and of L2, from which "
                "each multiprocessor reads a slice that fits; of device memory; and as `link roof` "
                "of the host link. `shared memory roof` is the rate of reads without conflicts. "
                "`arithmetic roof` has the units of `precision`: CUDA cores, and tensor cores by "
                "mma.sync and as products of cuBLASLt. `issue roof` is the number of instructions "
                "that all schedulers together can start, in 10^9 for each second. `kernel` walks "
                "along the roofs: 1 to 256 dependent fma for each float of an array in device "
                "memory, first on full multiprocessors and then with a single warp on each. "
                "`transfer` moves matrices over the link: their sum has one operation for each "
                "element, their product n, so that only a large product is worth its transfers.",
            .expectation =
                "The rate is at most the lower of two roofs: the peak of the arithmetic, and the "
                "intensity times the rate of the memory. An element has 4 bytes, and its s fma and "
                "an addition are 2 s + 1 operations. A kernel is bound by a roof if it reaches 60 "
                "% of it: by memory, by shared memory, by its arithmetic, or by the issue of "
                "instructions, if it has too many for other purposes. It is bound by data and "
                "instructions if it reaches one of the first two and one of the last two; so is a "
                "transfer if its two shares add up to 80 %. Otherwise it is latency-bound: too few "
                "warps, or too little independent work. Expect the kernels on full multiprocessors "
                "to be memory-bound up to the intensity at which the two roofs meet, compute-bound "
                "above it and both near it; and a single warp to be latency-bound at every "
                "intensity. A warp takes the time of its latency, and that of its fma on one of "
                "four schedulers. `report` places the kernels of all experiments of the same file "
                "below these roofs, names the limiter of each, and adds runs of the same GPU: "
                "shardstream report bench.h5 run.h5.",
            .pitfalls =
                "Newer GPUs need other instructions than mma.sync for the peak of tensor cores, so "
                "products of cuBLASLt are further rows; the highest row of a name counts. A row of "
                "instructions with three registers can stay below the peak, since they are read "
                "from two banks. A transfer is uploaded, computed and downloaded one after the "
                "other, and therefore stays below the roof, which assumes that all overlap. So "
                "expect its time to be the sum of two uploads, the operations and one download.",
        },
    .read_on = {{Guide::programming, "Overall Performance Optimization Strategies"},
                {Guide::best_practices, "What Runs on a CUDA-Enabled Device?"},
                {Guide::roofline}},
    .reference = "Tesla V100: a memory-bound kernel of the text reaches 343 of 900 GB/s.",
    .share = "of the roof at this intensity",
    .options = options,
    .expected = expected_rate,
    .exercise =
        {.task =
             "Predict the rate in Gop/s of kernels with 1, 16 and 256 fma for each element on full "
             "multiprocessors, from the rate of reading memory and the peak of fp32.",
         .rows = {{{"name", "1 fma for each element"}},
                  {{"name", "16 fma for each element"}},
                  {{"name", "256 fma for each element"}}}},
    .figure = {.look = Look::roofline,
               .x = "intensity",
               .y = "rate",
               .series = "part",
               .log_x = true,
               .log_y = true},
    .needs = {.ceilings = {"device_read", "link_up", "link_down"}},
    .run = with_cuda<roofline>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;

// ------------------------------------------------------------- kernels of rising intensity

/// The numbers of the array: 0 ... 15, repeatedly. A warp reads all of them equally often.
constexpr unsigned numbers = 16;

__global__ void fill_numbers(float4* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= count) return;
  const auto first = static_cast<float>(i * 4 % numbers);
  words[i] = make_float4(first, first + 1, first + 2, first + 3);
}

/// Adds up the elements after `Steps` fused multiply-adds each: x + Steps, since a = b = 1, which
/// the compiler does not know. A thread has two loads of 16 bytes in flight, and eight elements
/// whose steps are independent. `count` is a multiple of two words for each thread. Each warp
/// stores its sum.
template <unsigned Steps>
__global__ void __launch_bounds__(threads)
    walk(const float4* words, std::uint64_t count, float a, float b, unsigned* sums) {
  const std::uint64_t all = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (std::uint64_t i = thread; i < count; i += 2 * all) {
    const float4 near = words[i], far = words[i + all];
    float x[8] = {near.x, near.y, near.z, near.w, far.x, far.y, far.z, far.w};
#pragma unroll 16
    for (unsigned step = 0; step < Steps; ++step) {
#pragma unroll
      for (float& element : x) element = fmaf(element, a, b);
    }
#pragma unroll
    for (const float element : x) sum += element;
  }
  auto total = static_cast<unsigned>(sum);
#pragma unroll
  for (unsigned lanes = warp / 2; lanes > 0; lanes /= 2) {
    total += __shfl_down_sync(0xffffffff, total, lanes);
  }
  if (threadIdx.x % warp == 0) sums[thread / warp] = total;
}

using Walk = void (*)(const float4*, std::uint64_t, float, float, unsigned*);
constexpr std::pair<unsigned, Walk> walks[] = {{1, walk<1>},   {2, walk<2>},     {4, walk<4>},
                                               {8, walk<8>},   {16, walk<16>},   {32, walk<32>},
                                               {64, walk<64>}, {128, walk<128>}, {256, walk<256>}};
constexpr unsigned max_steps = 256;

// --------------------------------------------------------------------------------- matrix sums

__global__ void add_matrices(const float* a, const float* b, float* c, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}

// -------------------------------------------------------------------------------- the experiment

constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// Measures roofs and kernels, and adds their rows. Not thread-safe.
class Rooflines {
 public:
  Rooflines(Bench& bench, Gpu& gpu) : bench_(bench), gpu_(gpu) {}

  void add_memory_roofs();
  void add_arithmetic_roofs();
  void add_walks();
  void add_transfers();
  Table table() && { return std::move(rows_).table(); }

 private:
  /// A kernel of a row. `memory` in GB/s and `peak` in Gop/s are its roofs.
  struct Kernel {
    std::string_view part;
    std::string name;
    Work work;
    double memory, peak;
  };

  void add_read(const char* name, memory::RepeatedReads& reads, std::uint64_t slice,
                memory::Through caches);
  void add_ceiling(std::string_view part, const char* name, const char* ceiling);
  template <class T>
  void add_library_of(gemm::Precision precision);
  void add_walk(unsigned steps, Walk kernel, const DeviceArray<float4>& words, unsigned blocks,
                unsigned of_block);
  void add_transfers_of(unsigned n);
  void add_roof(std::string_view part, std::string_view name, const Measured& rate,
                const Measured& traffic, const Work& work, double seconds, std::string remark);
  void add_kernel(const Kernel& kernel, const Timing& timing);
  unsigned largest_edge();

  Bench& bench_;
  Gpu& gpu_;
  std::map<std::string_view, double> peaks_;  ///< Gop/s by arithmetic roof
  Measurements rows_{{{"part", ColumnType::text},
                      {"name", ColumnType::text},
                      {"intensity", ColumnType::real, "op/B"},
                      {"traffic", ColumnType::real, "GB/s"}},
                     {"rate", ColumnType::real, "Gop/s"},
                     Rows::of_kernels};
};

/// The roof is `traffic` of a memory roof, `rate` of an arithmetic one.
void Rooflines::add_roof(std::string_view part, std::string_view name, const Measured& rate,
                         const Measured& traffic, const Work& work, double seconds,
                         std::string remark) {
  rows_.add({std::string(part), std::string(name), work.operations / work.bytes, traffic.value},
            rate, none, std::move(remark), work, seconds);
}

/// An operation is the addition of a word of four bytes.
void Rooflines::add_read(const char* name, memory::RepeatedReads& reads, std::uint64_t slice,
                         memory::Through caches) {
  const auto [timing, all] = reads.measure(slice, caches);
  const Work work{.operations = all / sizeof(unsigned), .bytes = all, .shared = 0};
  add_roof(
      report::memory_roof, name, timing.rate(work.operations), timing.rate(all), work,
      timing.seconds.value,
      formatted("slices of {} bytes, read again and again, one by each multiprocessor", slice));
}

void Rooflines::add_ceiling(std::string_view part, const char* name, const char* ceiling) {
  const double rate = bench_.ceiling(ceiling);
  add_roof(part, name, {0, none, none}, {rate, none, none}, {0, 1e9}, 1 / rate,
           formatted("the ceiling {} of this run", std::string(ceiling)));
}

void Rooflines::add_memory_roofs() {
  const auto multiprocessors = static_cast<std::uint64_t>(gpu_.properties().multiProcessorCount);
  const auto l2 = static_cast<std::uint64_t>(gpu_.properties().l2CacheSize);
  // About half of each cache.
  const auto steps = [](std::uint64_t bytes) {
    return std::max<std::uint64_t>(1, bytes / 2 / memory::step_bytes) * memory::step_bytes;
  };
  const std::uint64_t in_l1 = steps(gpu_.properties().sharedMemPerMultiprocessor);
  const std::uint64_t in_l2 = steps(l2 / multiprocessors);
  memory::RepeatedReads reads(bench_, gpu_, std::max(in_l1, in_l2));
  add_read("L1", reads, in_l1, memory::Through::l1);
  add_read("L2", reads, in_l2, memory::Through::l2);
  add_ceiling(report::memory_roof, "device memory", "device_read");
  add_ceiling(report::link_roof, "host link, up", "link_up");
  add_ceiling(report::link_roof, "host link, down", "link_down");
  const auto [timing, work] = memory::measure_shared_reads<uint4>(bench_, gpu_);
  add_roof(report::shared_roof, "shared memory", timing.rate(work.operations),
           timing.rate(work.shared), work, timing.seconds.value,
           "reads of 16 bytes without conflicts; traffic of shared memory");
}

void Rooflines::add_arithmetic_roofs() {
  for (const Unit& unit : all_units()) {
    const std::string_view roof = unit.roof;
    // Not fp16 with sums of fp16, nor fp8 where mma.sync converts it to fp16.
    if (!has(gpu_, unit) || converts(gpu_, unit) || roof.find(',') != roof.npos) continue;
    const UnitRate found = rate_of(bench_, gpu_, unit);
    double& peak = peaks_[roof];
    peak = std::max(peak, found.rate.value);
    std::string remark = share_of_theoretical_peak(gpu_, roof, found.rate.value);
    if (*unit.operands != '\0') remark = std::string(unit.operands) + "; " + remark;
    add_roof(report::arithmetic_roof, roof, found.rate,
             {found.work.bytes / found.seconds / 1e9, none, none}, found.work, found.seconds,
             "in registers" + (remark.empty() ? "" : "; " + remark));
  }
  const IssueRate issue = measure_issue_rate(bench_, gpu_);
  add_roof(
      report::issue_roof, "instructions of warps", issue.timing.rate(issue.work.instructions),
      {issue.work.bytes / issue.timing.seconds.value / 1e9, none, none}, issue.work,
      issue.timing.seconds.value,
      formatted("{:.2f} in a clock of a multiprocessor at the highest clock", issue.in_a_clock));
  if (gpu_.properties().major < 8) return;
  add_library_of<float>(gemm::Precision::tf32);
  add_library_of<ladders::bf16>(gemm::Precision::bf16);
}

/// The product of cuBLASLt as a roof.
template <class T>
void Rooflines::add_library_of(gemm::Precision precision) {
  const unsigned n = bench_.memory() > (std::uint64_t{2} << 30) ? 8192 : 2048;
  const std::uint64_t count = std::uint64_t{n} * n;
  const DeviceArray<T> a(count), b(count);
  const DeviceArray<float> c(count);
  ladders::fill_matrix(a, ladders::first_of_a, gpu_.stream());
  ladders::fill_matrix(b, ladders::first_of_b, gpu_.stream());
  const ladders::Product<T> p{a.data(), b.data(), c.data(), n, n, n};
  const ladders::ProductCheck check(p, ladders::BGiven::plainly, gpu_.stream());
  const ladders::LibraryProduct library(precision, p, ladders::BGiven::plainly, gpu_.stream());
  const auto enqueue = [&] { library.enqueue(p, gpu_.stream()); };
  const std::string_view roof = report::arithmetic_of(gemm::word_of(precision));
  c.clear(gpu_.stream());
  enqueue();
  gpu_.synchronize();
  bench_.verify(check.is_right(c), formatted("the product of cuBLASLt, {}", std::string(roof)));
  const Timing timing = gpu_.time(enqueue);
  const Work work{ladders::operations_of(p), ladders::useful_bytes_of(p), roof};
  const Measured rate = timing.rate(work.operations);
  peaks_[roof] = std::max(peaks_[roof], rate.value);
  add_roof(report::arithmetic_roof, roof, rate, timing.rate(work.bytes), work, timing.seconds.value,
           formatted("cuBLASLt's product of {0} x {0} matrices; {1}", n,
                     share_of_theoretical_peak(gpu_, roof, rate.value)));
}

void Rooflines::add_kernel(const Kernel& kernel, const Timing& timing) {
  const Work& work = kernel.work;
  const Measured rate = timing.rate(work.operations), traffic = timing.rate(work.bytes);
  const double by_memory = traffic.value / kernel.memory, by_peak = rate.value / kernel.peak;
  const report::Limiter limiter = kernel.part == report::transfer
                                      ? report::limiter_in_turn(by_memory, by_peak)
                                      : report::limiter_of({by_memory, 0, by_peak, by_peak});
  // The roof is the lower one of two rates, and the share of it is the larger one of two shares.
  rows_.add({std::string(kernel.part), kernel.name, work.operations / work.bytes, traffic.value},
            rate, std::max(by_memory, by_peak),
            formatted("{}: {:.2f} of the memory, {:.2f} of the arithmetic",
                      std::string(report::word_of(limiter)), by_memory, by_peak),
            work, timing.seconds.value);
}

void Rooflines::add_walks() {
  const std::uint64_t size = bench_.bytes("roofline.size");
  const auto cache = static_cast<std::uint64_t>(gpu_.properties().l2CacheSize);
  if (size < 4 * cache) {
    throw UsageError(
        formatted("roofline.size: a part of {} may stay in the L2 cache: choose at least {}",
                  format_size(size), format_size(4 * cache)));
  }
  const DeviceArray<float4> words(size / sizeof(float4));
  fill_numbers<<<blocks_for(words.size(), threads), threads, 0, gpu_.stream()>>>(words.data(),
                                                                                 words.size());
  check_launch("fill_numbers");
  const auto multiprocessors = static_cast<unsigned>(gpu_.properties().multiProcessorCount);
  for (const unsigned of_block : {threads, warp}) {
    for (const auto& [steps, kernel] : walks) {
      if (bench_.is_quick() && (steps == 2 || steps == 128)) continue;
      if (of_block == warp && steps != 1 && steps != 16 && steps != 256) continue;
      const unsigned blocks =
          of_block == warp ? multiprocessors
                           : resident_blocks(gpu_, reinterpret_cast<const void*>(kernel), threads);
      add_walk(steps, kernel, words, blocks, of_block);
    }
  }
}

void Rooflines::add_walk(unsigned steps, Walk kernel, const DeviceArray<float4>& words,
                         unsigned blocks, unsigned of_block) {
  const bool is_full = of_block == threads;
  const std::uint64_t round = 2ULL * blocks * of_block;  // words
  // A single warp is slow, so that a part of the data is enough. The sum of a thread is exact below
  // 2^24, in which at most `exact` rounds of eight elements end.
  const std::uint64_t exact = (std::uint64_t{1} << 24) / (8 * (numbers + max_steps));
  const std::uint64_t max = is_full ? words.size() : words.size() / 8;
  const std::uint64_t rounds = std::clamp<std::uint64_t>(max / round, 1, exact);
  const DeviceArray<unsigned> sums(blocks * of_block / warp);
  const auto launch = [&] {
    kernel<<<blocks, of_block, 0, gpu_.stream()>>>(words.data(), rounds * round, 1, 1, sums.data());
    check_launch("walk");
  };
  sums.clear(gpu_.stream());
  launch();
  // In each round a warp adds 256 elements, which are the numbers 0 ... 15, 16 times each.
  const unsigned of_round = 8 * warp * steps + 8 * warp / numbers * (numbers * (numbers - 1) / 2);
  const auto expected = static_cast<unsigned>(rounds * of_round);
  const std::string name =
      formatted("{} fma for each element{}", steps,
                std::string(is_full ? "" : ", one warp on each multiprocessor"));
  const std::vector<unsigned> found = sums.read();
  bench_.verify(std::ranges::all_of(found, [&](unsigned sum) { return sum == expected; }), name);
  const double elements = 4.0 * static_cast<double>(rounds * round);
  Work work = streaming(sizeof(float) * elements);
  work.operations = elements * (2.0 * steps + 1);
  work.arithmetic = "fp32";
  work.instructions = elements * (steps + 1.25) / warp;  // a load has four elements
  add_kernel({report::device_kernel, name, work, bench_.ceiling("device_read"), peaks_["fp32"]},
             gpu_.time(launch));
}

/// The sum and the product of matrices that are uploaded, and whose result is downloaded.
void Rooflines::add_transfers_of(unsigned n) {
  const std::uint64_t count = std::uint64_t{n} * n;
  const cudaStream_t stream = gpu_.stream();
  const DeviceArray<float> a(count), b(count), c(count);
  const PinnedArray<float> host_a(count), host_b(count), host_c(count);
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, count * sizeof(float), kind, stream), "cudaMemcpyAsync");
  };
  ladders::fill_matrix(a, ladders::first_of_a, stream);
  ladders::fill_matrix(b, ladders::first_of_b, stream);
  copy(host_a.data(), a.data(), cudaMemcpyDeviceToHost);
  copy(host_b.data(), b.data(), cudaMemcpyDeviceToHost);
  const ladders::Product<float> p{a.data(), b.data(), c.data(), n, n, n};
  const ladders::ProductCheck check_of_product(p, ladders::BGiven::plainly, stream);
  const ladders::LibraryProduct library(gemm::Precision::fp32, p, ladders::BGiven::plainly, stream);
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(count);  // over the link
  const auto add = [&](const char* what, double operations, const std::function<void()>& compute,
                       const std::function<bool()>& is_right) {
    const std::string name = formatted("{0} of {1} x {1} matrices", std::string(what), n);
    const auto call = [&] {
      copy(a.data(), host_a.data(), cudaMemcpyHostToDevice);
      copy(b.data(), host_b.data(), cudaMemcpyHostToDevice);
      compute();
      copy(host_c.data(), c.data(), cudaMemcpyDeviceToHost);
    };
    for (const DeviceArray<float>* each : {&a, &b, &c}) each->clear(stream);
    call();
    gpu_.synchronize();
    bench_.verify(is_right(), name);
    add_kernel({report::transfer,
                name,
                {operations, bytes, "fp32"},
                bench_.ceiling("link_up"),
                peaks_["fp32"]},
               gpu_.time(call));
  };
  add(
      "sum", static_cast<double>(count),
      [&] {
        add_matrices<<<blocks_for(count, threads), threads, 0, stream>>>(a.data(), b.data(),
                                                                         c.data(), count);
        check_launch("add_matrices");
      },
      [&] {
        for (std::uint64_t i = 0; i < count; ++i) {
          if (host_c[i] != host_a[i] + host_b[i]) return false;
        }
        return true;
      });
  add(
      "product", ladders::operations_of(p), [&] { library.enqueue(p, stream); },
      [&] {
        const std::vector<float> found = c.read();
        return check_of_product.is_right(c) &&
               std::ranges::equal(found, std::span(host_c.data(), count));
      });
}

void Rooflines::add_transfers() {
  for (const std::uint64_t n : sizes_up_to(512, largest_edge(), bench_.is_quick() ? 8 : 4)) {
    add_transfers_of(static_cast<unsigned>(n));
  }
}

/// The edge of the largest matrices of `transfer`. Throws UsageError if it is no multiple of 128 or
/// does not fit.
unsigned Rooflines::largest_edge() {
  constexpr std::uint64_t granule = 128;
  const double room = std::min(0.4 * static_cast<double>(bench_.memory()),
                               0.2 * static_cast<double>(bench_.resources().host_memory) /
                                   static_cast<double>(bench_.resources().ranks_on_host));
  return static_cast<unsigned>(bench_.edge("roofline.n", 4096, granule, 3 * sizeof(float), room));
}

}  // namespace

Table roofline(Bench& bench) {
  Gpu gpu(bench);
  Rooflines all(bench, gpu);
  all.add_memory_roofs();
  all.add_arithmetic_roofs();
  all.add_walks();
  all.add_transfers();
  return std::move(all).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::instructions
