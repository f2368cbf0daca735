// One block on each multiprocessor reads the GPU's clock until the time is over.
#include "workloads/model/cuda.hpp"

namespace shardstream::workloads::model::cuda {
namespace {

// The largest block: it fills half of a multiprocessor or more on every GPU. A second block on each
// would have to wait where only one fits, and double the time.
constexpr unsigned threads = 1024;

/// Nanoseconds, the same clock on all multiprocessors.
__device__ std::int64_t now() {
  std::int64_t time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void __launch_bounds__(threads) spin_blocks(SpinArgs args) {
  const std::int64_t begin = now();
  if (blockIdx.x == 0 && threadIdx.x == 0) *args.counter += args.counted;
  while (now() - begin < args.nanoseconds) {
  }
}

}  // namespace

void spin(const SpinArgs& args, CudaStream stream) {
  spin_blocks<<<static_cast<unsigned>(args.multiprocessors), threads, 0, stream>>>(args);
}

}  // namespace shardstream::workloads::model::cuda
