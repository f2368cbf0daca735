#include "experiments/execution/repeated_kernel.hpp"

#include <string>

#include "experiments/device_clock.cuh"
#include "experiments/formatted.hpp"

namespace shardstream::experiments::execution {
namespace {

/// Runs for `nanoseconds` and counts `*left` down. `handle` is that of a WHILE node. An error of a
/// launch by the kernel goes to left[1].
template <Decider By>
__global__ void run_and_decide(std::uint64_t nanoseconds, unsigned times, volatile unsigned* left,
                               Span* spans, [[maybe_unused]] cudaGraphConditionalHandle handle) {
  const std::uint64_t begin = global_nanoseconds();
  const unsigned now_left = *left - 1;
  while (global_nanoseconds() - begin < nanoseconds) {
  }
  if (threadIdx.x != 0) return;
  spans[times - 1 - now_left] = {begin, global_nanoseconds()};
  *left = now_left;
  __threadfence_system();
  if constexpr (By == Decider::while_node) {
    cudaGraphSetConditional(handle, now_left > 0 ? 1 : 0);
  }
  if constexpr (By == Decider::own_graph) {
    if (now_left == 0) return;
    left[1] = cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
  }
}

using Kernel = void (*)(std::uint64_t, unsigned, volatile unsigned*, Span*,
                        cudaGraphConditionalHandle);

Kernel kernel_of(Decider by) {
  switch (by) {
    case Decider::host:
      return run_and_decide<Decider::host>;
    case Decider::while_node:
      return run_and_decide<Decider::while_node>;
    case Decider::own_graph:
      return run_and_decide<Decider::own_graph>;
  }
  return nullptr;
}

/// Throws NotAvailable if `status` says that the GPU or the driver lacks something, and Error for
/// other failures.
void need(cudaError_t status, const char* call) {
  switch (status) {
    case cudaErrorNotSupported:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorSharedObjectSymbolNotFound:
    case cudaErrorSymbolNotFound: {
      (void)cudaGetLastError();  // clears it
      const std::string reason = cudaGetErrorString(status);
      throw NotAvailable(formatted("{}: {}", std::string(call), reason));
    }
    default:
      check(status, call);
  }
}

/// Adds a node without dependencies, whose function has another parameter since CUDA 13.
cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeParams* parameters) {
#if CUDART_VERSION >= 13000
  return cudaGraphAddNode(node, graph, nullptr, nullptr, 0, parameters);
#else
  return cudaGraphAddNode(node, graph, nullptr, 0, parameters);
#endif
}

}  // namespace

const char* word_of(Decider by) {
  switch (by) {
    case Decider::host:
      return "loop: the host decides";
    case Decider::while_node:
      return "loop: WHILE node of a graph";
    case Decider::own_graph:
      return "loop: the graph launches itself";
  }
  return "";
}

RepeatedKernel::RepeatedKernel(cudaStream_t stream, Decider by, std::uint64_t nanoseconds,
                               unsigned times)
    : stream_(stream),
      by_(by),
      nanoseconds_(nanoseconds),
      times_(times),
      left_(2, cudaHostAllocMapped),
      spans_(times) {
  cudaFuncAttributes attributes{};  // the call loads the kernel
  need(cudaFuncGetAttributes(&attributes, kernel_of(by)), "cudaFuncGetAttributes");
  spans_.clear(stream);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (by == Decider::while_node) make_while_graph();
  if (by == Decider::own_graph) make_own_graph();
}

void RepeatedKernel::run() {
  const volatile unsigned* const left = left_.data();
  left_[0] = times_;
  left_[1] = cudaSuccess;
  if (executable_) {
    executable_->launch(stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    // Does not rely on the stream to wait for graphs that a kernel has launched.
    const auto begin = Clock::now();
    while (*left > 0 && left[1] == cudaSuccess && seconds_since(begin) < 1) {
    }
    need(static_cast<cudaError_t>(left[1]), "cudaGraphLaunch by a kernel");
    return;
  }
  while (*left > 0) {
    kernel_of(by_)<<<1, warp, 0, stream_>>>(nanoseconds_, times_, left_.data(), spans_.data(), 0);
    check_launch("run_and_decide");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
}

void RepeatedKernel::add_kernel(cudaGraph_t graph, cudaGraphConditionalHandle handle) const {
  std::uint64_t nanoseconds = nanoseconds_;
  unsigned times = times_;
  volatile unsigned* left = left_.data();
  Span* spans = spans_.data();
  void* arguments[] = {&nanoseconds, &times, &left, &spans, &handle};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(kernel_of(by_));
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(warp);
  kernel.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel), "cudaGraphAddKernelNode");
}

/// The handle has the value 1 at the begin of each launch, so that the kernel runs at least once.
void RepeatedKernel::make_while_graph() {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "cudaGraphCreate");
  graph_.reset(made);
  cudaGraphConditionalHandle handle = 0;
  need(cudaGraphConditionalHandleCreate(&handle, made, 1, cudaGraphCondAssignDefault),
       "cudaGraphConditionalHandleCreate");
  cudaGraphNodeParams loop{};
  loop.type = cudaGraphNodeTypeConditional;
  loop.conditional.handle = handle;
  loop.conditional.type = cudaGraphCondTypeWhile;
  loop.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  need(add_node(&node, made, &loop), "cudaGraphAddNode");
  add_kernel(loop.conditional.phGraph_out[0], handle);
  cudaGraphExec_t executable = nullptr;
  need(cudaGraphInstantiate(&executable, made, 0), "cudaGraphInstantiate");
  executable_.emplace(executable);
}

void RepeatedKernel::make_own_graph() {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "cudaGraphCreate");
  graph_.reset(made);
  add_kernel(made, 0);
  cudaGraphExec_t executable = nullptr;
  need(cudaGraphInstantiate(&executable, made, cudaGraphInstantiateFlagDeviceLaunch),
       "cudaGraphInstantiate");
  executable_.emplace(executable);
  need(cudaGraphUpload(executable, stream_), "cudaGraphUpload");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace shardstream::experiments::execution
