#include "experiments/context.hpp"

#include <cuda_runtime.h>

namespace shardstream::experiments {

bool context_is_lost() {
  (void)cudaGetLastError();  // clears an error that concerned a single call
  return cudaDeviceSynchronize() != cudaSuccess;
}

int visible_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();  // a missing driver or GPU is no error here
    return 0;
  }
  return count;
}

}  // namespace shardstream::experiments
