#include "runtime/numa.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/text.hpp"

namespace shardstream::runtime {
namespace {

namespace fs = std::filesystem;

/// The numbers of "0-3,8". Empty text has none.
std::set<int> numbers_of(std::string_view list) {
  std::set<int> numbers;
  for (const auto piece : split(list, ',')) {
    if (piece.empty()) continue;
    const auto ends = split(piece, '-');
    const int last = std::stoi(std::string(ends.back()));
    for (int n = std::stoi(std::string(ends.front())); n <= last; ++n) numbers.insert(n);
  }
  return numbers;
}

std::string first_line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

int numa_node_of(std::string_view pci) {
  std::ifstream file(fs::path("/sys/bus/pci/devices") / pci / "numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

std::string numa_nodes_of_cpus(std::string_view cpus) {
  const std::set<int> granted = numbers_of(cpus);
  const fs::path folder = "/sys/devices/system/node";
  std::string text;
  for (const int node : numbers_of(first_line_of(folder / "has_cpu"))) {
    const auto its = numbers_of(first_line_of(folder / fmt::format("node{}", node) / "cpulist"));
    if (std::ranges::none_of(its, [&](int cpu) { return granted.contains(cpu); })) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ",", node);
  }
  return text;
}

std::string numa_nodes_of(const void* data, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = bytes / page, asked = std::min<std::size_t>(pages, 4096);
  auto* start = static_cast<std::byte*>(const_cast<void*>(data));  // move_pages moves none here
  std::vector<void*> addresses(asked);
  for (std::size_t i = 0; i < asked; ++i) addresses[i] = start + pages * i / asked * page;
  std::vector<int> nodes(asked, -1);
  if (syscall(SYS_move_pages, 0, asked, addresses.data(), nullptr, nodes.data(), 0) != 0) {
    return "unknown";
  }
  std::map<int, int> counts;
  for (const int node : nodes) {
    if (node >= 0) ++counts[node];  // else why the page is nowhere
  }
  std::string text;
  for (const auto& [node, count] : counts) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", node, count);
  }
  return text.empty() ? "unknown" : text;
}

}  // namespace shardstream::runtime
