// The NUMA node on which the system places new memory of a thread.
#pragma once

#include <array>
#include <string>

namespace shardstream::experiments::machine {

/// Makes the system prefer `node` for pages that the calling thread touches or that a driver
/// allocates for it. If the node is full, pages go elsewhere. The destructor restores the previous
/// policy of the thread.
class NodeGuard {
 public:
  explicit NodeGuard(int node);
  ~NodeGuard();
  NodeGuard(const NodeGuard&) = delete;
  NodeGuard& operator=(const NodeGuard&) = delete;

  /// The reason why the policy could not be set, as in containers that forbid it; empty if it is.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr unsigned long max_nodes = 1024;
  using Mask = std::array<unsigned long, max_nodes / (8 * sizeof(unsigned long))>;

  std::string problem_;
  int mode_before_ = 0;
  Mask nodes_before_{};
};

}  // namespace shardstream::experiments::machine
