#include "experiments/machine/node_guard.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "core/descriptor.hpp"
#include "core/log.hpp"

namespace shardstream::experiments::machine {

// The C library has no functions for these calls, only libnuma. The kernel reads one bit less than
// it is told.
NodeGuard::NodeGuard(int node) {
  if (syscall(SYS_get_mempolicy, &mode_before_, nodes_before_.data(), max_nodes, nullptr, 0UL) !=
      0) {
    problem_ = errno_text(errno);
    return;
  }
  constexpr std::size_t bits = 8 * sizeof(unsigned long);
  const auto bit = static_cast<std::size_t>(node);
  Mask nodes{};
  nodes.at(bit / bits) = 1UL << bit % bits;
  if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), max_nodes) != 0) {
    problem_ = errno_text(errno);
  }
}

NodeGuard::~NodeGuard() {
  if (!problem_.empty()) return;
  if (syscall(SYS_set_mempolicy, mode_before_, nodes_before_.data(), max_nodes) != 0) {
    warn_plainly("the policy for memory of NUMA nodes could not be restored");
  }
}

}  // namespace shardstream::experiments::machine
