// The carve-out: one on-chip memory serves as shared memory and as L1 cache. A kernel that reads a
// working set again and again wants much L1; a kernel whose blocks need shared memory wants room
// for many blocks. Each kernel can state its preference.
#include "experiments/execution/carveouts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/count_wrong.cuh"
#include "experiments/device_clock.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cuda_occupancy.h>
#endif

namespace shardstream::experiments::execution {

Table carveout(Bench& bench);

namespace {

constexpr std::uint64_t kib = 1024;

/// The rate in GB/s of a working set that fits in L1, or of the blocks of look-ups that fit.
double rate_of_what_fits(const MeasuredRow& row) {
  const double by_default = row["by_default"];
  const std::string name = row.text("case"), set = "set of ";
  if (!name.starts_with(set)) {
    return std::min(row["blocks"] * row.measured({{"blocks", "1"}}, {"case"}), by_default);
  }
  const double largest = row.of_row("shared", {{"carveout", "100"}});  // NaN in this row itself
  const double max = std::isnan(largest) ? row["shared"] : largest;
  const auto bytes_of = [](double size) { return static_cast<std::uint64_t>(size) * kib; };
  return l1_beside(bytes_of(row["shared"]), bytes_of(max)) >= bytes_of(std::stod(name.substr(7)))
             ? by_default
             : std::nan("");
}

}  // namespace

extern const Experiment about_carveout = {
    .name = "carveout",
    .group = "execution",
    .summary = "Shared memory and L1 cache are one memory; a kernel chooses how to divide it.",
    .explanation =
        {
            .question =
                "How should a kernel divide the memory of a multiprocessor between shared memory "
                "and L1 cache?",
            .varies =
                "The attribute PreferredSharedMemoryCarveout of a kernel is the percentage of the "
                "largest possible shared memory that each multiprocessor sets aside (the "
                "carve-out). The rest of the memory is L1 cache. Two kernels run with each "
                "carve-out of the GPU; a note lists them. The first kernel reads a working set "
                "again and again, with one block on each multiprocessor and no shared memory. Each "
                "block of the second kernel looks numbers up in its own table in shared memory, "
                "with one load per thread in flight. `shared` is the carve-out asked for (-1: the "
                "driver chooses). `by_default` is the rate with the driver's choice. `blocks` is "
                "the number of blocks on a multiprocessor, counted by the kernel.",
            .expectation =
                "Expect the rate of the first kernel to fall when the remaining L1 no longer holds "
                "the set, which then comes from L2. Until then, expect the rate of the driver's "
                "choice. Expect the rate of the second kernel to grow in proportion to the number "
                "of blocks that fit on a multiprocessor, until memory is busy at the rate of the "
                "driver's choice. Close to it, loads wait for each other, and the rate grows less.",
            .pitfalls =
                "A GPU has only a few carve-outs. The driver takes the next larger one, and a "
                "still larger one if a block needs it. When the carve-out changes, a kernel waits "
                "until the multiprocessors are idle. The kernel that holds back a timed stream "
                "would cause such a change in each sample, so the host's clock measures several "
                "launches of one kernel.",
        },
    .read_on = {{Guide::programming, "Maximize Memory Throughput"},
                {Guide::programming, "Implicit Synchronization"},
                {Guide::programming, "Compute Capabilities"}},
    .share = "of the rate with the carve-out that the driver chooses by itself",
    .expected = rate_of_what_fits,
    .exercise = {.task = "Predict the rate in GB/s of the look-ups in tables of 31 KiB with 4 and "
                         "7 blocks on a multiprocessor, if one block reaches 600 GB/s and the "
                         "driver's choice 2800 GB/s.",
                 .rows = {{{"case", "table of 31 KiB"}, {"blocks", "4"}},
                          {{"case", "table of 31 KiB"}, {"blocks", "7"}}}},
    .figure =
        {.look = Look::lines, .x = "shared", .y = "rate", .series = "case", .panel = "kernel"},
    .run = with_cuda<carveout>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

// ---------------------------------------------------------------- a kernel that wants L1

constexpr unsigned readers = 1024;                           // threads of a block
constexpr unsigned flight = 4;                               // loads of a thread at the same time
constexpr std::uint64_t pass = readers * sizeof(uint4);      // bytes that a block loads at a time
constexpr std::uint64_t traffic = std::uint64_t{128} << 20;  // bytes that a block reads, about

/// Each block adds up the whole set, `count` words, a multiple of `readers`. Each thread makes
/// `loads` loads, a multiple of `flight`.
__global__ void __launch_bounds__(readers)
    read_again(const uint4* words, unsigned count, unsigned loads, unsigned* sums) {
  unsigned at = threadIdx.x, sum = 0;
  for (unsigned k = 0; k < loads; k += flight) {
    uint4 word[flight];
#pragma unroll
    for (unsigned j = 0; j < flight; ++j) {
      word[j] = words[at];
      at += readers;
      if (at >= count) at -= count;
    }
#pragma unroll
    for (unsigned j = 0; j < flight; ++j) sum += word[j].x + word[j].y + word[j].z + word[j].w;
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

/// Sets each word to its index.
__global__ void count_up(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{readers} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i);
}

// ---------------------------------------------------------------- a kernel that wants blocks

constexpr unsigned searchers = 256;  // threads of a block
constexpr unsigned searches = 32;    // per thread

/// The blocks on a multiprocessor: now, and the largest number at the same time.
struct Residents {
  unsigned now, max;
};
constexpr unsigned slots = 1024;  // at least the number of multiprocessors

__host__ __device__ constexpr unsigned entry(unsigned place) {
  return place * 40503U + 1;
}

/// to[i] is the entry at a place that from[i], of 32 bits, is scaled to. Each block has a table of
/// all entries. One load of a thread is in flight, so the rate depends on the number of blocks.
__global__ void __launch_bounds__(searchers)
    look_up(const unsigned* from, unsigned* to, unsigned entries, Residents* residents) {
  extern __shared__ unsigned table[];
  Residents& own = residents[multiprocessor() % slots];
  if (threadIdx.x == 0) atomicMax(&own.max, atomicAdd(&own.now, 1) + 1);
  for (unsigned place = threadIdx.x; place < entries; place += searchers) {
    table[place] = entry(place);
  }
  __syncthreads();
  std::uint64_t i = blockIdx.x * std::uint64_t{searches * searchers} + threadIdx.x;
#pragma unroll 1
  for (unsigned k = 0; k < searches; ++k) {
    to[i] = table[__umulhi(from[i], entries)];
    i += searchers;
  }
  if (threadIdx.x != 0) return;
  atomicSub(&own.now, 1);
  __threadfence();  // the block ends after that is counted: the next one may arrive at once
}

constexpr unsigned scatter = 2654435761U;  // its multiples are spread over all numbers of 32 bits

__global__ void write_numbers(unsigned* from, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{searchers} + threadIdx.x;
  if (i < count) from[i] = static_cast<unsigned>(i) * scatter;
}

struct IsWrong {
  const unsigned* to;
  unsigned entries;

  __device__ bool operator()(std::uint64_t i) const {
    return to[i] != entry(__umulhi(static_cast<unsigned>(i) * scatter, entries));
  }
};

// ---------------------------------------------------------------- the measurement

struct Carveout {
  int percent;
  std::uint64_t bytes;  ///< that the percentage asks for
};

/// The possible carve-outs of a GPU, each with the largest percentage that asks for it. Throws
/// NotAvailable for a GPU that is newer than the CUDA toolkit of this build.
std::vector<Carveout> possible_carveouts(const cudaDeviceProp& gpu) {
  const cudaOccDeviceProp properties(gpu);
  std::map<std::size_t, int> percents;
  for (int percent = 0; percent <= cudaSharedmemCarveoutMaxShared; ++percent) {
    cudaOccDeviceState state;
    state.carveoutConfig = percent;
    std::size_t bytes = 0;
    if (cudaOccSMemPerMultiprocessor(&bytes, &properties, &state) != CUDA_OCC_SUCCESS) {
      throw NotAvailable(formatted(
          "the carve-outs of compute capability {}.{} are unknown to the CUDA toolkit of this "
          "build: build with a newer one",
          gpu.major, gpu.minor));
    }
    percents[bytes] = percent;
  }
  std::vector<Carveout> all;
  for (const auto& [bytes, percent] : percents) all.push_back({percent, bytes});
  return all;
}

/// A kernel with its data. The rate counts the bytes of its work.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual const char* kind() const = 0;  ///< names the memory that it wants
  virtual std::string name() const = 0;
  virtual const void* kernel() const = 0;
  virtual void launch() = 0;
  /// Launches it, waits for the stream and checks the answer.
  virtual bool is_right() = 0;
  /// Launches it, and returns the largest number of blocks that a multiprocessor held at once.
  virtual unsigned blocks() = 0;
  /// `relative`: the rate over the one with the smallest carve-out. `max`: the largest carve-out.
  virtual std::string remark(const Carveout& carveout, std::uint64_t max, double relative,
                             unsigned blocks) const = 0;
  virtual Work work() const = 0;
};

/// Reads a set of `bytes` again and again.
class Reads final : public Subject {
 public:
  Reads(Gpu& gpu, std::uint64_t bytes)
      : gpu_(gpu),
        bytes_(bytes),
        laps_(static_cast<unsigned>(traffic / bytes / flight * flight)),
        words_(bytes / sizeof(unsigned)),
        sums_(static_cast<std::uint64_t>(gpu.properties().multiProcessorCount)) {
    count_up<<<blocks_for(words_.size(), readers), readers, 0, gpu.stream()>>>(words_.data(),
                                                                               words_.size());
    check_launch("count_up");
  }
  const char* kind() const override { return "L1 cache"; }
  std::string name() const override { return formatted("set of {} KiB", bytes_ / kib); }
  const void* kernel() const override { return reinterpret_cast<const void*>(read_again); }
  void launch() override {
    const auto passes = static_cast<unsigned>(bytes_ / pass);
    read_again<<<static_cast<unsigned>(sums_.size()), readers, 0, gpu_.stream()>>>(
        reinterpret_cast<const uint4*>(words_.data()), passes * readers, laps_ * passes,
        sums_.data());
    check_launch("read_again");
  }
  bool is_right() override {
    sums_.clear(gpu_.stream());
    launch();
    const auto count = static_cast<unsigned>(words_.size());      // even
    const unsigned expected = laps_ * (count / 2 * (count - 1));  // modulo 2^32
    const std::vector<unsigned> found = sums_.read();
    return std::ranges::all_of(found, [&](unsigned sum) { return sum == expected; });
  }
  unsigned blocks() override { return 1; }
  std::string remark(const Carveout& carveout, std::uint64_t max, double relative,
                     unsigned) const override {
    const std::uint64_t l1 = l1_beside(carveout.bytes, max);
    const bool fits = bytes_ <= l1, is_as_fast = relative > 0.97;
    return formatted("{} {} KiB of L1: {:.2f} of the rate with the largest L1{}",
                     std::string(fits ? "fits in" : "exceeds"), l1 / kib, relative,
                     std::string(fits == is_as_fast ? "" : ", unexpectedly"));
  }
  Work work() const override {
    const double bytes = static_cast<double>(bytes_) * laps_ * static_cast<double>(sums_.size());
    return {.operations = bytes / sizeof(unsigned), .bytes = bytes};
  }

 private:
  Gpu& gpu_;
  std::uint64_t bytes_;
  unsigned laps_;
  DeviceArray<unsigned> words_, sums_;
};

/// Looks `count` numbers up in tables of `bytes`.
class LookUps final : public Subject {
 public:
  LookUps(Gpu& gpu, std::uint64_t bytes, std::uint64_t count)
      : gpu_(gpu), bytes_(bytes), from_(count), to_(count), residents_(slots) {
    write_numbers<<<blocks_for(count, searchers), searchers, 0, gpu.stream()>>>(from_.data(),
                                                                                count);
    check_launch("write_numbers");
  }
  const char* kind() const override { return "shared memory"; }
  std::string name() const override { return formatted("table of {} KiB", bytes_ / kib); }
  const void* kernel() const override { return reinterpret_cast<const void*>(look_up); }
  void launch() override {
    look_up<<<blocks_for(from_.size(), searches * searchers), searchers, bytes_, gpu_.stream()>>>(
        from_.data(), to_.data(), entries(), residents_.data());
    check_launch("look_up");
  }
  bool is_right() override {
    to_.clear(gpu_.stream());
    residents_.clear(gpu_.stream());
    launch();
    return count_wrong(to_.size(), IsWrong{to_.data(), entries()}, gpu_.stream()) == 0;
  }
  unsigned blocks() override {
    residents_.clear(gpu_.stream());
    launch();
    return std::ranges::max(residents_.read(), {}, &Residents::max).max;
  }
  std::string remark(const Carveout& carveout, std::uint64_t, double,
                     unsigned blocks) const override {
    const cudaDeviceProp& gpu = gpu_.properties();
    const auto max = static_cast<std::uint64_t>(
        std::min(gpu.maxThreadsPerMultiProcessor / static_cast<int>(searchers),
                 gpu.maxBlocksPerMultiProcessor));
    const std::uint64_t each = bytes_ + gpu.reservedSharedMemPerBlock;
    const std::uint64_t expected = blocks_in(carveout.bytes, each, max);
    if (blocks == expected) return formatted("blocks at once: {}, as expected", blocks);
    // A warp's place is free when the warp ends, shared memory when the block ends.
    if (expected == max && blocks > max) {
      return formatted("blocks at once: {}, {} of them whole, as expected", blocks, expected);
    }
    return formatted("blocks at once: {}, not {}; the driver chose another carve-out", blocks,
                     expected);
  }
  /// One product scales each number.
  Work work() const override {
    const auto count = static_cast<double>(from_.size());
    return {.operations = count, .bytes = 2 * sizeof(unsigned) * count};
  }

 private:
  unsigned entries() const { return static_cast<unsigned>(bytes_ / sizeof(unsigned)); }

  Gpu& gpu_;
  std::uint64_t bytes_;
  DeviceArray<unsigned> from_, to_;
  DeviceArray<Residents> residents_;
};

/// A rate in GB/s, the time of a launch, and the number of blocks on a multiprocessor.
struct Result {
  Measured rate;
  double seconds;
  unsigned blocks;
};

/// Checks and measures kernels with each carve-out, and adds their rows.
class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu, Measurements& rows)
      : bench_(bench), gpu_(gpu), rows_(rows), carveouts_(possible_carveouts(gpu.properties())) {
    std::string text;
    for (const Carveout& each : carveouts_) {
      text += formatted("{}{}", text.empty() ? std::string() : ", ", each.bytes / kib);
    }
    bench.note(formatted("The possible carve-outs of this GPU are {} KiB.", text));
  }

  /// The largest L1 cache.
  std::uint64_t max_l1() const { return l1_beside(carveouts_.front().bytes, max_shared()); }

  void add(Subject&& subject) {
    const double by_default = measure(subject, cudaSharedmemCarveoutDefault).rate.value;
    double first = 0;  // the rate with the smallest carve-out
    for (std::size_t i = 0; i < carveouts_.size(); ++i) {
      constexpr std::size_t step = 3;
      if (bench_.is_quick() && i % step != 0 && i + 1 != carveouts_.size()) continue;
      const Carveout& each = carveouts_[i];
      const auto [rate, seconds, blocks] = measure(subject, each.percent);
      if (first == 0) first = rate.value;
      rows_.add({subject.kind(), subject.name(), std::int64_t{each.percent},
                 static_cast<std::int64_t>(each.bytes / kib), std::int64_t{blocks}, by_default},
                rate, rate.value / by_default,
                subject.remark(each, max_shared(), rate.value / first, blocks), subject.work(),
                seconds);
    }
  }

 private:
  std::uint64_t max_shared() const { return gpu_.properties().sharedMemPerMultiprocessor; }

  Result measure(Subject& subject, int percent) {
    constexpr int launches = 4;  // a call takes milliseconds, beside which a launch does not count
    const CarveoutGuard guard(subject.kernel(), percent);
    bench_.verify(subject.is_right(),
                  formatted("{} with a carve-out of {} %", subject.name(), percent));
    const unsigned blocks = subject.blocks();
    const Timing timing = gpu_.time_call([&] {
      for (int i = 0; i < launches; ++i) subject.launch();
    });
    return {timing.rate(launches * subject.work().bytes), timing.seconds.value / launches, blocks};
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::vector<Carveout> carveouts_;
};

}  // namespace

Table carveout(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"kernel", ColumnType::text},
                     {"case", ColumnType::text},
                     {"carveout", ColumnType::integer, "%"},
                     {"shared", ColumnType::integer, "KiB"},
                     {"blocks", ColumnType::integer},
                     {"by_default", ColumnType::real, "GB/s"}},
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  Cases cases(bench, gpu, rows);
  using Sizes = std::vector<std::uint64_t>;
  for (const std::uint64_t size : bench.is_quick() ? Sizes{64} : Sizes{64, 160}) {
    if (size * kib <= cases.max_l1()) cases.add(Reads(gpu, size * kib));
  }
  // With the 1 KiB that the driver reserves since compute capability 8.0, these are powers of two.
  const std::uint64_t count = std::uint64_t{bench.is_quick() ? 32U : 64U} << 20;
  for (const std::uint64_t size : bench.is_quick() ? Sizes{31} : Sizes{7, 31}) {
    cases.add(LookUps(gpu, size * kib, count));
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
