#include "kernels/gemm/cuda.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Adds the values of a warp to *sum. They are integers, so their order does not matter.
__device__ void add_warp(std::uint64_t value, std::uint64_t* sum) {
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
  }
}

constexpr unsigned flight = 8;  // loads of a thread before it uses the first
constexpr unsigned rounds = 8;  // a warp sums 32 KiB before it ends with an atomic
constexpr std::uint64_t pairs_a_block = std::uint64_t{threads} * flight * rounds;
constexpr std::uint64_t max_rows = 4096;  // side by side; with more rows, a block sums several

__global__ void __launch_bounds__(threads)
    sum_pairs(const ulonglong2* pairs, std::uint64_t count, std::uint64_t rows, std::uint64_t pitch,
              std::uint64_t* sum) {
  std::uint64_t mine = 0;
  const std::uint64_t begin = blockIdx.x * pairs_a_block + threadIdx.x;
  for (std::uint64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const ulonglong2* const here = pairs + row * pitch;
    for (unsigned round = 0; round < rounds; ++round) {
      const std::uint64_t first = begin + round * std::uint64_t{threads} * flight;
      if (first - threadIdx.x >= count) break;
      ulonglong2 pair[flight];
#pragma unroll
      for (unsigned i = 0; i < flight; ++i) {
        const std::uint64_t at = first + i * threads;
        pair[i] = at < count ? here[at] : ulonglong2{0, 0};
      }
#pragma unroll
      for (unsigned i = 0; i < flight; ++i) mine += pair[i].x + pair[i].y;
    }
  }
  add_warp(mine, sum);
}

/// One word per thread, read byte by byte: for unaligned data, and for the end of a row.
__global__ void __launch_bounds__(threads)
    sum_bytes(const std::uint8_t* data, std::uint64_t bytes, std::uint64_t* sum) {
  const std::uint64_t first = (std::uint64_t{blockIdx.x} * threads + threadIdx.x) * 8;
  std::uint64_t word = 0;
  for (unsigned i = 0; i < 8; ++i) {
    if (first + i < bytes) word |= std::uint64_t{data[first + i]} << (8 * i);
  }
  add_warp(word, sum);
}

}  // namespace

void add_word_checksums(const WordChecksumArgs& args, CudaStream stream) {
  constexpr std::uint64_t pair = sizeof(ulonglong2);
  const auto* bytes = static_cast<const std::uint8_t*>(args.data);
  const bool one = args.rows == 1;
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % pair == 0 &&
                       (one || (args.bytes % pair == 0 && args.pitch % pair == 0));
  const std::uint64_t pairs = aligned ? args.bytes / pair : 0;
  if (pairs > 0 && args.rows > 0) {
    const dim3 blocks(static_cast<unsigned>(ceil_div(pairs, pairs_a_block)),
                      static_cast<unsigned>(args.rows < max_rows ? args.rows : max_rows));
    sum_pairs<<<blocks, threads, 0, stream>>>(reinterpret_cast<const ulonglong2*>(bytes), pairs,
                                              args.rows, args.pitch / pair, args.sum);
  }
  const std::uint64_t rest = args.bytes - pairs * pair;
  if (rest == 0) return;
  for (std::uint64_t row = 0; row < args.rows; ++row) {
    sum_bytes<<<static_cast<unsigned>(ceil_div(rest, threads * 8)), threads, 0, stream>>>(
        bytes + row * args.pitch + (args.bytes - rest), rest, args.sum);
  }
}

}  // namespace shardstream::gemm::cuda
