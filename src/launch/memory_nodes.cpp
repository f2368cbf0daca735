#include "launch/memory_nodes.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace shardstream::launch {
namespace {

/// The list of CPUs or nodes that a file of sysfs holds; none if there is no such file.
Cpus list_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return cpus_of(line);
}

}  // namespace

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
  std::string list;
  for (const auto& [node, count] : counts) {
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", node, count);
  }
  return list.empty() ? "unknown" : list;
}

}  // namespace shardstream::launch
