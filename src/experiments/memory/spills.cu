// The cost of values that do not stay in registers. They go to local memory, which is cached device
// memory, if the kernel may use too few registers, or if an array is indexed by a number that is
// known only at run time. Local memory is laid out for lanes that all use the same index.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/kernel_resources.hpp"
#include "experiments/memory/sectors.hpp"

namespace shardstream::experiments::memory {

Table spills(Bench& bench);

namespace {

/// 256 calls write their parts of the stack and read them again. If all stacks together exceed the
/// caches, as deep ones do, they move at the rate of a copy.
double expected_time_of_recursion(const MeasuredRow& row) {
  const std::string depth = row.text("case");
  if (depth == "depth 8") return row.measured({{"case", "depth 1"}});
  const double calls = depth == "depth 64" ? 64 : depth == "depth 256" ? 256 : std::nan("");
  constexpr double bytes_of_thread = 2 * sizeof(float), calls_of_thread = 256;
  const double thousand_threads = row["bytes"] * 1e3 / bytes_of_thread;
  const double bytes_of_call = row["local"] / calls;
  return 2 * calls_of_thread * bytes_of_call * thousand_threads / row.ceiling("device_copy") / 1e3;
}

/// Spills add time in proportion to the bytes of local memory; an array in local memory takes time
/// in proportion to its sectors.
double expected_time(const MeasuredRow& row) {
  if (row.text("part") == "recursion") return expected_time_of_recursion(row);
  const std::string name = row.text("case");
  if (name == "index by lane") {
    return row.measured({{"case", "run-time index"}}) * row["sectors"] /
           row.of_row("sectors", {{"case", "run-time index"}});
  }
  const double spilled = row.of_row("local", {{"case", "launch bounds"}});
  if (!name.starts_with("launch bounds") && name != "register cap") return std::nan("");
  const double in_registers = row.measured({{"case", "registers"}});
  const double more = row.measured({{"case", "launch bounds"}}) - in_registers;
  return spilled > 0 ? in_registers + more * row["local"] / spilled : std::nan("");
}

}  // namespace

extern const Experiment about_spills = {
    .name = "spills",
    .group = "memory",
    .summary = "Values that do not fit in registers go to local memory, which is slower.",
    .explanation =
        {
            .question = "What does it cost if the values of a thread do not fit in its registers?",
            .varies =
                "Each of 2^21 threads, or half as many with --quick, mixes an array of 32 values "
                "64 times, by an addition and a product for each value. All of it fits in "
                "registers if every index is known at compile time. Then the kernel gets too few "
                "registers: 32 by launch bounds (64, which are enough, if a multiprocessor has "
                "fewer than 2048 threads), and 24 by a cap (__maxnreg__). `launch bounds, to "
                "shared` asks the compiler to spill to shared memory, as far as that has room "
                "(enable_smem_spilling, nvcc 13.0). Then an index is known only at run time, so "
                "the array must be addressable. In the part `recursion`, a function calls itself "
                "up to a depth of 1, 8, 64 or 256; a thread makes 256 calls in all. `registers` "
                "and `local` are the registers and bytes of local memory per thread, as the "
                "compiler reports them; for recursion, `local` is the measured size of the stack. "
                "`shared` has the bytes of shared memory per block. `sectors` are those that a "
                "warp touches for one element.",
            .expectation =
                "Element k of the arrays of neighbouring threads lies in neighbouring words. So a "
                "warp touches 4 sectors if all lanes use the same index, and 32 if the index "
                "differs between lanes: then local memory is not coalesced. Expect the time to "
                "grow with the bytes of local memory, and most with different indices. The time "
                "beyond that of registers is in proportion to the bytes that are spilled to local "
                "memory, and the time of an array to its sectors: expect different indices to take "
                "eight times as long, or more if L1 holds the array, since it serves one line "
                "after the other, 32 in place of one. Spills to shared memory leave L1 to other "
                "data: expect them to be a little faster, or as fast if L1 holds the spills "
                "anyway. Each call saves registers on the stack, and a deep stack does not fit in "
                "L1: expect the time to grow with the depth. Each call writes its bytes of the "
                "stack and reads them again. If the stacks of all threads exceed L2, as with depth "
                "64 and 256, expect the time to copy these bytes.",
            .pitfalls =
                "Shared memory for spills may lower the occupancy. The compiler does not know the "
                "stack of a recursive function, so the experiment raises its limit "
                "(cudaLimitStackSize, 1 KiB by default). Every thread that fits on the GPU then "
                "gets as much device memory. A kernel whose stack overflows fails.",
        },
    .read_on = {{Guide::best_practices, "Registers"},
                {Guide::best_practices, "Local Memory"},
                {Guide::best_practices, "Register Pressure"},
                {Guide::programming, "Device Memory Accesses"},
                {Guide::ptx, "Pragma Strings: \"enable_smem_spilling\""},
                {Guide::programming, "Call Stack"}},
    .share = "of the speed with all values in registers",
    .expected = expected_time,
    .exercise = {.task = "Predict the time in ms with all values in registers, from the peak of "
                         "fp32, and of recursion with a depth of 64 and 256, from the rate of a "
                         "copy, if a call takes 16 bytes of the stack.",
                 .rows = {{{"case", "registers"}},
                          {{"case", "depth 64"}},
                          {{"case", "depth 256"}}}},
    .figure =
        {.look = Look::bars, .x = "case", .y = "time", .panel = "part", .more_is_better = false},
    .needs = {.ceilings_of_expected = {"device_copy"}},
    .run = with_cuda<spills>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr unsigned values = 32;  // per thread
constexpr unsigned rounds = 64;

/// Repeatedly averages neighbouring values of a ring. The loops are unrolled, so every index is
/// known at compile time and every value has a register.
__device__ float stir(float first) {
  float ring[values];
#pragma unroll
  for (unsigned i = 0; i < values; ++i) ring[i] = first + static_cast<float>(i);
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned i = 0; i < values; ++i) ring[i] = 0.5F * (ring[i] + ring[(i + 1) % values]);
  }
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < values; ++i) sum += ring[i];
  return sum;
}

__global__ void in_registers(const float* from, float* to) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  to[i] = stir(from[i]);
}

// The blocks of 256 threads that a multiprocessor holds: it has 2048 threads, or 1536 or 1024.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 750 || __CUDA_ARCH__ % 100 > 50 || __CUDA_ARCH__ >= 1200)
constexpr int resident = 4;
#else
constexpr int resident = 8;
#endif

enum class SpillTo { local, shared };

/// Asks the compiler to spill to shared memory, as far as it has room. Without it, all goes to
/// local memory. Before 13.0, nvcc does not know it.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ >= 13
constexpr bool can_spill_to_shared = true;
__device__ inline void spill_to_shared() {
  asm volatile(".pragma \"enable_smem_spilling\";");
}
#else
constexpr bool can_spill_to_shared = false;
__device__ inline void spill_to_shared() {}
#endif

/// The launch bounds allow 65536 / 2048 = 32 registers per thread, fewer than stir() needs; with
/// 1024 threads, 64 are enough.
template <SpillTo To>
__global__ void __launch_bounds__(threads, resident)
    with_few_registers(const float* from, float* to) {
  if constexpr (To == SpillTo::shared) spill_to_shared();
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  to[i] = stir(from[i]);
}

/// Still fewer, by a cap, which does not restrict the size of a block.
__global__ void __maxnreg__(24) with_capped_registers(const float* from, float* to) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  to[i] = stir(from[i]);
}

/// The place of value `i` in the ring of lane `lane`. Each lane turns its ring by a multiple of
/// `turn`, which is known only at run time: with 0, all lanes use the same index; with 1, each
/// another one. The values and their order are the same.
__host__ __device__ constexpr unsigned place(unsigned i, unsigned lane, unsigned turn) {
  return (i + turn * lane) % values;
}

/// The ring must be addressable, so it lies in local memory.
__global__ void indexed_at_run_time(const float* from, float* to, unsigned turn) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  const unsigned lane = threadIdx.x % warp;
  float ring[values];
  for (unsigned i = 0; i < values; ++i) {
    ring[place(i, lane, turn)] = from[thread] + static_cast<float>(i);
  }
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < values; ++i) {
      float& value = ring[place(i, lane, turn)];
      value = 0.5F * (value + ring[place(i + 1, lane, turn)]);
    }
  }
  float sum = 0;
  for (unsigned i = 0; i < values; ++i) sum += ring[place(i, lane, turn)];
  to[thread] = sum;
}

// ------------------------------------------------------------------------------- recursion

constexpr unsigned calls = 256;  // of nested() in a thread, whatever their depth
constexpr unsigned depths[] = {1, 8, 64, 256};

/// The stack pointer, an address in local memory.
__device__ inline std::uint64_t stack_pointer() {
  std::uint64_t address = 0;
  asm volatile("stacksave.u64 %0;" : "=l"(address));
  return address;
}

/// The stack pointers of a thread.
struct Stack {
  std::uint64_t top, bottom;
};

/// Calls itself until there are `depth` calls, one inside the other. Each of them keeps x on the
/// stack while it waits for the next one. `stack` is null, except to find the size of the stack.
__device__ __noinline__ float nested(float x, unsigned depth, Stack* stack) {
  float inner = 1.0F - x;
  if (depth > 1) {
    inner = nested(inner, depth - 1, stack);
  } else if (stack != nullptr) {
    stack->bottom = stack_pointer();
  }
  return 0.5F * (inner + x);
}

/// The number of calls is the same for each depth that divides it.
__global__ void recursive(const float* from, float* to, unsigned depth, Stack* stack) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (stack != nullptr) stack->top = stack_pointer();
  float x = from[i];
#pragma unroll 1
  for (unsigned called = 0; called < calls; called += depth) x = nested(x, depth, stack);
  to[i] = x;
}

/// The reference on the host.
float expected_of_nested(float x, unsigned depth) {
  const float inner = depth > 1 ? expected_of_nested(1.0F - x, depth - 1) : 1.0F - x;
  return 0.5F * (inner + x);
}

bool are_nested_right(const std::vector<float>& found, unsigned depth) {
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    float x = unit_number(i);
    for (unsigned called = 0; called < calls; called += depth) x = expected_of_nested(x, depth);
    if (found[i] != x) return false;
  }
  return true;
}

// -------------------------------------------------------------------------------- the rows

/// The access of a warp to local memory, in which element k of neighbouring threads lies in
/// neighbouring words (CUDA C++ Programming Guide, section Device Memory Accesses).
Access local_access(unsigned turn) {
  const auto address = [&](std::uint64_t lane) {
    return (place(0, static_cast<unsigned>(lane), turn) * warp + lane) * sizeof(float);
  };
  return access_of_warp(address, sizeof(float));
}

/// The reference on the host.
float expected(float first) {
  float ring[values];
  for (unsigned i = 0; i < values; ++i) ring[i] = first + static_cast<float>(i);
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < values; ++i) ring[i] = 0.5F * (ring[i] + ring[(i + 1) % values]);
  }
  float sum = 0;
  for (const float value : ring) sum += value;
  return sum;
}

bool is_right(const std::vector<float>& sums) {
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    if (std::abs(sums[i] / expected(unit_number(i)) - 1) > 1e-5F) return false;
  }
  return true;
}

/// Checks and measures the kernels, and adds their rows.
class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu, Measurements& rows)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        count_(std::uint64_t{bench.is_quick() ? 1U : 2U} << 20),
        from_(count_),
        to_(count_) {
    fill(from_, gpu.stream());
  }

  /// `arguments` follow the two arrays. `turn` is that of place().
  template <class... Parameters, class... Arguments>
  void add(const char* name, void (*kernel)(const float*, float*, Parameters...), unsigned turn,
           Arguments... arguments) {
    const cudaFuncAttributes attributes = attributes_of(kernel);
    const auto launch = [&] {
      kernel<<<blocks_for(count_, threads), threads, 0, gpu_.stream()>>>(from_.data(), to_.data(),
                                                                         arguments...);
      check_launch(name);
    };
    to_.clear(gpu_.stream());
    launch();
    bench_.verify(is_right(to_.read(0, 4096)), name);
    const Measured time = gpu_.time(launch).seconds.times(1e3);
    if (best_ == 0) best_ = time.value;
    const auto local = static_cast<std::int64_t>(attributes.localSizeBytes);
    const std::uint64_t sectors = local > 0 ? local_access(turn).sectors : 0;
    rows_.add(
        {"ring of values", name, std::int64_t{attributes.numRegs}, local,
         static_cast<std::int64_t>(attributes.sharedSizeBytes), static_cast<std::int64_t>(sectors)},
        time, best_ / time.value, remark(time.value, local, attributes.sharedSizeBytes, sectors),
        work(), time.value * 1e-3);
  }

  /// Calls of this depth. A row is left out with a note if the stacks take too much memory.
  void add_recursion(unsigned depth);

 private:
  std::string remark(double time, std::int64_t local, std::uint64_t shared,
                     std::uint64_t sectors) const {
    if (local == 0 && shared == 0) return "every value has a register";
    return formatted(
        "{} times as long: {} bytes per thread are in local memory{}{}", ratio_text(time / best_),
        local,
        shared > 0 ? formatted(", and {} per block in shared memory", shared) : std::string(),
        std::string(sectors > 4 ? ", and each lane has a sector of its own" : ""));
  }
  void launch_recursion(unsigned depth) const {
    recursive<<<blocks_for(count_, threads), threads, 0, gpu_.stream()>>>(from_.data(), to_.data(),
                                                                          depth, nullptr);
    check_launch("recursive");
  }
  /// Bytes of the stack of a thread. Its limit must be large enough.
  std::uint64_t stack_of(unsigned depth) const;
  /// An addition per value to fill the ring, an addition and a product in each round, an addition
  /// for the sum. Local memory does not count as global memory.
  Work work() const {
    const auto all = static_cast<double>(count_);
    return {.operations = all * values * (2 * rounds + 2),
            .bytes = 2 * sizeof(float) * all,
            .arithmetic = "fp32"};
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::uint64_t count_;
  DeviceArray<float> from_, to_;
  double best_ = 0;        ///< milliseconds of the first kernel
  double shallowest_ = 0;  ///< milliseconds of the first depth
};

std::uint64_t Cases::stack_of(unsigned depth) const {
  const DeviceArray<Stack> found(1);
  recursive<<<1, 1, 0, gpu_.stream()>>>(from_.data(), to_.data(), depth, found.data());
  check_launch("recursive");
  const Stack stack = found.read()[0];
  return stack.top - stack.bottom;
}

void Cases::add_recursion(unsigned depth) {
  const std::uint64_t shallow = stack_of(1), of_call = stack_of(2) - shallow;
  constexpr std::uint64_t reserve = 512;  // for the kernel itself and for the call of a function
  const std::uint64_t needed = shallow + (depth - 1) * of_call + reserve;
  std::size_t usual = 0;
  check(cudaDeviceGetLimit(&usual, cudaLimitStackSize), "cudaDeviceGetLimit");
  const std::uint64_t limit = std::max<std::uint64_t>(usual, (needed + 15) / 16 * 16);
  const cudaDeviceProp& gpu = gpu_.properties();
  const auto residents = static_cast<std::uint64_t>(gpu.maxThreadsPerMultiProcessor) *
                         static_cast<std::uint64_t>(gpu.multiProcessorCount);
  if (limit * residents > bench_.memory() / 4) {
    bench_.note(
        formatted("Calls of depth {} need {} bytes of stack for each thread that fits on "
                  "the GPU, which is too much memory here.",
                  depth, limit));
    return;
  }
  const LimitGuard guard(cudaLimitStackSize, limit);
  to_.clear(gpu_.stream());
  launch_recursion(depth);
  bench_.verify(are_nested_right(to_.read(0, 4096), depth), formatted("recursion, {}", depth));
  const Measured time = gpu_.time([&] { launch_recursion(depth); }).seconds.times(1e3);
  if (shallowest_ == 0) shallowest_ = time.value;
  const cudaFuncAttributes attributes = attributes_of(recursive);
  const auto all = static_cast<double>(count_);
  rows_.add({"recursion", formatted("depth {}", depth), std::int64_t{attributes.numRegs},
             to_cell(stack_of(depth)), to_cell(attributes.sharedSizeBytes),
             to_cell(local_access(0).sectors)},
            time, std::nan(""),
            formatted("{} times as long as depth {}; the limit is {} bytes for each of {} threads",
                      ratio_text(time.value / shallowest_), depths[0], limit, residents),
            {.operations = 3 * all * calls, .bytes = 2 * sizeof(float) * all, .arithmetic = "fp32"},
            time.value * 1e-3);
}

}  // namespace

Table spills(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"part", ColumnType::text},
                     {"case", ColumnType::text},
                     {"registers", ColumnType::integer},
                     {"local", ColumnType::integer, "B"},
                     {"shared", ColumnType::integer, "B"},
                     {"sectors", ColumnType::integer, "per warp"}},
                    {"time", ColumnType::real, "ms"}, Rows::of_kernels);
  Cases cases(bench, gpu, rows);
  cases.add("registers", in_registers, 0);
  cases.add("launch bounds", with_few_registers<SpillTo::local>, 0);
  if (can_spill_to_shared) {
    cases.add("launch bounds, to shared", with_few_registers<SpillTo::shared>, 0);
  } else {
    bench.note("Spills to shared memory are not available: they need nvcc 13.0.");
  }
  cases.add("register cap", with_capped_registers, 0);
  for (const unsigned turn : {0U, 1U}) {
    cases.add(turn == 0 ? "run-time index" : "index by lane", indexed_at_run_time, turn, turn);
  }
  for (const unsigned depth : depths) cases.add_recursion(depth);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
