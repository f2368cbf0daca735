// A library that is loaded into a rank with LD_PRELOAD, and makes the rank lose its GPU. The
// variable LOSE_GPU_OF names the rank, and LOSE_GPU_WHEN a file: when it appears, the GPU is lost.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "gpu/trap.hpp"

namespace {

/// The rank of this process under Open MPI; 0 for a process without a launcher.
std::string_view own_rank() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? "0" : rank;
}

/// Whether this process computes on GPU `device`.
bool uses(int device) {
  static const auto state = reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  return state != nullptr && state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

void lose_gpu_when(const std::string& file) {
  while (access(file.c_str(), F_OK) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  int count = 0;
  cudaGetDeviceCount(&count);
  for (int device = 0; device < count; ++device) {
    if (!uses(device)) continue;
    cudaSetDevice(device);
    shardstream::test::trap({}, nullptr);
    return;
  }
}

[[maybe_unused]] const bool started = [] {
  const char* const rank = std::getenv("LOSE_GPU_OF");
  const char* const file = std::getenv("LOSE_GPU_WHEN");
  if (rank == nullptr || file == nullptr || own_rank() != rank) return false;
  std::thread(lose_gpu_when, std::string(file)).detach();
  return true;
}();

}  // namespace
