#include "device/cuda/handles.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "core/error.hpp"

namespace shardstream::device::cuda {
namespace {

/// The GPU that is current in the calling thread.
thread_local std::shared_ptr<const Gpu> used;

/// The failure that an error or a warning reported last.
std::atomic<cudaError_t> last_reported = cudaSuccess;

/// The remedy for a failure; empty if CUDA's description suffices. {0} stands for this host.
const char* remedy(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return ": use smaller batches or slots (pipeline.batch, pipeline.slot), or free the GPU";
    case cudaErrorCallRequiresNewerDriver:
      return ": the driver is older than the CUDA toolkit of this program: update the driver, or "
             "build with an older toolkit (cmake/README.md)";
    case cudaErrorInsufficientDriver:
      return ": update the NVIDIA driver";
    case cudaErrorNoKernelImageForDevice:
      return ": build for this GPU's architecture (CMAKE_CUDA_ARCHITECTURES)";
    case cudaErrorDevicesUnavailable:
      return ": another process uses the GPU exclusively, or the GPU belongs to another job or has "
             "failed: check nvidia-smi on {0}";
    case cudaErrorSystemNotReady:
      return ": the NVIDIA fabric manager is not running on {0}: ask for it to be started, or "
             "exclude that node";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
      return ": the GPU failed during the run: check dmesg on {0} for its Xid and nvidia-smi -q "
             "for "
             "its state, and exclude that GPU or node (CUDA_VISIBLE_DEVICES, sbatch --exclude={0})";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorAssert:
      return ": a kernel failed, because of an error in this program or in the GPU: try a GPU "
             "other "
             "than this one on {0}, and report the error if it happens there too";
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
  (void)cudaGetLastError();  // reported here, so that the next launch does not report it again
  last_reported = status;
  const std::string gpu = used ? fmt::format(" on GPU {} ({})", used->ordinal, used->name) : "";
  const std::string help = fmt::format(fmt::runtime(remedy(status)), host());
  throw Error(fmt::format("{}{} failed ({}: {}){}", call, gpu, cudaGetErrorName(status),
                          cudaGetErrorString(status), help),
              where);
}

void report(cudaError_t status, const char* call) noexcept {
  // When the process ends, the driver may already be shut down; then nothing is left to release.
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  if (last_reported.exchange(status) == status) return;
  std::fprintf(stderr, "warning: %s failed (%s)\n", call, cudaGetErrorName(status));
}

}  // namespace shardstream::device::cuda
