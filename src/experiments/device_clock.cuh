// The GPU's clock and the place of a thread, for kernels that record when and where they run.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstdint>

namespace shardstream::experiments {

/// Nanoseconds of a timer that all multiprocessors share. Its resolution is up to 1 us.
__device__ inline std::uint64_t global_nanoseconds() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Returns after `nanoseconds` or a little more, with the time that has passed.
__device__ inline std::uint64_t spin(std::uint64_t nanoseconds) {
  const std::uint64_t begin = global_nanoseconds();
  std::uint64_t passed = 0;
  do {
    passed = global_nanoseconds() - begin;
  } while (passed < nanoseconds);
  return passed;
}

/// The number of the multiprocessor that runs this thread.
__device__ inline unsigned multiprocessor() {
  unsigned number = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
