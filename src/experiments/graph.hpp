// CUDA graphs: work that the host describes once and launches with one call.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <functional>
#include <memory>

#include "experiments/gpu.hpp"

namespace shardstream::experiments {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const {
    device::cuda::report(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  void operator()(cudaGraphExec_t graph) const {
    device::cuda::report(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  }
};
using GraphHandle = std::unique_ptr<CUgraph_st, DestroyGraph>;

/// A graph that can be launched. The destructor destroys it; its launches must have ended.
class ExecutableGraph {
 public:
  explicit ExecutableGraph(const GraphHandle& graph) {
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiate(&made, graph.get(), 0), "cudaGraphInstantiate");
    graph_.reset(made);
  }
  /// Owns a graph that was instantiated otherwise.
  explicit ExecutableGraph(cudaGraphExec_t made) : graph_(made) {}

  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(graph_.get(), stream), "cudaGraphLaunch");
  }

 private:
  std::unique_ptr<CUgraphExec_st, DestroyGraph> graph_;
};

/// The work that `enqueue` adds to `stream`, and to streams that it forks and joins. The work does
/// not run.
inline GraphHandle captured(cudaStream_t stream, const std::function<void()>& enqueue) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &graph);  // so that the stream can be used again
    const GraphHandle unused(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return GraphHandle(graph);
}

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
