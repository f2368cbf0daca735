// The NUMA node on which the system places new memory of a thread.
#pragma once

#include <optional>
#include <string>

#include "ranks/memory_policy.hpp"

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
  std::optional<ranks::MemoryPolicy> before_;
  std::string problem_;
};

}  // namespace shardstream::experiments::machine
