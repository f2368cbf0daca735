#include "experiments/context.hpp"

#include <cuda_runtime.h>

#include "device/cuda/handles.hpp"

namespace shardstream::experiments {

using device::cuda::check;

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

std::vector<std::string> visible_addresses() {
  constexpr int length = 32;
  std::vector<std::string> addresses;
  for (int ordinal = 0; ordinal < visible_gpus(); ++ordinal) {
    char text[length] = {};
    check(cudaDeviceGetPCIBusId(text, length, ordinal), "cudaDeviceGetPCIBusId");
    addresses.emplace_back(text);
  }
  return addresses;
}

int current_gpu() {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice");
  return ordinal;
}

}  // namespace shardstream::experiments
