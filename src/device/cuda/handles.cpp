#include "device/cuda/handles.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "core/error.hpp"

namespace shardstream::device::cuda {
namespace {

/// What the user can do about a failure; empty where CUDA's own words say all.
const char* remedy(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return ": use smaller batches or slots (pipeline.batch, pipeline.slot), or free the GPU";
    case cudaErrorInsufficientDriver:
      return ": update the NVIDIA driver";
    case cudaErrorNoKernelImageForDevice:
      return ": build for this GPU's architecture (CMAKE_CUDA_ARCHITECTURES)";
    case cudaErrorDevicesUnavailable:
      return ": another process holds the GPU exclusively, or it is not this job's";
    case cudaErrorECCUncorrectable:
      return ": the GPU's memory is faulty; use another one";
    default:
      return "";
  }
}

}  // namespace

void check(cudaError_t status, const char* call, std::source_location where) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // it is told here: the next launch must not find it again
  throw Error(fmt::format("{} failed ({}: {}){}", call, cudaGetErrorName(status),
                          cudaGetErrorString(status), remedy(status)),
              where);
}

void report(cudaError_t status, const char* call) noexcept {
  // A process that ends has taken the driver down already; there is nothing left to release then.
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  std::fprintf(stderr, "warning: %s failed (%s)\n", call, cudaGetErrorName(status));
}

}  // namespace shardstream::device::cuda
