// The cost of bank conflicts. Shared memory has 32 banks, each one word wide. Lanes of a warp that
// read different words of the same bank are served one after the other. The classic case is the
// transpose of a matrix through a tile in shared memory; one word of padding per row avoids the
// conflicts.
#include <numeric>
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

Table banks(Bench& bench);

extern const Experiment about_banks = {
    .name = "banks",
    .group = "memory",
    .summary = "Words in the same bank of shared memory are read one after the other.",
    .explanation =
        "All warps read shared memory with strides of 1 to 32 words. Two lanes conflict if their "
        "words are different and lie in the same one of the 32 banks. If g is the greatest "
        "common divisor of the stride and 32, expect g-way conflicts, which take g times as "
        "long, and none for odd strides. Then a matrix is transposed in three ways: without "
        "shared memory; through a tile of 32 x 32 words, in which each column lies in one bank; "
        "and through a tile with one word of padding in each row. CUDA C++ Best Practices Guide, "
        "section Shared Memory.",
    .share =
        "for reads, of the rate of stride 1; for transposes, of the rate of a copy in device "
        "memory",
    .figure = {.look = Look::bars, .x = "case", .y = "rate"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<banks>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned banks_of_memory = 32;
constexpr unsigned threads = 1024;
constexpr unsigned words = 2048;  // in shared memory
constexpr unsigned reads = 1024;  // per thread

/// Thread t adds up words t mod 32 * stride + r for r below `reads`.
__global__ void __launch_bounds__(threads) read_strided(unsigned stride, unsigned* sums) {
  __shared__ unsigned memory[words];
  for (unsigned i = threadIdx.x; i < words; i += threads) memory[i] = i;
  __syncthreads();
  const unsigned first = threadIdx.x % banks_of_memory * stride;
  unsigned sum = 0;
#pragma unroll 16
  for (unsigned r = 0; r < reads; ++r) sum += memory[first + r];
  sums[blockIdx.x * threads + threadIdx.x] = sum;
}

bool is_right(const std::vector<unsigned>& sums, unsigned stride) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const unsigned first = static_cast<unsigned>(i) % banks_of_memory * stride;
    if (sums[i] != reads * first + reads * (reads - 1) / 2) return false;
  }
  return true;
}

constexpr unsigned tile = 32, rows_of_block = 8;

/// Without shared memory: neighbouring threads write words that are n words apart.
__global__ void transpose_plainly(const float* from, float* to, unsigned n) {
  const unsigned x = blockIdx.x * tile + threadIdx.x;
  for (unsigned y = blockIdx.y * tile + threadIdx.y; y < (blockIdx.y + 1) * tile;
       y += rows_of_block) {
    to[std::uint64_t{x} * n + y] = from[std::uint64_t{y} * n + x];
  }
}

/// Through a tile in shared memory with `Padding` additional words per row. Global memory is read
/// and written in whole lines. Without padding, the 32 words of a column of the tile lie in one
/// bank.
template <unsigned Padding>
__global__ void transpose_through_tile(const float* from, float* to, unsigned n) {
  __shared__ float square[tile][tile + Padding];
  const unsigned row = blockIdx.y * tile, column = blockIdx.x * tile;
  for (unsigned y = threadIdx.y; y < tile; y += rows_of_block) {
    square[y][threadIdx.x] = from[std::uint64_t{row + y} * n + column + threadIdx.x];
  }
  __syncthreads();
  for (unsigned y = threadIdx.y; y < tile; y += rows_of_block) {
    to[std::uint64_t{column + y} * n + row + threadIdx.x] = square[threadIdx.x][y];
  }
}

__global__ void count_wrong(const float* to, unsigned n, unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= std::uint64_t{n} * n) return;
  if (to[i] != unit_number(i % n * n + i / n)) atomicAdd(wrong, 1);
}

/// Measures reads with every stride.
void add_reads(Bench& bench, Gpu& gpu, Measurements& rows) {
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount * 2);
  DeviceArray<unsigned> sums(std::uint64_t{blocks} * threads);
  double free_of_conflicts = 0;
  for (unsigned stride = 1; stride <= banks_of_memory;
       stride = bench.is_quick() ? 2 * stride : stride + 1) {
    const auto read = [&] {
      read_strided<<<blocks, threads, 0, gpu.stream()>>>(stride, sums.data());
      check_launch("read_strided");
    };
    sums.clear(gpu.stream());
    read();
    gpu.synchronize();
    bench.verify(is_right(sums.read(), stride), formatted("reads with stride {}", stride));
    const Measured rate = gpu.time(read).rate(4.0 * reads * static_cast<double>(sums.size()));
    const unsigned conflict = std::gcd(stride, banks_of_memory);
    if (stride == 1) free_of_conflicts = rate.value;
    const double slower = free_of_conflicts / rate.value;
    const bool expected = slower > 0.8 * conflict && slower < 1.2 * conflict;
    std::string remark = "free of conflicts";
    if (conflict > 1) remark = formatted("{:.2g} times slower", slower);
    if (!expected) remark += formatted(", not {} times: other costs hide a part", conflict);
    rows.add({formatted("reads, stride {}", stride), std::int64_t{conflict}}, rate,
             rate.value / free_of_conflicts, remark);
  }
}

void add_transposes(Bench& bench, Gpu& gpu, Measurements& rows) {
  const unsigned n = bench.is_quick() ? 8192 : 16384;
  const std::uint64_t count = std::uint64_t{n} * n;
  DeviceArray<float> from(count), to(count);
  DeviceArray<unsigned> wrong(1);
  fill(from, gpu.stream());
  const dim3 grid(n / tile, n / tile), block(tile, rows_of_block);
  using Kernel = void (*)(const float*, float*, unsigned);
  const auto add = [&](const char* name, Kernel kernel, std::int64_t conflict, const char* remark) {
    const auto transpose = [&] {
      kernel<<<grid, block, 0, gpu.stream()>>>(from.data(), to.data(), n);
      check_launch(name);
    };
    to.clear(gpu.stream());
    wrong.clear(gpu.stream());
    transpose();
    count_wrong<<<blocks_for(count, threads), threads, 0, gpu.stream()>>>(to.data(), n,
                                                                          wrong.data());
    check_launch("count_wrong");
    gpu.synchronize();
    bench.verify(wrong.read()[0] == 0, name);
    const Measured rate = gpu.time(transpose).rate(8.0 * static_cast<double>(count));
    rows.add({name, conflict}, rate, rate.value / bench.ceiling("device_copy"), remark);
  };
  add("transpose, no tile", transpose_plainly, 1,
      "no shared memory; writes with a stride of one row");
  add("transpose 32 x 32", transpose_through_tile<0>, 32,
      "whole lines, but reads of the tile have 32-way conflicts");
  add("transpose 32 x 33", transpose_through_tile<1>, 1,
      "one word of padding removes the conflicts");
}

}  // namespace

Table banks(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"case", ColumnType::text}, {"conflict", ColumnType::integer, "ways"}},
                    {"rate", ColumnType::real, "GB/s"});
  add_reads(bench, gpu, rows);
  add_transposes(bench, gpu, rows);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
