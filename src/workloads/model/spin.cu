// One block on each multiprocessor reads the GPU's clock until the time has passed.
#include "workloads/model/cuda.hpp"

namespace shardstream::workloads::model::cuda {
namespace {

// The largest block, which fills at least half of a multiprocessor on every GPU. If only one block
// fits, a second block would have to wait, which would double the time.
constexpr unsigned threads = 1024;

/// A clock in nanoseconds that is the same on all multiprocessors.
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
