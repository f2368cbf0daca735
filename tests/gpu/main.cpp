// The main of GPU tests: without a usable GPU they are skipped, visibly, or, with
// SHARDSTREAM_REQUIRE_GPU=1 in the environment, fail; they never pass.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    const char* why = status == cudaSuccess ? "no CUDA device" : cudaGetErrorString(status);
    const char* required = std::getenv("SHARDSTREAM_REQUIRE_GPU");
    if (required != nullptr && std::string_view(required) == "1") {
      std::printf("FAILED: SHARDSTREAM_REQUIRE_GPU=1, but no GPU is usable (%s)\n", why);
      return 1;
    }
    std::printf("SKIP: no GPU is visible (%s)\n", why);
    return 77;
  }
  return RUN_ALL_TESTS();
}
