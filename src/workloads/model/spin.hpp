// The kernel of `model`: keeps a whole device busy for a time, and counts.
#pragma once

#include <cstdint>

#include "kernels/kernel.hpp"

namespace shardstream::workloads::model {

/// Every thread of the host backend, or one full block on each multiprocessor of a GPU, spins for
/// `nanoseconds` >= 0 of its own clock. A GPU's clock may advance in steps of a microsecond, so the
/// spin may be shorter by one step: a caller that needs the exact time must check the host's clock
/// afterwards.
struct SpinArgs {
  std::int64_t nanoseconds;
  int multiprocessors;    ///< of a GPU, at least 1; ignored by the host backend
  std::int64_t counted;   ///< is added to `counter` once per kernel
  std::int64_t* counter;  ///< device memory; no other kernel may use it at the same time
};

Kernel<SpinArgs> spin_kernel();

}  // namespace shardstream::workloads::model
