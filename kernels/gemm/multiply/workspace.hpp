// Device memory that a plan owns, and errors of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace shardstream::gemm::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // reported here, so that the next launch does not report it again
  throw std::runtime_error(std::string(call)
                               .append(" failed (")
                               .append(cudaGetErrorName(status))
                               .append(": ")
                               .append(cudaGetErrorString(status))
                               .append(")"));
}

// Freeing fails only if the GPU is lost, which an earlier call has reported.
struct FreeDevice {
  void operator()(void* data) const { (void)cudaFree(data); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;

/// Memory on the current GPU of the calling thread. `of`: for the message of an error.
inline DeviceMemory allocate(std::size_t bytes, const std::string& of) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), ("cudaMalloc of " + of).c_str());
  return DeviceMemory(data);
}

}  // namespace shardstream::gemm::cuda
