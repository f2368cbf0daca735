#include "ranks/situation.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "core/table.hpp"
#include "ranks/cpus.hpp"
#include "ranks/gpu_locality.hpp"
#include "ranks/memory_policy.hpp"
#include "ranks/session.hpp"

namespace shardstream::ranks {
namespace {

/// Keeps a policy that the launcher or numactl has set. A failure is no warning: memory is then on
/// the node of the CPUs, which are mostly near the GPU.
void prefer_memory_of(int node, Log& log) {
  const auto policy = MemoryPolicy::of_this_thread();
  if (policy && !policy->is_default()) return;
  const std::string problem = MemoryPolicy::preferring(node).apply();
  if (problem.empty()) return;
  log.info(
      fmt::format("host memory cannot be bound to NUMA node {} of the GPU ({}): it will be on the "
                  "node of the CPUs; a container needs the capability SYS_NICE for this",
                  node, problem));
}

}  // namespace

Situation observe(const Session& session) {
  Situation mine;
  mine.host = session.host();
  mine.cpus = granted_cpus();
  // Without other ranks on the host, the order of the CPUs does not matter, and loading the
  // topology is avoided.
  if (session.local_size() > 1) mine.cpus = neighbours_together(mine.cpus);
  mine.host_cpus = host_cpus();
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK",
                           "SLURM_GPU_BIND", "SLURM_JOB_ID"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) mine.environment.push_back(fmt::format("{}={}", name, value));
  }
  return mine;
}

std::vector<Situation> gather(const Session& session, const Situation& mine) {
  Table facts("facts", {{"host", ColumnType::text},
                        {"cpus", ColumnType::text},
                        {"host_cpus", ColumnType::integer},
                        {"built_with_cuda", ColumnType::integer},
                        {"problem", ColumnType::text}});
  Table environment("environment", {{"entry", ColumnType::text}});
  Table gpus("gpus", {{"uuid", ColumnType::text},
                      {"pci", ColumnType::text},
                      {"name", ColumnType::text},
                      {"numa_node", ColumnType::integer},
                      {"cpus", ColumnType::text}});
  facts.add({mine.host, list_of(mine.cpus), std::int64_t{mine.host_cpus},
             std::int64_t{mine.built_with_cuda}, mine.problem});
  for (const auto& entry : mine.environment) environment.add({entry});
  for (const VisibleGpu& gpu : mine.gpus) {
    gpus.add({gpu.uuid, gpu.pci, gpu.name, std::int64_t{gpu.numa_node}, list_of(gpu.cpus)});
  }

  std::vector<Situation> all(static_cast<std::size_t>(session.size()));
  const auto rank_of = [&](const Row& row) -> Situation& {
    return all[static_cast<std::size_t>(row.get<std::int64_t>("rank"))];
  };
  const Table all_facts = gather(session, facts), all_environment = gather(session, environment),
              all_gpus = gather(session, gpus);
  for (const Row& row : all_facts.rows()) {
    Situation& rank = rank_of(row);
    rank.host = row.get<std::string>("host");
    rank.cpus = cpus_of(row.get<std::string>("cpus"));
    rank.host_cpus = static_cast<int>(row.get<std::int64_t>("host_cpus"));
    rank.built_with_cuda = row.get<std::int64_t>("built_with_cuda") != 0;
    rank.problem = row.get<std::string>("problem");
  }
  for (const Row& row : all_environment.rows()) {
    rank_of(row).environment.push_back(row.get<std::string>("entry"));
  }
  for (const Row& row : all_gpus.rows()) {
    rank_of(row).gpus.push_back({row.get<std::string>("uuid"), row.get<std::string>("pci"),
                                 row.get<std::string>("name"),
                                 static_cast<int>(row.get<std::int64_t>("numa_node")),
                                 cpus_of(row.get<std::string>("cpus"))});
  }
  return all;
}

Placement take_places(const Session& session, const Situation& mine,
                      const PlacementRequest& request, Log& log) {
  const std::vector<Situation> all = gather(session, mine);
  Placement plan;
  session.collectively([&] { plan = place(all, request); });
  if (session.rank() == 0) {
    for (const auto& warning : plan.warnings) log.warn(warning);
    for (const auto& note : plan.notes) log.info(note);
  }
  const RankPlacement& place = plan.places[static_cast<std::size_t>(session.rank())];
  if (place.memory_node >= 0) prefer_memory_of(place.memory_node, log);
  const Cpus& cpus = place.cpus;
  if (!request.bind || cpus.size() >= mine.cpus.size()) return plan;
  const std::string problem = bind_to(cpus);
  if (!problem.empty()) {
    log.warn(
        fmt::format("binding to CPUs {} failed ({}): this rank may run on all CPUs that the "
                    "launcher allows",
                    list_of(cpus), problem));
  }
  return plan;
}

}  // namespace shardstream::ranks
