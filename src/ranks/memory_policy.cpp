#include "ranks/memory_policy.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "core/descriptor.hpp"

namespace shardstream::ranks {
namespace {

constexpr std::size_t bits = 8 * sizeof(unsigned long);

}  // namespace

// The C library has no functions for these calls, only libnuma. The kernel reads one bit less than
// it is told.
std::optional<MemoryPolicy> MemoryPolicy::of_this_thread() {
  MemoryPolicy policy;
  if (syscall(SYS_get_mempolicy, &policy.mode_, policy.nodes_.data(), max_nodes, nullptr, 0UL) !=
      0) {
    return std::nullopt;
  }
  return policy;
}

MemoryPolicy MemoryPolicy::preferring(int node) {
  MemoryPolicy policy;
  policy.mode_ = MPOL_PREFERRED;
  const auto bit = static_cast<std::size_t>(node);
  policy.nodes_.at(bit / bits) = 1UL << bit % bits;
  return policy;
}

std::string MemoryPolicy::apply() const {
  return syscall(SYS_set_mempolicy, mode_, nodes_.data(), max_nodes) == 0 ? "" : errno_text(errno);
}

bool MemoryPolicy::is_default() const {
  return mode_ == MPOL_DEFAULT;
}

int MemoryPolicy::node() const {
  if (mode_ != MPOL_PREFERRED && mode_ != MPOL_BIND) return -1;
  for (std::size_t node = 0; node < max_nodes; ++node) {
    if ((nodes_.at(node / bits) >> node % bits & 1U) != 0) return static_cast<int>(node);
  }
  return -1;
}

std::string numa_balancing(const std::filesystem::path& file) {
  int mode = 0;
  if (!(std::ifstream(file) >> mode)) return "";
  return mode == 0 ? "off" : "on";
}

}  // namespace shardstream::ranks
