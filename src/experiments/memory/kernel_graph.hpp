// A CUDA graph with one kernel, which has an access policy window of its own.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include "experiments/graph.hpp"

namespace shardstream::experiments::memory {

/// A graph whose launches launch `kernel` with `window`. Its destructor does not reset the lines
/// that persist in the L2 cache.
inline ExecutableGraph kernel_graph(const cudaKernelNodeParams& kernel,
                                    const cudaAccessPolicyWindow& window) {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "cudaGraphCreate");
  const GraphHandle graph(made);
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph.get(), nullptr, 0, &kernel), "cudaGraphAddKernelNode");
  cudaKernelNodeAttrValue value{};
  value.accessPolicyWindow = window;
  check(cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributeAccessPolicyWindow, &value),
        "cudaGraphKernelNodeSetAttribute");
  return ExecutableGraph(graph);
}

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
