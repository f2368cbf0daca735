// The cost of values that do not stay in registers. They go to local memory, which is cached device
// memory, if the kernel may use too few registers, or if an array is indexed by a number that is
// known only at run time.
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

Table spills(Bench& bench);

extern const Experiment about_spills = {
    .name = "spills",
    .group = "memory",
    .summary = "Values that do not fit in registers go to local memory, which is slower.",
    .explanation =
        "Each thread repeatedly mixes an array of 32 values. All of it fits in registers if "
        "every index is known at compile time. Then the kernel gets too few registers, by launch "
        "bounds and by a cap (__maxnreg__). Last, an index is known only at run time, so the "
        "array must be addressable. The table shows the registers and the bytes of local memory "
        "per thread, as the compiler reports them. Expect the time to grow with the bytes of "
        "local memory. CUDA C++ Best Practices Guide, sections Registers and Local Memory.",
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

/// The launch bounds allow 65536 / 2048 = 32 registers per thread, fewer than stir() needs.
__global__ void __launch_bounds__(1024, 2) with_few_registers(const float* from, float* to) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  to[i] = stir(from[i]);
}

/// The same limit by a cap, which does not restrict the size of a block.
__global__ void __maxnreg__(32) with_capped_registers(const float* from, float* to) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  to[i] = stir(from[i]);
}

/// Indices depend on `one`, which is 1 at run time, so the ring must be addressable.
__global__ void indexed_at_run_time(const float* from, float* to, unsigned one) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  float ring[values];
  for (unsigned i = 0; i < values; ++i) ring[i * one] = from[thread] + static_cast<float>(i);
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < values; ++i) {
      ring[i * one] = 0.5F * (ring[i * one] + ring[(i + one) % values]);
    }
  }
  float sum = 0;
  for (unsigned i = 0; i < values; ++i) sum += ring[i * one];
  to[thread] = sum;
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

}  // namespace

Table spills(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t count = std::uint64_t{bench.is_quick() ? 1U : 4U} << 20;
  const DeviceArray<float> from(count), to(count);
  fill(from, gpu.stream());
  Measurements rows({{"case", ColumnType::text},
                     {"registers", ColumnType::integer},
                     {"local", ColumnType::integer, "B"}},
                    {"time", ColumnType::real, "ms"});
  double best = 0;
  const auto add = [&](const char* name, const void* kernel, const std::function<void()>& launch) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    to.clear(gpu.stream());
    launch();
    bench.verify(is_right(to.read(0, 4096)), name);
    const Measured seconds = gpu.time(launch).seconds;
    const Measured time = seconds.times(1e3);
    if (best == 0) best = time.value;
    rows.add(
        {name, std::int64_t{attributes.numRegs},
         static_cast<std::int64_t>(attributes.localSizeBytes)},
        time, best / time.value,
        attributes.localSizeBytes == 0
            ? "every value has a register"
            : formatted("{:.2g} times as long: {} bytes per thread are in local memory",
                        time.value / best, static_cast<std::uint64_t>(attributes.localSizeBytes)));
  };
  const unsigned blocks = blocks_for(count, threads);
  const cudaStream_t stream = gpu.stream();
  add("registers", reinterpret_cast<const void*>(in_registers), [&] {
    in_registers<<<blocks, threads, 0, stream>>>(from.data(), to.data());
    check_launch("in_registers");
  });
  add("launch bounds", reinterpret_cast<const void*>(with_few_registers), [&] {
    with_few_registers<<<blocks, threads, 0, stream>>>(from.data(), to.data());
    check_launch("with_few_registers");
  });
  add("register cap", reinterpret_cast<const void*>(with_capped_registers), [&] {
    with_capped_registers<<<blocks, threads, 0, stream>>>(from.data(), to.data());
    check_launch("with_capped_registers");
  });
  add("run-time index", reinterpret_cast<const void*>(indexed_at_run_time), [&] {
    indexed_at_run_time<<<blocks, threads, 0, stream>>>(from.data(), to.data(), 1);
    check_launch("indexed_at_run_time");
  });
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
