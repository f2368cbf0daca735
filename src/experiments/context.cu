#include "experiments/context.hpp"

#include <cuda_runtime.h>

namespace shardstream::experiments {

bool context_is_lost() {
  (void)cudaGetLastError();  // an error of a call alone is forgotten here
  return cudaDeviceSynchronize() != cudaSuccess;
}

}  // namespace shardstream::experiments
