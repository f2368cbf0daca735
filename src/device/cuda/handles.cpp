#include "device/cuda/handles.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "core/error.hpp"

namespace shardstream::device::cuda {
namespace {

/// The calling thread's.
thread_local std::shared_ptr<const Gpu> used;

/// What the user has been told last, by an error or a warning.
std::atomic<cudaError_t> told = cudaSuccess;

/// What the user can do about a failure, {0} being this host; empty where CUDA's own words say all.
const char* remedy(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return ": use smaller batches or slots (pipeline.batch, pipeline.slot), or free the GPU";
    case cudaErrorInsufficientDriver:
      return ": update the NVIDIA driver";
    case cudaErrorNoKernelImageForDevice:
      return ": build for this GPU's architecture (CMAKE_CUDA_ARCHITECTURES)";
    case cudaErrorDevicesUnavailable:
      return ": another process holds the GPU exclusively, it is not this job's, or it has failed: "
             "see nvidia-smi on {0}";
    case cudaErrorSystemNotReady:
      return ": the NVIDIA fabric manager does not run on {0}: have it started, or leave that node "
             "out";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
      return ": the GPU has failed in the middle of the run: see dmesg on {0} for its Xid and "
             "nvidia-smi -q for its state, and leave that GPU or node out (CUDA_VISIBLE_DEVICES, "
             "sbatch --exclude={0})";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorAssert:
      return ": a kernel went astray, by a fault of this program or of the GPU: try another GPU "
             "than this one on {0}, and report it if it happens there too";
    default:
      return "";
  }
}

std::string host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

}  // namespace

void use(const std::shared_ptr<const Gpu>& gpu) {
  if (used != gpu) used = gpu;
  check(cudaSetDevice(gpu->ordinal), "cudaSetDevice");
}

void check(cudaError_t status, const char* call, std::source_location where) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // it is told here: the next launch must not find it again
  told = status;
  const std::string gpu = used ? fmt::format(" on GPU {} ({})", used->ordinal, used->name) : "";
  const std::string help = fmt::format(fmt::runtime(remedy(status)), host());
  throw Error(fmt::format("{}{} failed ({}: {}){}", call, gpu, cudaGetErrorName(status),
                          cudaGetErrorString(status), help),
              where);
}

void report(cudaError_t status, const char* call) noexcept {
  // A process that ends has taken the driver down already; there is nothing left to release then.
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  if (told.exchange(status) == status) return;
  std::fprintf(stderr, "warning: %s failed (%s)\n", call, cudaGetErrorName(status));
}

}  // namespace shardstream::device::cuda
