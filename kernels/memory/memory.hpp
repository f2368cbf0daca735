// Plain traffic to memory: what a kernel that only reads, or only copies, reaches on this device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.hpp"

namespace shardstream::memory {

/// Reads `bytes` bytes once, in words of 16 bytes, and writes next to nothing.
struct ReadArgs {
  const std::byte* data;  ///< aligned to 16 bytes
  std::uint64_t bytes;    ///< a multiple of 16
  std::uint64_t* sink;    ///< may be written, so that the reads cannot be left out
};
Kernel<ReadArgs> read_kernel();

/// Copies `bytes` bytes on the device; the traffic is twice that.
struct CopyArgs {
  const std::byte* from;  ///< aligned to 16 bytes, as is `to`
  std::byte* to;
  std::uint64_t bytes;  ///< a multiple of 16
};
Kernel<CopyArgs> copy_kernel();

// The launchers: each enqueues its kernels and does not wait.
namespace cuda {
void read(const ReadArgs& args, CudaStream stream);
void copy(const CopyArgs& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::memory
