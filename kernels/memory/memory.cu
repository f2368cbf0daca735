#include "kernels/memory/memory.hpp"

#include <algorithm>

namespace shardstream::memory::cuda {
namespace {

constexpr unsigned threads = 256;

// Each thread keeps many loads in flight, to hide the latency of memory.
constexpr unsigned flight = 8;  // words that a thread loads before it uses the first
constexpr unsigned rounds = 8;  // a block reads 256 KiB, so that the start of a block costs little
constexpr std::uint64_t words_of_read = std::uint64_t{threads} * flight * rounds;  // per block

/// Calls use(words) for the next words of the thread, until its block has read all of its own.
/// Words beyond `count` are 0.
template <class Use>
__device__ void for_words(const std::byte* data, std::uint64_t count, const Use& use) {
  const auto* words = reinterpret_cast<const uint4*>(data);
  const std::uint64_t begin = blockIdx.x * words_of_read;
  for (unsigned round = 0; round < rounds; ++round) {
    const std::uint64_t first = begin + round * std::uint64_t{threads} * flight + threadIdx.x;
    uint4 word[flight] = {};
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) {
      if (first + i * threads < count) word[i] = words[first + i * threads];
    }
    use(word);
  }
}

__global__ void __launch_bounds__(threads) read_words(ReadArgs args) {
  unsigned mixed = 0;
  for_words(args.data, args.bytes / sizeof(uint4), [&](const uint4(&word)[flight]) {
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) mixed ^= word[i].x ^ word[i].y ^ word[i].z ^ word[i].w;
  });
  if (mixed == 0x5eed5eedu) *args.sink = mixed;
}

__device__ std::uint64_t joined(unsigned low, unsigned high) {
  return std::uint64_t{high} << 32 | low;
}

__global__ void __launch_bounds__(threads) sum_words(SumArgs args) {
  __shared__ unsigned long long sum_of_block;
  if (threadIdx.x == 0) sum_of_block = 0;
  __syncthreads();
  const std::uint64_t count = args.bytes / sizeof(uint4);
  unsigned long long sum = 0;
  for_words(args.data, count, [&](const uint4(&word)[flight]) {
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) {
      sum += joined(word[i].x, word[i].y) + joined(word[i].z, word[i].w);
    }
  });
  if (blockIdx.x == 0 && threadIdx.x < args.bytes % sizeof(uint4)) {
    const auto byte =
        static_cast<unsigned long long>(args.data[count * sizeof(uint4) + threadIdx.x]);
    sum += byte << (8 * (threadIdx.x % 8));
  }
  atomicAdd(&sum_of_block, sum);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(args.sum), sum_of_block);
}

/// Each thread copies one word. For a copy, this is faster than many loads in flight per thread
/// (4265 instead of 3900 GB/s on an H200).
__global__ void __launch_bounds__(threads) copy_words(CopyArgs args) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= args.bytes / sizeof(uint4)) return;
  reinterpret_cast<uint4*>(args.to)[i] = reinterpret_cast<const uint4*>(args.from)[i];
}

/// The number of blocks for `bytes` bytes, if each takes `words` words of 16 bytes.
unsigned blocks(std::uint64_t bytes, std::uint64_t words) {
  return static_cast<unsigned>((bytes / sizeof(uint4) + words - 1) / words);
}

}  // namespace

void read(const ReadArgs& args, CudaStream stream) {
  read_words<<<blocks(args.bytes, words_of_read), threads, 0, stream>>>(args);
}

void sum(const SumArgs& args, CudaStream stream) {
  if (args.bytes == 0) return;
  const unsigned grid = std::max(1U, blocks(args.bytes, words_of_read));
  sum_words<<<grid, threads, 0, stream>>>(args);
}

void copy(const CopyArgs& args, CudaStream stream) {
  copy_words<<<blocks(args.bytes, threads), threads, 0, stream>>>(args);
}

}  // namespace shardstream::memory::cuda
