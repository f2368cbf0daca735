// Reads of shared memory without conflicts, in words of 4, 8 or 16 bytes.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// Bytes that shared memory moves for an access of a warp.
inline constexpr double shared_access = 128;

inline constexpr unsigned shared_readers = 1024;  // threads of a block
inline constexpr unsigned shared_words = 2048;    // of a block
inline constexpr unsigned reads_of_round = 16, rounds_of_reads = 200;

/// Thread t adds up words t, t + 32, ..., and starts over at word t xor 32 in each round. Word i
/// has the parts i, i + 1, ...
template <class Word>
__global__ void __launch_bounds__(shared_readers) read_shared(unsigned* sums) {
  constexpr unsigned parts = sizeof(Word) / sizeof(unsigned);
  __shared__ Word words[shared_words];
  auto* const all_parts = reinterpret_cast<unsigned*>(words);
  for (unsigned i = threadIdx.x; i < shared_words * parts; i += shared_readers) {
    all_parts[i] = i / parts + i % parts;
  }
  __syncthreads();
  unsigned at = threadIdx.x, sum = 0;
#pragma unroll 1
  for (unsigned round = 0; round < rounds_of_reads; ++round) {
    Word word[reads_of_round];
#pragma unroll
    for (unsigned k = 0; k < reads_of_round; ++k) word[k] = words[at + k * 32];
#pragma unroll
    for (unsigned k = 0; k < reads_of_round * parts; ++k) {
      sum += reinterpret_cast<const unsigned*>(word)[k];
    }
    at ^= 32;
  }
  sums[blockIdx.x * shared_readers + threadIdx.x] = sum;
}

/// The sum that thread t of a block must find.
template <class Word>
constexpr unsigned sum_of_shared(unsigned t) {
  constexpr unsigned parts = sizeof(Word) / sizeof(unsigned);
  unsigned sum = 0;
  for (unsigned round = 0; round < rounds_of_reads; ++round) {
    for (unsigned k = 0; k < reads_of_round; ++k) {
      const unsigned word = (round % 2 == 0 ? t : t ^ 32) + k * 32;
      sum += parts * word + parts * (parts - 1) / 2;
    }
  }
  return sum;
}

struct SharedReads {
  Timing timing;  ///< of a launch
  Work work;
};

/// Verifies and measures reads by two blocks on each multiprocessor.
template <class Word>
SharedReads measure_shared_reads(Bench& bench, Gpu& gpu) {
  const auto blocks = static_cast<unsigned>(gpu.properties().multiProcessorCount * 2);
  const DeviceArray<unsigned> sums(std::uint64_t{blocks} * shared_readers);
  const auto read = [&] {
    read_shared<Word><<<blocks, shared_readers, 0, gpu.stream()>>>(sums.data());
    check_launch("read_shared");
  };
  sums.clear(gpu.stream());
  read();
  const std::vector<unsigned> found = sums.read();
  bool is_right = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto thread = static_cast<unsigned>(i % shared_readers);
    is_right = is_right && found[i] == sum_of_shared<Word>(thread);
  }
  bench.verify(is_right, formatted("reads of {} bytes in shared memory", sizeof(Word)));
  constexpr double parts = sizeof(Word) / sizeof(unsigned);
  const double reads = 1.0 * reads_of_round * rounds_of_reads * static_cast<double>(sums.size());
  // Global memory gets the sums only.
  return {gpu.time(read),
          {.operations = parts * reads,
           .bytes = static_cast<double>(sums.bytes()),
           .distinct = static_cast<double>(sums.bytes()),
           .shared = sizeof(Word) * reads,
           .instructions = (1 + parts) * reads / 32}};
}

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
