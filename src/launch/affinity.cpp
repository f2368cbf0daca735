#include "launch/affinity.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "core/descriptor.hpp"

namespace shardstream::launch {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// A mask for machines of any size, empty at first.
struct Mask {
  static constexpr int most = 1 << 16;
  std::unique_ptr<cpu_set_t, FreeCpuSet> set{CPU_ALLOC(most)};
  std::size_t size = CPU_ALLOC_SIZE(most);

  Mask() { CPU_ZERO_S(size, set.get()); }
};

}  // namespace

Cpus granted_cpus() {
  const Mask mask;
  if (sched_getaffinity(0, mask.size, mask.set.get()) != 0) return {};
  Cpus cpus;
  for (int cpu = 0; cpu < Mask::most; ++cpu) {
    if (CPU_ISSET_S(cpu, mask.size, mask.set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

std::string granted_cpu_list() {
  return list_of(granted_cpus());
}

std::string bind_to(const Cpus& cpus) {
  const Mask mask;
  for (const int cpu : cpus) CPU_SET_S(cpu, mask.size, mask.set.get());
  return sched_setaffinity(0, mask.size, mask.set.get()) == 0 ? "" : errno_text(errno);
}

int host_cpus() {
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace shardstream::launch
