// The cost of values that do not stay in registers. They go to local memory, which is cached device
// memory, if the kernel may use too few registers, or if an array is indexed by a number that is
// known only at run time. Local memory is laid out for lanes that all use the same index.
#include <cmath>
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/sectors.hpp"

namespace shardstream::experiments::memory {

Table spills(Bench& bench);

extern const Experiment about_spills = {
    .name = "spills",
    .group = "memory",
    .summary = "Values that do not fit in registers go to local memory, which is slower.",
    .explanation =
        "Each thread repeatedly mixes an array of 32 values. All of it fits in registers if every "
        "index is known at compile time. Then the kernel gets too few registers: 32 by launch "
        "bounds (64, which are enough, if a multiprocessor has fewer than 2048 threads), and 24 "
        "by a cap (__maxnreg__). Last, an index is known only at run time, so the array must be "
        "addressable. `registers` and `local` are the registers and bytes of local memory per "
        "thread, as the compiler reports them. Element k of the arrays of neighbouring threads "
        "lies in neighbouring words. So a warp touches 4 sectors if all lanes use the same index, "
        "and 32 (`sectors`) if the index differs between lanes: then local memory is not "
        "coalesced. Expect the time to grow with the bytes of local memory, and most with "
        "different indices. CUDA C++ Best Practices Guide, sections Registers and Local Memory; "
        "Programming Guide, section Device Memory Accesses.",
    .share = "of the speed with all values in registers",
    .figure = {.look = Look::bars, .x = "case", .y = "time", .more_is_better = false},
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

// The blocks of 1024 threads that a multiprocessor holds: it has 2048 threads, or 1536 or 1024.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 750 || __CUDA_ARCH__ % 100 > 50 || __CUDA_ARCH__ >= 1200)
constexpr int resident = 1;
#else
constexpr int resident = 2;
#endif

/// The launch bounds allow 65536 / 2048 = 32 registers per thread, fewer than stir() needs; with
/// one resident block, 64 are enough.
__global__ void __launch_bounds__(1024, resident) with_few_registers(const float* from, float* to) {
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
  const unsigned lane = threadIdx.x % lanes_of_warp;
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

/// The access of a warp to local memory, in which element k of neighbouring threads lies in
/// neighbouring words (CUDA C++ Programming Guide, section Device Memory Accesses).
Access local_access(unsigned turn) {
  const auto address = [&](std::uint64_t lane) {
    return (place(0, static_cast<unsigned>(lane), turn) * lanes_of_warp + lane) * sizeof(float);
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
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
          "cudaFuncGetAttributes");
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
    rows_.add({name, std::int64_t{attributes.numRegs}, local, static_cast<std::int64_t>(sectors)},
              time, best_ / time.value, remark(time.value, local, sectors), work(),
              time.value * 1e-3);
  }

 private:
  std::string remark(double time, std::int64_t local, std::uint64_t sectors) const {
    if (local == 0) return "every value has a register";
    return formatted("{} times as long: {} bytes per thread are in local memory{}",
                     ratio_text(time / best_), local,
                     std::string(sectors > 4 ? ", and each lane has a sector of its own" : ""));
  }
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
  double best_ = 0;  ///< milliseconds of the first kernel
};

}  // namespace

Table spills(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"case", ColumnType::text},
                     {"registers", ColumnType::integer},
                     {"local", ColumnType::integer, "B"},
                     {"sectors", ColumnType::integer, "per warp"}},
                    {"time", ColumnType::real, "ms"}, Rows::of_kernels);
  Cases cases(bench, gpu, rows);
  cases.add("registers", in_registers, 0);
  cases.add("launch bounds", with_few_registers, 0);
  cases.add("register cap", with_capped_registers, 0);
  for (const unsigned turn : {0U, 1U}) {
    cases.add(turn == 0 ? "run-time index" : "index by lane", indexed_at_run_time, turn, turn);
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
