// An all-reduce of small messages by one kernel: each GPU reads the parts of all GPUs from their
// windows and adds them up. NCCL's device functions (nccl_device.h) give the addresses and the
// barriers of the blocks.
#include "experiments/machine/window_kernel.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <utility>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0) && __has_include(<nccl_device.h>)
#include <nccl_device.h>
#define SHARDSTREAM_HAS_NCCL_DEVICE 1
#endif

#include "core/error.hpp"
#include "core/log.hpp"
#include "experiments/gpu.hpp"
#include "experiments/machine/nccl_features.hpp"

namespace shardstream::experiments::machine {

#ifdef SHARDSTREAM_HAS_NCCL_DEVICE
namespace {

constexpr unsigned threads = 512, max_blocks = 16;

/// Adds up the first `count` floats in the windows of all ranks. A block waits for the same block
/// of the other ranks twice: until their data are there, and until they have read this rank's data.
__global__ void __launch_bounds__(threads)
    all_reduce_by_loads(const ncclDevComm comm, ncclWindow_t window, std::size_t receive_offset,
                        std::size_t count) {
  const ncclCoopCta block;
  ncclLsaBarrierSession<ncclCoopCta> barrier(block, comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(block, cuda::memory_order_acq_rel);
  auto* const sums = static_cast<float*>(ncclGetLocalPointer(window, receive_offset));
  for (std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * threads) {
    float sum = 0;
    for (int rank = 0; rank < comm.lsaSize; ++rank) {
      sum += static_cast<const float*>(ncclGetLsaPointer(window, 0, rank))[i];
    }
    sums[i] = sum;
  }
  barrier.sync(block, cuda::memory_order_acq_rel);
}

struct LoopArgs {
  const ncclDevComm* comm;
  SymmetricWindow window;
  std::size_t count;
  unsigned calls;
};

Kernel<LoopArgs> loop_kernel() {
  return {"all_reduce_by_loads",
          [](const LoopArgs&, unsigned, unsigned) {
            throw ContractError("NCCL works only on CUDA streams");
          },
          [](const LoopArgs& loop, CudaStream stream) {
            const unsigned blocks =
                std::min(max_blocks, blocks_for(std::max<std::uint64_t>(loop.count, 1), threads));
            for (unsigned i = 0; i < loop.calls; ++i) {
              all_reduce_by_loads<<<blocks, threads, 0, stream>>>(
                  *loop.comm, loop.window.window, loop.window.receive_offset, loop.count);
              check_launch("all_reduce_by_loads");
            }
          }};
}

class LsaKernel final : public WindowKernel {
 public:
  LsaKernel(ncclComm_t comm, const ncclDevComm& device_comm, const SymmetricWindow& window)
      : comm_(comm), device_comm_(device_comm), window_(window) {}

  void release() override {
    const auto destroy = find(&ncclDevCommDestroy, "ncclDevCommDestroy");
    if (destroy == nullptr || destroy(comm_, &device_comm_) != ncclSuccess) {
      warn_plainly("ncclDevCommDestroy failed");
    }
  }
  void enqueue(device::Stream& stream, std::size_t count, unsigned calls) override {
    if (count > window_.count) throw ContractError("the message exceeds the window");
    stream.launch(loop_kernel(), LoopArgs{&device_comm_, window_, count, calls});
  }

 private:
  ncclComm_t comm_;
  ncclDevComm device_comm_;
  SymmetricWindow window_;
};

}  // namespace

std::unique_ptr<WindowKernel> make_window_kernel(ncclComm* comm, const SymmetricWindow& window,
                                                 int library, std::string& why) {
  why = why_without(NcclFeature::device_code, NCCL_VERSION_CODE, library);
  if (!why.empty()) return nullptr;
  const auto create = find(&ncclDevCommCreate, "ncclDevCommCreate");
  if (create == nullptr) {
    why = "the library has no ncclDevCommCreate";
    return nullptr;
  }
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements needs{};
#endif
  needs.lsaBarrierCount = max_blocks;
  needs.lsaMultimem = false;  // no multicast: it reserves hardware that all GPUs of the host share
  ncclDevComm made{};
  if (const ncclResult_t status = create(comm, &needs, &made); status != ncclSuccess) {
    why = std::string("ncclDevCommCreate failed (") + ncclGetErrorString(status) +
          "): the GPUs have no peer access, or NCCL_CUMEM_ENABLE or NCCL_WIN_ENABLE is 0";
    return nullptr;
  }
  auto kernel = std::make_unique<LsaKernel>(comm, made, window);
  if (made.lsaSize == made.nRanks) return kernel;
  kernel->release();
  why = "not all GPUs can read the memory of all others";
  return nullptr;
}
#else
std::unique_ptr<WindowKernel> make_window_kernel(ncclComm*, const SymmetricWindow&, int library,
                                                 std::string& why) {
  why = why_without(NcclFeature::device_code, NCCL_VERSION_CODE, library);
  if (why.empty()) why = "this program was built without nccl_device.h";
  return nullptr;
}
#endif

}  // namespace shardstream::experiments::machine
