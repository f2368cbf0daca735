#include "gpu/need_gpus.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace shardstream::test {

std::optional<int> exit_code_without_gpus(int needed) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices >= needed) return std::nullopt;
  if (status == cudaSuccess && devices > 0) {
    std::printf("SKIP: %d GPUs are needed, %d visible\n", needed, devices);
    return 77;
  }
  const char* why = status == cudaSuccess ? "no CUDA device" : cudaGetErrorString(status);
  const char* required = std::getenv("SHARDSTREAM_REQUIRE_GPU");
  if (required != nullptr && std::string_view(required) == "1") {
    std::printf("FAILED: SHARDSTREAM_REQUIRE_GPU=1, but no GPU is usable (%s)\n", why);
    return 1;
  }
  std::printf("SKIP: no GPU is visible (%s)\n", why);
  return 77;
}

}  // namespace shardstream::test
