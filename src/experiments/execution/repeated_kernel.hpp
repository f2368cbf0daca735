// A kernel that runs until a counter in mapped memory is zero, and three ways to decide whether it
// runs once more, for the experiment concurrency.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/execution/spans.hpp"
#include "experiments/graph.hpp"

namespace shardstream::experiments::execution {

enum class Decider {
  host,        ///< waits for the kernel, reads the counter, launches again
  while_node,  ///< a conditional node of a graph, whose value the kernel sets
  own_graph    ///< the kernel launches the graph to which it belongs again
};
const char* word_of(Decider by);

/// Not thread-safe.
class RepeatedKernel {
 public:
  /// The kernel runs `times` times, for `nanoseconds` each. Throws NotAvailable if the GPU or the
  /// driver lacks the way.
  RepeatedKernel(cudaStream_t stream, Decider by, std::uint64_t nanoseconds, unsigned times);

  /// Runs the kernel `times` times, and waits for the end.
  void run();
  /// The times of the kernels of the last run, in their order. Waits for the device.
  std::vector<Span> spans() const { return spans_.read(); }

 private:
  void make_while_graph();
  void make_own_graph();
  void add_kernel(cudaGraph_t graph, cudaGraphConditionalHandle handle) const;

  cudaStream_t stream_;
  Decider by_;
  std::uint64_t nanoseconds_;
  unsigned times_;
  PinnedArray<unsigned> left_;  ///< runs of the kernel, and an error
  DeviceArray<Span> spans_;
  GraphHandle graph_;
  std::optional<ExecutableGraph> executable_;
};

}  // namespace shardstream::experiments::execution
#endif  // SHARDSTREAM_HAS_CUDA
