// The facts about this rank's GPU that decide whether further processes can use it. Empty in a
// build without CUDA.
#pragma once

#include "experiments/execution/sharing_ways.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>

#include "device/cuda/handles.hpp"
#include "experiments/context.hpp"

namespace shardstream::experiments::execution {

/// Whether new processes become clients of MPS: 1 or 0; 2 if an old driver does not tell.
inline std::uint64_t mps_state() {
  int has_mps = 0;
  if (cudaDeviceGetAttribute(&has_mps, cudaDevAttrMpsEnabled, current_gpu()) != cudaSuccess) {
    (void)cudaGetLastError();
    return 2;
  }
  return has_mps != 0 ? 1 : 0;
}

/// The facts about the current GPU.
inline SharingFacts facts_of_this_machine() {
  int mode = 0;
  device::cuda::check(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, current_gpu()),
                      "cudaDeviceGetAttribute");
  SharingFacts facts;
  if (mode == cudaComputeModeProhibited) facts.mode = ComputeMode::prohibited;
  if (mode == cudaComputeModeExclusive || mode == cudaComputeModeExclusiveProcess) {
    facts.mode = ComputeMode::exclusive;
  }
  const std::uint64_t state = mps_state();
  facts.has_mps = state < 2 ? state == 1 : has_control_pipe(std::getenv("CUDA_MPS_PIPE_DIRECTORY"));
  return facts;
}

}  // namespace shardstream::experiments::execution
#endif  // SHARDSTREAM_HAS_CUDA
