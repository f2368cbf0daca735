// Two green contexts, which divide the multiprocessors of the GPU.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <optional>

#include "experiments/bench.hpp"
#include "experiments/context.hpp"
#include "experiments/driver_function.hpp"
#include "experiments/formatted.hpp"

namespace shardstream::experiments::execution {

#if CUDART_VERSION >= 12050

/// Throws NotAvailable unless `result`, of the driver's function `name`, is a success: the GPU or
/// its mode does not support it.
inline void need(CUresult result, const char* name) {
  if (result == CUDA_SUCCESS) return;
  throw NotAvailable(
      formatted("{} failed with error {}", std::string(name), static_cast<int>(result)));
}

/// A stream whose kernels run on some multiprocessors only. The destructor waits for them.
class GreenStream {
 public:
  GreenStream(CUdevice gpu, CUdevResource multiprocessors)
      : multiprocessors_(multiprocessors.sm.smCount),
        destroy_(driver_function<PFN_cuGreenCtxDestroy_v12040>("cuGreenCtxDestroy", 12040)) {
    const auto describe =
        driver_function<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc", 12040);
    const auto create = driver_function<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", 12040);
    const auto create_stream =
        driver_function<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", 12050);
    CUdevResourceDesc description = nullptr;
    need(describe(&description, &multiprocessors, 1), "cuDevResourceGenerateDesc");
    need(create(&context_, description, gpu, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    if (const CUresult result = create_stream(&stream_, context_, CU_STREAM_NON_BLOCKING, 0);
        result != CUDA_SUCCESS) {
      (void)destroy_(context_);
      need(result, "cuGreenCtxStreamCreate");
    }
  }
  GreenStream(const GreenStream&) = delete;
  GreenStream& operator=(const GreenStream&) = delete;
  ~GreenStream() {
    device::cuda::report(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    device::cuda::report(cudaStreamDestroy(stream_), "cudaStreamDestroy");
    (void)destroy_(context_);
  }

  cudaStream_t stream() const { return stream_; }
  unsigned multiprocessors() const { return multiprocessors_; }

 private:
  unsigned multiprocessors_;
  PFN_cuGreenCtxDestroy_v12040 destroy_;
  CUgreenCtx context_ = nullptr;
  CUstream stream_ = nullptr;
};

/// A small part of the current GPU's multiprocessors, and the rest.
class DividedGpu {
 public:
  /// Throws NotAvailable if the driver or the GPU has no green contexts.
  DividedGpu() {
    constexpr int since = 12050;
    if (driver_version() < since) throw NotAvailable("it needs a driver for CUDA 12.5 or newer");
    const auto get_gpu = driver_function<PFN_cuDeviceGet_v2000>("cuDeviceGet", 2000);
    const auto get =
        driver_function<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", 12040);
    const auto split = driver_function<PFN_cuDevSmResourceSplitByCount_v12040>(
        "cuDevSmResourceSplitByCount", 12040);
    CUdevice gpu = 0;
    need(get_gpu(&gpu, current_gpu()), "cuDeviceGet");
    CUdevResource all{}, part{}, rest{};
    need(get(gpu, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    unsigned parts = 1;
    constexpr unsigned min_multiprocessors = 8;  // the smallest part of a GPU with clusters
    need(split(&part, &parts, &all, &rest, 0, min_multiprocessors), "cuDevSmResourceSplitByCount");
    if (parts != 1 || rest.sm.smCount == 0) {
      throw NotAvailable("this GPU has too few multiprocessors");
    }
    part_.emplace(gpu, part);
    rest_.emplace(gpu, rest);
  }

  const GreenStream& part() const { return *part_; }
  const GreenStream& rest() const { return *rest_; }

 private:
  std::optional<GreenStream> part_, rest_;
};

#else

/// Stands for the streams, which the toolkit lacks.
class GreenStream {
 public:
  cudaStream_t stream() const { return nullptr; }
  unsigned multiprocessors() const { return 0; }
};
class DividedGpu {
 public:
  DividedGpu() { throw NotAvailable("this program was built with a toolkit older than 12.5"); }

  const GreenStream& part() const { return part_; }
  const GreenStream& rest() const { return part_; }

 private:
  GreenStream part_;
};

#endif

}  // namespace shardstream::experiments::execution
#endif  // SHARDSTREAM_HAS_CUDA
