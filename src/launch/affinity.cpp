#include "launch/affinity.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <thread>

namespace shardstream::launch {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// The affinity mask, of any size; empty where the system does not tell it.
struct Mask {
  static constexpr int most = 1 << 16;
  std::unique_ptr<cpu_set_t, FreeCpuSet> set{CPU_ALLOC(most)};
  std::size_t size = CPU_ALLOC_SIZE(most);

  Mask() {
    CPU_ZERO_S(size, set.get());
    if (sched_getaffinity(0, size, set.get()) != 0) CPU_ZERO_S(size, set.get());
  }
  bool has(int cpu) const { return cpu < most && CPU_ISSET_S(cpu, size, set.get()); }
};

}  // namespace

unsigned granted_cpus() {
  const Mask mask;
  const int count = CPU_COUNT_S(mask.size, mask.set.get());
  return count > 0 ? static_cast<unsigned>(count)
                   : std::max(1U, std::thread::hardware_concurrency());
}

std::string granted_cpu_list() {
  const Mask mask;
  std::string list;
  for (int cpu = 0; cpu < Mask::most; ++cpu) {
    if (!mask.has(cpu)) continue;
    int last = cpu;
    while (mask.has(last + 1)) ++last;
    list += list.empty() ? "" : ",";
    list += last == cpu ? fmt::format("{}", cpu) : fmt::format("{}-{}", cpu, last);
    cpu = last;
  }
  return list;
}

unsigned own_cpus(const Session& session) {
  const std::string mine = session.host() + " " + granted_cpu_list();
  const auto masks = session.gather(mine);
  const auto sharers = static_cast<unsigned>(std::ranges::count(masks, mine));
  return std::max(1U, granted_cpus() / sharers);
}

}  // namespace shardstream::launch
