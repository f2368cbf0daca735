// Plain reads, sums and copies, to measure memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.hpp"

namespace shardstream::memory {

/// Reads `bytes` bytes once, in words of 16 bytes.
struct ReadArgs {
  const std::byte* data;  ///< aligned to 16 bytes
  std::uint64_t bytes;    ///< a multiple of 16
  std::uint64_t* sink;    ///< device memory; written in rare cases, so that the compiler keeps
                          ///< the reads
};
Kernel<ReadArgs> read_kernel();

/// Adds the 64-bit words of `bytes` bytes to *sum, modulo 2^64, in any order. Bytes after the last
/// word count as a word whose other bytes are 0.
struct SumArgs {
  const std::byte* data;  ///< aligned to 16 bytes
  std::uint64_t bytes;
  std::uint64_t* sum;  ///< device memory
};
Kernel<SumArgs> sum_kernel();

/// Copies `bytes` bytes on the device. The traffic is twice that. The two must not overlap.
struct CopyArgs {
  const std::byte* from;  ///< aligned to 16 bytes, as is `to`
  std::byte* to;
  std::uint64_t bytes;  ///< a multiple of 16
};
Kernel<CopyArgs> copy_kernel();

// The launchers. They enqueue kernels and do not wait.
namespace cuda {
void read(const ReadArgs& args, CudaStream stream);
void sum(const SumArgs& args, CudaStream stream);
void copy(const CopyArgs& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::memory
