#include "runtime/topology.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "core/text.hpp"
#include "launch/affinity.hpp"

namespace shardstream::runtime {
namespace {

/// One rank's facts as one line; the fields hold no tabs.
std::string facts(const Runtime& runtime) {
  const auto& session = runtime.session;
  const auto& device = runtime.device->info();
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", session.host(),
                     session.local_rank(), getpid(), launch::granted_cpu_list(),
                     runtime.resources.threads, device.backend, device.name, device.uuid,
                     device.pci, device.compute_capability, device.multiprocessors,
                     device.memory_total);
}

std::int64_t integer(std::string_view text) {
  return std::stoll(std::string(text));
}

}  // namespace

Topology observe(const Runtime& runtime) {
  Topology topology{Table("ranks", {{"rank", ColumnType::integer},
                                    {"host", ColumnType::text},
                                    {"local_rank", ColumnType::integer},
                                    {"pid", ColumnType::integer},
                                    {"cpus", ColumnType::text},
                                    {"threads", ColumnType::integer},
                                    {"backend", ColumnType::text},
                                    {"device", ColumnType::text},
                                    {"gpu_uuid", ColumnType::text},
                                    {"gpu_pci", ColumnType::text}}),
                    Table("gpus", {{"uuid", ColumnType::text},
                                   {"host", ColumnType::text},
                                   {"pci", ColumnType::text},
                                   {"name", ColumnType::text},
                                   {"compute_capability", ColumnType::integer},
                                   {"multiprocessors", ColumnType::integer},
                                   {"memory", ColumnType::integer, "B"}})};
  std::int64_t rank = 0;
  for (const std::string& line : runtime.session.gather(facts(runtime))) {
    const auto pieces = split(line, '\t');
    const std::vector<std::string> f(pieces.begin(), pieces.end());
    topology.ranks.add(
        {rank++, f[0], integer(f[1]), integer(f[2]), f[3], integer(f[4]), f[5], f[6], f[7], f[8]});
    if (f[7].empty()) continue;
    topology.gpus.add({f[7], f[0], f[8], f[6], integer(f[9]), integer(f[10]), integer(f[11])});
  }
  return topology;
}

}  // namespace shardstream::runtime
