// The NUMA node on which Linux places new memory of a thread, and automatic NUMA balancing.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace shardstream::ranks {

/// Where Linux places the pages that a thread touches first, and those that a driver allocates for
/// it: set_mempolicy(2). Threads inherit the policy of the thread that starts them.
class MemoryPolicy {
 public:
  /// The policy of the calling thread. Nothing, and errno, if the system forbids the question, as
  /// in some containers.
  static std::optional<MemoryPolicy> of_this_thread();
  /// Pages go to `node`, from 0 to 1023; if it is full, to other nodes. Automatic NUMA balancing
  /// does not move them.
  static MemoryPolicy preferring(int node);

  /// Sets the policy of the calling thread. Returns the system's error text, or "" on success.
  std::string apply() const;
  /// Whether pages go to the node of the thread that touches them first.
  bool is_default() const;
  /// The lowest node that the policy prefers or binds to; -1 if there is none.
  int node() const;

 private:
  static constexpr unsigned long max_nodes = 1024;
  using Mask = std::array<unsigned long, max_nodes / (8 * sizeof(unsigned long))>;

  int mode_ = 0;
  Mask nodes_{};
};

/// Whether automatic NUMA balancing moves pages between nodes: "on" or "off"; empty if unknown.
std::string numa_balancing(const std::filesystem::path& file = "/proc/sys/kernel/numa_balancing");

}  // namespace shardstream::ranks
