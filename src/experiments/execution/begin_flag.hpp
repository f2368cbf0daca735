// How the host finds out that a kernel has begun.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include "experiments/gpu.hpp"

namespace shardstream::experiments::execution {

/// A flag in the memory of the host that a kernel sets when it begins.
class BeginFlag {
 public:
  BeginFlag() : flag_(1, cudaHostAllocMapped) { forget(); }

  unsigned* data() const { return flag_.data(); }
  void forget() const { *value() = 0; }
  /// Waits until the kernel has begun. Gives up after a second.
  void wait() const {
    const auto begin = Clock::now();
    while (*value() == 0 && seconds_since(begin) < 1) {
    }
  }

 private:
  volatile unsigned* value() const { return flag_.data(); }

  PinnedArray<unsigned> flag_;
};

}  // namespace shardstream::experiments::execution
#endif  // SHARDSTREAM_HAS_CUDA
