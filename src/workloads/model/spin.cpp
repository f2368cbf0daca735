#include "workloads/model/spin.hpp"

#include <chrono>

#include "workloads/model/cuda.hpp"

namespace shardstream::workloads::model {
namespace {

void spin(const SpinArgs& args, unsigned part, unsigned) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::nanoseconds(args.nanoseconds);
  if (part == 0) *args.counter += args.counted;
  while (Clock::now() < end) {
  }
}

}  // namespace

Kernel<SpinArgs> spin_kernel() {
  return {"spin", spin, with_cuda<cuda::spin>()};
}

}  // namespace shardstream::workloads::model
