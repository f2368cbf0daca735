#include "experiments/context.hpp"

#include <cuda_runtime.h>

namespace shardstream::experiments {

bool context_is_lost() {
  (void)cudaGetLastError();  // an error of a call alone is forgotten here
  return cudaDeviceSynchronize() != cudaSuccess;
}

int visible_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();  // no driver and no GPU are answers, too
    return 0;
  }
  return count;
}

}  // namespace shardstream::experiments
