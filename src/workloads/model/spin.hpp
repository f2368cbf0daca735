// The kernel of `model`: keeps a whole device busy for a time, and counts.
#pragma once

#include <cstdint>

#include "kernels/kernel.hpp"

namespace shardstream::workloads::model {

/// Every thread of a host's team, and one full block on each multiprocessor of a GPU, spins for
/// `nanoseconds` of its own clock, at least 0, from when it starts. A GPU's clock may advance in
/// steps of a microsecond, and the spin can be shorter by one of them: who needs the whole time
/// looks at the host's clock afterwards.
struct SpinArgs {
  std::int64_t nanoseconds;
  int multiprocessors;    ///< of a GPU, 1 or more; ignored on the host backend
  std::int64_t counted;   ///< is added to `counter`, once for the whole kernel
  std::int64_t* counter;  ///< device memory; no other kernel may use it at the same time
};

Kernel<SpinArgs> spin_kernel();

}  // namespace shardstream::workloads::model
