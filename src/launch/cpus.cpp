#include "launch/cpus.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::launch {
namespace {

int number(std::string_view text, std::string_view list) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw Error(fmt::format("'{}' is no list of CPUs", list));
  }
  return value;
}

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

/// The list of CPUs or nodes that a file of sysfs holds; none if there is no such file.
Cpus list_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return cpus_of(line);
}

}  // namespace

std::string list_of(const Cpus& cpus) {
  std::string list;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    list += list.empty() ? "" : ",";
    list += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return list;
}

Cpus cpus_of(std::string_view list) {
  Cpus cpus;
  if (trim(list).empty()) return cpus;
  for (const std::string_view run : split(list, ',')) {
    const auto dash = run.find('-');
    const int first = number(run.substr(0, dash), list);
    const int last = dash == run.npos ? first : number(run.substr(dash + 1), list);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

Cpus common(const Cpus& these, const Cpus& those) {
  Cpus both;
  std::ranges::copy_if(these, std::back_inserter(both),
                       [&](int cpu) { return std::ranges::find(those, cpu) != those.end(); });
  return both;
}

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

std::string numa_nodes_of_cpus(const Cpus& cpus) {
  const std::filesystem::path folder = "/sys/devices/system/node";
  Cpus nodes;
  for (const int node : list_in(folder / "has_cpu")) {
    const Cpus its = list_in(folder / fmt::format("node{}", node) / "cpulist");
    if (!common(cpus, its).empty()) nodes.push_back(node);
  }
  return list_of(nodes);
}

std::string numa_nodes_of(const void* data, std::size_t bytes) {
  constexpr std::size_t most = 4096;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = start / page, end = (start + bytes + page - 1) / page;
  const std::size_t all = bytes == 0 ? 0 : end - first, looked_at = std::min(all, most);
  std::vector<void*> pages;
  for (std::size_t i = 0; i < looked_at; ++i) {
    pages.push_back(reinterpret_cast<void*>((first + i * all / looked_at) * page));
  }
  // Without target nodes nothing is moved: the call tells where each page is, or an error below 0.
  std::vector<int> nodes(pages.size(), -1);
  constexpr int this_process = 0, no_flags = 0;
  if (syscall(SYS_move_pages, this_process, pages.size(), pages.data(), nullptr, nodes.data(),
              no_flags) != 0) {
    return "unknown";
  }
  std::map<int, std::size_t> counts;
  for (const int node : nodes) {
    if (node >= 0) ++counts[node];
  }
  if (counts.empty()) return "unknown";
  return join(counts, ",",
              [](const auto& node) { return fmt::format("{}:{}", node.first, node.second); });
}

}  // namespace shardstream::launch
