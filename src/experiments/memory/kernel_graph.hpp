// A CUDA graph with one kernel, which has an access policy window of its own.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// The destructor destroys the graph, but does not reset the lines that persist in the L2 cache.
class KernelGraph {
 public:
  /// A launch of the graph launches `kernel` with `window`.
  KernelGraph(const cudaKernelNodeParams& kernel, const cudaAccessPolicyWindow& window) {
    check(cudaGraphCreate(&graph_.handle, 0), "cudaGraphCreate");
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddKernelNode(&node, graph_.handle, nullptr, 0, &kernel),
          "cudaGraphAddKernelNode");
    cudaKernelNodeAttrValue value{};
    value.accessPolicyWindow = window;
    check(cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributeAccessPolicyWindow, &value),
          "cudaGraphKernelNodeSetAttribute");
    check(cudaGraphInstantiate(&executable_.handle, graph_.handle, 0), "cudaGraphInstantiate");
  }

  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(executable_.handle, stream), "cudaGraphLaunch");
  }

 private:
  /// Members are destroyed even if the constructor throws.
  struct Graph {
    cudaGraph_t handle = nullptr;
    Graph() = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() {
      if (handle != nullptr) device::cuda::report(cudaGraphDestroy(handle), "cudaGraphDestroy");
    }
  };
  struct Executable {
    cudaGraphExec_t handle = nullptr;
    Executable() = default;
    Executable(const Executable&) = delete;
    Executable& operator=(const Executable&) = delete;
    ~Executable() {
      if (handle == nullptr) return;
      device::cuda::report(cudaGraphExecDestroy(handle), "cudaGraphExecDestroy");
    }
  };
  Graph graph_;
  Executable executable_;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
