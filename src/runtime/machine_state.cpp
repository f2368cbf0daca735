#include "runtime/machine_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "result/tables.hpp"

namespace shardstream::runtime {
namespace {

constexpr std::size_t max_named = 4;

bool is_busy(std::int64_t utilization, std::int64_t other_processes) {
  constexpr std::int64_t with_others = 10, with_hidden = 50;  // percent
  return other_processes != 0 && utilization >= (other_processes < 0 ? with_hidden : with_others);
}

/// Empty unless a rank uses the GPU and it is busy.
std::string busy_gpu(const result::Gpu& gpu) {
  const std::int64_t others = gpu.other_processes;
  if (gpu.rank < 0 || !is_busy(gpu.utilization, others)) return "";
  const std::string owners = others > 1    ? fmt::format("{} other processes", others)
                             : others == 1 ? "another process"
                                           : "others";
  return fmt::format(
      "the GPU at {} on {}, which rank {} uses, is {} % busy with work of {}: times will vary; end "
      "that work (nvidia-smi lists it), or choose another GPU (--device.first)",
      gpu.pci, gpu.host, gpu.rank, gpu.utilization, owners);
}

/// Empty unless NUMA balancing may move the memory that the rank's GPU uses.
std::string moving_memory(const result::Rank& rank) {
  const bool moves = rank.numa_balancing == "on" && rank.numa_nodes > 1 && rank.memory_node < 0 &&
                     !rank.gpu_uuid.empty();
  if (!moves) return "";
  return fmt::format(
      "automatic NUMA balancing is on on {}, and host memory is bound to no node: Linux may move "
      "memory away from the GPU; bind it (numactl --membind), or have an administrator turn "
      "balancing off (sysctl kernel.numa_balancing=0)",
      rank.host);
}

/// Adds the first sentences of `found`, each once.
void add_some(const std::vector<std::string>& found, std::vector<std::string>& warnings) {
  std::set<std::string> added;
  for (const std::string& sentence : found) {
    if (sentence.empty() || added.size() == max_named || !added.insert(sentence).second) continue;
    warnings.push_back(sentence);
  }
}

}  // namespace

std::vector<std::string> warnings_on_state(const Topology& topology) {
  std::vector<std::string> busy, moving, warnings;
  for (const result::Gpu& gpu : topology.gpus) busy.push_back(busy_gpu(gpu));
  for (const result::Rank& rank : topology.ranks) moving.push_back(moving_memory(rank));
  add_some(busy, warnings);
  add_some(moving, warnings);
  return warnings;
}

}  // namespace shardstream::runtime
