#include "ranks/cpus.hpp"

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
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::ranks {
namespace {

int number(std::string_view text, std::string_view list) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw Error(fmt::format("'{}' is not a list of CPUs", list));
  }
  return value;
}

const std::filesystem::path nodes_folder = "/sys/devices/system/node";

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// A mask for machines of any size, initially empty.
struct Mask {
  static constexpr int max_cpus = 1 << 16;
  std::unique_ptr<cpu_set_t, FreeCpuSet> set{CPU_ALLOC(max_cpus)};
  std::size_t size = CPU_ALLOC_SIZE(max_cpus);

  Mask() { CPU_ZERO_S(size, set.get()); }
};

/// The list of CPUs or nodes in a file of sysfs; none if there is no such file.
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
  for (int cpu = 0; cpu < Mask::max_cpus; ++cpu) {
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

int granted_cores() {
  const std::filesystem::path folder = "/sys/devices/system/cpu";
  std::set<int> first_of_core;
  for (const int cpu : granted_cpus()) {
    const Cpus siblings = list_in(folder / fmt::format("cpu{}/topology/thread_siblings_list", cpu));
    first_of_core.insert(siblings.empty() ? cpu : siblings.front());
  }
  return std::max(1, static_cast<int>(first_of_core.size()));
}

int host_cpus() {
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::vector<int> numa_nodes() {
  return common(list_in(nodes_folder / "has_cpu"), list_in(nodes_folder / "has_memory"));
}

std::string numa_nodes_of_cpus(const Cpus& cpus) {
  Cpus nodes;
  for (const int node : list_in(nodes_folder / "has_cpu")) {
    const Cpus node_cpus = list_in(nodes_folder / fmt::format("node{}", node) / "cpulist");
    if (!common(cpus, node_cpus).empty()) nodes.push_back(node);
  }
  return list_of(nodes);
}

std::string numa_nodes_of(const void* data, std::size_t bytes) {
  constexpr std::size_t max_pages = 4096;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = start / page, end = (start + bytes + page - 1) / page;
  const std::size_t all = bytes == 0 ? 0 : end - first, sampled = std::min(all, max_pages);
  std::vector<void*> pages;
  for (std::size_t i = 0; i < sampled; ++i) {
    pages.push_back(reinterpret_cast<void*>((first + i * all / sampled) * page));
  }
  // Without target nodes, the call moves nothing. It returns the node of each page, or a negative
  // error.
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

}  // namespace shardstream::ranks
