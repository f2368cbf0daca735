#include "experiments/machine/node_guard.hpp"

#include <cerrno>

#include "core/descriptor.hpp"
#include "core/log.hpp"

namespace shardstream::experiments::machine {

NodeGuard::NodeGuard(int node) : before_(ranks::MemoryPolicy::of_this_thread()) {
  problem_ = before_ ? ranks::MemoryPolicy::preferring(node).apply() : errno_text(errno);
}

NodeGuard::~NodeGuard() {
  if (problem_.empty() && !before_->apply().empty()) {
    warn_plainly("the policy for memory of NUMA nodes could not be restored");
  }
}

}  // namespace shardstream::experiments::machine
