// Occupancy: the share of the warps of a multiprocessor that are resident. Registers, shared memory
// and the size of a block limit it. A calculator predicts it for any GPU. On a GPU, a kernel
// records how many of its blocks were resident, and its rate shows how much occupancy is enough.
#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/count_wrong.cuh"
#include "experiments/device_clock.cuh"
#include "experiments/execution/occupancy_model.hpp"
#include "experiments/execution/stays.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/kernel_resources.hpp"

namespace shardstream::experiments::execution {

constexpr OptionRow options[] = {
    {"occupancy.registers", OptionKind::count, "32", "1..255",
     "For the calculator: registers of a thread, as the compiler reports them (-Xptxas -v)."},
    {"occupancy.shared", OptionKind::size, "0", "0..227KiB",
     "For the calculator: shared memory of a block, static and dynamic."},
    {"occupancy.threads", OptionKind::count, "auto", "auto|1..1024",
     "For the calculator: threads of a block. auto compares many sizes."},
    {"occupancy.capability", OptionKind::choice, "auto",
     "auto|3.5|3.7|5.0|5.2|6.0|6.1|7.0|7.5|8.0|8.6|8.7|8.9|9.0|10.0|10.3|11.0|12.0|12.1",
     "For the calculator: the compute capability. auto takes that of the GPU, or 9.0 without one."},
};

Table occupancy(Bench& bench);
Table calculated_occupancy(Bench& bench);

namespace {

/// The rate in GB/s by Little's law: it grows with the loads in flight on a multiprocessor, up to
/// the rate of a copy. One block with one load for each thread tells the rate of a load.
double rate_of_loads(const MeasuredRow& row) {
  const std::string kernel = row.text("kernel");  // "4 loads a thread"; none in the calculator
  if (kernel.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto of_one = [&](std::string_view column) {
    return row.of_row(column, {{"kernel", "1 load a thread"}, {"blocks", "1"}});
  };
  const double loads = row["blocks"] * row["threads"] * std::stod(kernel);
  const double little = of_one("rate") * loads / (of_one("blocks") * of_one("threads"));
  return std::min(little, row.ceiling("device_copy"));
}

}  // namespace

extern const Experiment about_occupancy = {
    .name = "occupancy",
    .group = "execution",
    .summary =
        "Registers, shared memory and block size limit the resident warps; enough is enough.",
    .explanation =
        {
            .question =
                "How many warps must a multiprocessor hold until a copy reaches its full rate?",
            .varies =
                "The occupancy is the number of resident warps of a multiprocessor over the "
                "maximum. With an option, or without a GPU, a calculator shows the blocks for each "
                "block size, and the resource that limits them. On a GPU, a kernel copies an array "
                "with 1, 4 or 8 loads in flight per thread. Dynamic shared memory that it does not "
                "use limits its blocks; then the block size varies. Each warp records when it "
                "begins and ends. `seen` is the largest number of whole blocks that were on one "
                "multiprocessor at the same time: all of their warps had begun, and none had "
                "ended. `in_part` counts each block until its last warp ends. `achieved` is the "
                "average number of resident warps, in percent of the maximum.",
            .expectation =
                "A block is resident if its warps, its registers and its shared memory fit beside "
                "those of the others. If there is room for 0 blocks, the launch fails. Registers "
                "are allocated to warps in pieces of 256, so one register more can cost a block: "
                "with 512 threads on compute capability 6.x, 64 registers allow two blocks and 65 "
                "one. Expect the rate to grow with the occupancy only until enough bytes are in "
                "flight, and to need less occupancy with more loads in flight per thread. By "
                "Little's law, it is in proportion to blocks x threads x loads, up to the rate of "
                "a copy; near this rate, loads wait for each other, and it grows less. `achieved` "
                "is less than predicted while warps start or end.",
            .pitfalls =
                "Choose block sizes that are multiples of 32: the idle lanes of the last warp "
                "count as resident. `in_part` can be more than predicted, since the registers and "
                "the place of a warp are free again when the warp ends, and shared memory when the "
                "block ends. The host's clock times four launches a call: the kernel that blocks "
                "the stream of other experiments has another share of shared memory, and each "
                "change would count.",
        },
    .read_on = {{Guide::best_practices, "Occupancy"},
                {Guide::best_practices, "Calculating Occupancy"},
                {Guide::best_practices, "Thread and Block Heuristics"},
                {Guide::programming, "Occupancy Calculator"}},
    .reference =
        "compute capability 7.0, 37 registers: 128 threads 12 blocks, 75 %; 320 threads 4 blocks, "
        "63 %.",
    .share = "of the rate of a copy in device memory",
    .options = options,
    .expected = rate_of_loads,
    .exercise = {.task = "Predict the rate in GB/s with 1 load a thread and 1, 2 and 4 blocks of "
                         "256 threads on each multiprocessor, and with 4 loads a thread and 1 "
                         "block, if a load and a store of 16 bytes take 600 ns together.",
                 .rows = {{{"kernel", "1 load a thread"}, {"blocks", "1"}},
                          {{"kernel", "1 load a thread"}, {"blocks", "2"}},
                          {{"kernel", "1 load a thread"}, {"blocks", "4"}},
                          {{"kernel", "4 loads a thread"}, {"blocks", "1"}}}},
    .figure =
        {.look = Look::lines, .x = "occupancy", .y = "rate", .series = "kernel", .panel = "limit"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<occupancy>(),
    .run_host = calculated_occupancy,
};

// ------------------------------------------------------------------------------ the calculator

namespace {

/// The multiprocessor that occupancy.capability names; auto: that of the GPU, or of 9.0.
const Multiprocessor& chosen_multiprocessor(Bench& bench) {
  std::string capability = "9.0";
  if (!bench.options().is_auto("occupancy.capability")) {
    capability = bench.options().text("occupancy.capability");
  } else if (const int own = bench.device().info().compute_capability; own > 0) {
    capability = formatted("{}.{}", own / 10, own % 10);
  }
  const Multiprocessor* const found = find_multiprocessor(capability);
  if (found == nullptr) {
    throw UsageError("occupancy.capability: the limits of this GPU's compute capability, " +
                     capability + ", are unknown: name another one");
  }
  return *found;
}

/// Every block size up to 256 and every second one above, in warps; and sizes that leave lanes
/// idle.
std::vector<unsigned> block_sizes(const Options& given) {
  if (!given.is_auto("occupancy.threads")) {
    return {static_cast<unsigned>(given.count("occupancy.threads"))};
  }
  std::vector<unsigned> sizes = {48, 100, 200, 500, 1000};
  for (unsigned threads = warp; threads <= max_threads_of_block;
       threads += threads < 256 ? warp : 2 * warp) {
    sizes.push_back(threads);
  }
  std::ranges::sort(sizes);
  return sizes;
}

/// The limit of the blocks, or the reason why none fits.
std::string remark_on(const Multiprocessor& on, const Block& block, const Residency& fits) {
  if (fits.by_registers == 0) {
    return formatted(
        "the launch fails: {} warps with {} registers per thread need more than the 65536 "
        "registers of a block",
        block.warps(), block.registers);
  }
  if (fits.by_shared == 0) {
    return formatted("the launch fails: a block can have at most {} B of shared memory",
                     on.shared_of_block);
  }
  std::string text = "limited by " + limiters(fits);
  if (const unsigned idle = block.warps() * warp - block.threads; idle > 0) {
    text += formatted("; {} of {} lanes of a block are idle", idle, block.warps() * warp);
  }
  return text;
}

}  // namespace

Table calculated_occupancy(Bench& bench) {
  const Options& given = bench.options();
  const Multiprocessor& on = chosen_multiprocessor(bench);
  bench.draw({.look = Look::lines, .x = "threads", .y = "occupancy"});
  bench.note(formatted(
      "Calculated for compute capability {}: {} warps, {} blocks, {} registers and {} B of shared "
      "memory on a multiprocessor. Nothing was measured.",
      std::string(on.capability), on.warps(), on.blocks, on.registers, on.shared));
  Measurements rows({{"threads", ColumnType::integer},
                     {"registers", ColumnType::integer},
                     {"shared", ColumnType::integer, "B"},
                     {"blocks", ColumnType::integer},
                     {"warps", ColumnType::integer}},
                    {"occupancy", ColumnType::real, "%"});
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  for (const unsigned threads : block_sizes(given)) {
    const Block block{threads, static_cast<unsigned>(given.count("occupancy.registers")),
                      given.bytes("occupancy.shared")};
    const Residency fits = residency(on, block);
    rows.add({to_cell(threads), to_cell(block.registers), to_cell(block.shared),
              to_cell(fits.blocks()), to_cell(fits.blocks() * block.warps())},
             {100 * occupancy_of(on, block, fits.blocks()), none, none}, none,
             remark_on(on, block, fits));
  }
  return std::move(rows).table();
}

// ---------------------------------------------------------------------------- on a GPU: a copy

#if SHARDSTREAM_HAS_CUDA
namespace {

bool asks_for_calculator(const Options& given) {
  return !std::ranges::all_of(options,
                              [&](const OptionRow& row) { return given.is_default(row.key); });
}

constexpr unsigned words_of_block = 4096;  // 64 KiB, so that a block stays for many microseconds

unsigned warps_of_block(int threads) {
  return blocks_for(static_cast<unsigned>(threads), warp);
}

/// Block b copies the b-th part of the array. Each thread has `Loads` loads in flight: the stores
/// after them wait for the loaded words. The loop is not unrolled, which would add loads. Each warp
/// records its stay, unless `stays` is null.
template <unsigned Loads>
__global__ void copy_parts(const float4* from, float4* to, Stay* stays) {
  const std::uint64_t begin = global_nanoseconds();
  from += blockIdx.x * std::uint64_t{words_of_block};
  to += blockIdx.x * std::uint64_t{words_of_block};
#pragma unroll 1
  for (unsigned first = threadIdx.x; first < words_of_block; first += Loads * blockDim.x) {
    float4 words[Loads];
#pragma unroll
    for (unsigned k = 0; k < Loads; ++k) {
      const unsigned i = first + k * blockDim.x;
      if (i < words_of_block) words[k] = from[i];
    }
#pragma unroll
    for (unsigned k = 0; k < Loads; ++k) {
      const unsigned i = first + k * blockDim.x;
      if (i < words_of_block) to[i] = words[k];
    }
  }
  __syncwarp();
  if (stays == nullptr || threadIdx.x % warp != 0) return;
  const unsigned warps = (blockDim.x + warp - 1) / warp;
  stays[blockIdx.x * warps + threadIdx.x / warp] = {begin, global_nanoseconds(), multiprocessor()};
}

using Copy = void (*)(const float4*, float4*, Stay*);

struct CopyKernel {
  const char* name;
  unsigned loads;
  Copy copy;
};
constexpr CopyKernel kernels[] = {{"1 load a thread", 1, copy_parts<1>},
                                  {"4 loads a thread", 4, copy_parts<4>},
                                  {"8 loads a thread", 8, copy_parts<8>}};

struct IsWrong {
  const float* to;
  __device__ bool operator()(std::uint64_t i) const { return to[i] != unit_number(i); }
};

/// Lets a kernel have as much dynamic shared memory as a block can have. The destructor restores
/// the previous limit.
class SharedMemoryGuard {
 public:
  SharedMemoryGuard(Copy kernel, const cudaDeviceProp& gpu)
      : kernel_(kernel), before_(attributes_of(kernel)) {
    check(set(static_cast<int>(gpu.sharedMemPerBlockOptin - before_.sharedSizeBytes)),
          "cudaFuncSetAttribute");
  }
  SharedMemoryGuard(const SharedMemoryGuard&) = delete;
  SharedMemoryGuard& operator=(const SharedMemoryGuard&) = delete;
  ~SharedMemoryGuard() {
    device::cuda::report(set(before_.maxDynamicSharedSizeBytes), "cudaFuncSetAttribute");
  }

 private:
  cudaError_t set(int bytes) const {
    return cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  }
  Copy kernel_;
  cudaFuncAttributes before_;
};

/// The prediction for a launch, and its result.
struct Result {
  double occupancy;  ///< predicted, in percent
  double rate;       ///< GB/s
};

/// Measures the copy in different launch configurations and adds their rows.
class Sweep {
 public:
  Sweep(Bench& bench, Gpu& gpu)
      : bench_(bench),
        gpu_(gpu),
        from_(bench.fitting(std::uint64_t{512} << 20) / sizeof(float)),
        to_(from_.size()),
        blocks_(static_cast<unsigned>(from_.size() / 4 / words_of_block)),
        stays_(std::uint64_t{blocks_} * max_threads_of_block / warp) {
    fill(from_, gpu.stream());
  }

  /// Limits the blocks of the kernel by shared memory, from one block to as many as fit.
  void vary_shared_memory(const CopyKernel& kernel);
  /// Varies the size of a block. The last size is the one that CUDA proposes.
  void vary_block_size(const CopyKernel& kernel);
  Table table() && { return std::move(rows_).table(); }

 private:
  Result add(const char* limit, const CopyKernel& kernel, int threads, std::size_t shared);
  double percent_of(double warps) const;
  bool is_copied() const;

  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<float> from_, to_;
  unsigned blocks_;  ///< of a launch
  DeviceArray<Stay> stays_;
  Measurements rows_{{{"limit", ColumnType::text},
                      {"kernel", ColumnType::text},
                      {"threads", ColumnType::integer},
                      {"registers", ColumnType::integer},
                      {"shared", ColumnType::integer, "B"},
                      {"blocks", ColumnType::integer},
                      {"seen", ColumnType::integer},
                      {"in_part", ColumnType::integer},
                      {"occupancy", ColumnType::real, "%"},
                      {"achieved", ColumnType::real, "%"}},
                     {"rate", ColumnType::real, "GB/s"},
                     Rows::of_kernels};
};

/// The blocks of the kernel that fit on a multiprocessor, as CUDA calculates them.
int blocks_of(const CopyKernel& kernel, int threads, std::size_t shared) {
  return static_cast<int>(
      blocks_per_multiprocessor(address_of(kernel.copy), static_cast<unsigned>(threads), shared));
}

/// The dynamic shared memory of a block with which `blocks` blocks and no more fit.
std::size_t shared_for(int blocks, const cudaDeviceProp& gpu) {
  constexpr std::size_t piece = 256;  // a multiple of the pieces in which it is allocated
  const auto count = static_cast<std::size_t>(blocks);
  return std::min(
      gpu.sharedMemPerBlockOptin,
      gpu.sharedMemPerMultiprocessor / count / piece * piece - gpu.reservedSharedMemPerBlock);
}

double Sweep::percent_of(double warps) const {
  return 100 * warps * warp / gpu_.properties().maxThreadsPerMultiProcessor;
}

bool Sweep::is_copied() const {
  return count_wrong(to_.size(), IsWrong{to_.data()}, gpu_.stream()) == 0;
}

/// `shared`: bytes of dynamic shared memory of a block.
Result Sweep::add(const char* limit, const CopyKernel& kernel, int threads, std::size_t shared) {
  const int blocks = blocks_of(kernel, threads, shared);
  const auto launch = [&](Stay* stays) {
    kernel.copy<<<blocks_, threads, shared, gpu_.stream()>>>(
        reinterpret_cast<const float4*>(from_.data()), reinterpret_cast<float4*>(to_.data()),
        stays);
    check_launch("copy_parts");
  };
  to_.clear(gpu_.stream());
  launch(stays_.data());
  bench_.verify(is_copied(), kernel.name);
  const unsigned warps = warps_of_block(threads);
  const std::vector<Stay> stays = stays_.read(0, std::uint64_t{blocks_} * warps);
  const int seen = static_cast<int>(max_at_once(of_whole_blocks(stays, warps)));
  const int in_part = static_cast<int>(max_at_once(of_blocks(stays, warps)));
  const double bytes = 2.0 * static_cast<double>(from_.bytes());
  constexpr unsigned launches = 4;
  const auto call = [&] {
    for (unsigned i = 0; i < launches; ++i) launch(nullptr);
  };
  const Timing timing = gpu_.time_call(call);
  const Measured rate = timing.rate(launches * bytes);
  const Result result{percent_of(blocks * warps), rate.value};
  std::string remark = seen == blocks
                           ? "as many blocks as predicted"
                           : formatted("{} blocks at most, not {} as predicted", seen, blocks);
  if (in_part > blocks) remark += "; new ones begin when enough warps have ended";
  if (const unsigned idle = static_cast<unsigned>(-threads) % warp; idle > 0) {
    remark += formatted("; {} lanes of each block are idle", idle);
  }
  rows_.add({limit, kernel.name, to_cell(threads), to_cell(attributes_of(kernel.copy).numRegs),
             to_cell(shared), to_cell(blocks), to_cell(seen), to_cell(in_part), result.occupancy,
             percent_of(mean_at_once(stays))},
            rate, rate.value / bench_.ceiling("device_copy"), remark, {0, bytes},
            timing.seconds.value / launches);
  return result;
}

void Sweep::vary_shared_memory(const CopyKernel& kernel) {
  constexpr int threads = 256;
  const SharedMemoryGuard guard(kernel.copy, gpu_.properties());
  // The same L1 cache in all cases: the smallest.
  const CarveoutGuard carveout(reinterpret_cast<const void*>(kernel.copy),
                               cudaSharedmemCarveoutMaxShared);
  const int max = blocks_of(kernel, threads, 0);
  std::vector<Result> results;
  for (const int blocks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    if (blocks >= max || (bench_.is_quick() && !std::has_single_bit(unsigned(blocks)))) continue;
    const std::size_t shared = shared_for(blocks, gpu_.properties());
    results.push_back(add("shared memory", kernel, threads, shared));
  }
  results.push_back(add("shared memory", kernel, threads, 0));
  const double best = std::ranges::max(results, {}, &Result::rate).rate;
  const auto enough =
      std::ranges::find_if(results, [&](const Result& each) { return each.rate > 0.95 * best; });
  bench_.note(formatted("{}: an occupancy of {:.0f} % reaches 95 % of its best rate.",
                        std::string(kernel.name), enough->occupancy));
}

void Sweep::vary_block_size(const CopyKernel& kernel) {
  for (const int threads : {32, 64, 100, 128, 512, 1000, 1024}) {
    if (bench_.is_quick() && threads != 32 && threads != 100 && threads != 1024) continue;
    if (blocks_of(kernel, threads, 0) > 0) add("block size", kernel, threads, 0);
  }
  int grid = 0, threads = 0, with_shared = 0;
  check(cudaOccupancyMaxPotentialBlockSize(&grid, &threads, kernel.copy),
        "cudaOccupancyMaxPotentialBlockSize");
  add("block size", kernel, threads, 0);
  bench_.note(formatted(
      "cudaOccupancyMaxPotentialBlockSize proposes blocks of {} threads for the kernel with {}, "
      "and at least {} blocks, which fill the GPU.",
      threads, std::string(kernel.name), grid));
  constexpr std::size_t bytes_of_thread = 128;
  check(cudaOccupancyMaxPotentialBlockSizeVariableSMem(
            &grid, &with_shared, kernel.copy,
            [](int size) { return bytes_of_thread * static_cast<std::size_t>(size); }),
        "cudaOccupancyMaxPotentialBlockSizeVariableSMem");
  bench_.note(formatted(
      "With {} B of shared memory per thread, cudaOccupancyMaxPotentialBlockSizeVariableSMem "
      "proposes {} threads.",
      bytes_of_thread, with_shared));
}

}  // namespace

Table occupancy(Bench& bench) {
  if (asks_for_calculator(bench.options())) return calculated_occupancy(bench);
  Gpu gpu(bench);
  Sweep sweep(bench, gpu);
  for (const CopyKernel& kernel : kernels) {
    if (!bench.is_quick() || kernel.loads < 8) sweep.vary_shared_memory(kernel);
  }
  sweep.vary_block_size(kernels[1]);
  return std::move(sweep).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
