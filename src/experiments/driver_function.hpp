// Functions of the driver library, with which the program is not linked, so that it also starts
// without a driver. Empty in a build without CUDA, as gpu.hpp.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cuda_runtime.h>

#include <string>

#include "core/error.hpp"
#include "device/cuda/handles.hpp"

namespace shardstream::experiments {

/// The newest version of CUDA that the driver supports, 12040 for 12.4.
inline int driver_version() {
  int version = 0;
  device::cuda::check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return version;
}

/// The driver's function `name` in its form of CUDA `version`, 12000 for 12.0. `Function` is its
/// pointer type, from cudaTypedefs.h. Throws Error if the driver does not have it.
template <class Function>
Function driver_function(const char* name, [[maybe_unused]] unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  device::cuda::check(
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found),
      "cudaGetDriverEntryPointByVersion");
#else
  device::cuda::check(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found),
                      "cudaGetDriverEntryPoint");
#endif
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw Error(std::string("the driver has no ") + name + ": install a driver for CUDA 12");
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
