#include "ranks/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"

namespace shardstream::ranks {
namespace {

using Ranks = std::vector<int>;
using Situations = std::span<const Situation>;

/// The number of reader threads that saturates the host link of one GPU: the default of
/// pipeline.readers for `reduce`.
constexpr std::size_t enough_cpus = 8;

const Situation& of(Situations ranks, int rank) {
  return ranks[static_cast<std::size_t>(rank)];
}

/// "rank 2", "ranks 0-3,6".
std::string named(const Ranks& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", list_of(ranks));
}

std::map<std::string, Ranks> by_host(Situations ranks) {
  std::map<std::string, Ranks> hosts;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    hosts[ranks[r].host].push_back(static_cast<int>(r));
  return hosts;
}

/// The UUIDs of all GPUs that any of these ranks of one host sees.
std::set<std::string> seen_by(Situations ranks, const Ranks& some) {
  std::set<std::string> uuids;
  for (const int rank : some) {
    for (const VisibleGpu& gpu : of(ranks, rank).gpus) uuids.insert(gpu.uuid);
  }
  return uuids;
}

/// CUDA shows at most one MIG device to a process, and no links between MIG devices.
bool is_mig(const VisibleGpu& gpu) {
  return gpu.uuid.starts_with("MIG-");
}

// ---------------------------------------------------------------- GPUs

/// Whether the ranks take GPUs: either all of them do or none.
bool take_gpus(Situations ranks, const PlacementRequest& request) {
  if (request.backend == "host") return false;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].problem.empty()) {
      throw UsageError(
          fmt::format("rank {1} cannot use the GPUs of {0} ({2}): fix that, or pass "
                      "--device.backend host",
                      ranks[r].host, r, ranks[r].problem));
    }
    if (ranks[r].gpus.empty() && request.backend == "cuda") {
      throw UsageError(fmt::format(
          "--device.backend is cuda, but {} on {}: pass --device.backend host, or use hosts with "
          "GPUs",
          ranks[r].built_with_cuda ? "no GPU is visible (CUDA_VISIBLE_DEVICES may hide them)"
                                   : "this program was built without CUDA",
          ranks[r].host));
    }
  }
  const auto takes = [&](std::size_t r) { return !ranks[r].gpus.empty(); };
  const auto backend = [&](std::size_t r) { return takes(r) ? "cuda" : "host"; };
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (takes(r) == takes(0)) continue;
    throw UsageError(fmt::format(
        "rank 0 on {} would use the {} backend, but rank {} on {} the {} backend: start all ranks "
        "on similar hosts, or pass --device.backend host",
        ranks[0].host, backend(0), r, ranks[r].host, backend(r)));
  }
  return takes(0);
}

/// Throws UsageError because `rank` sees no free GPU; `taker` has taken the first one that it sees.
[[noreturn]] void reject_sharing(Situations ranks, const Ranks& host, int rank, int taker) {
  const Situation& situation = of(ranks, rank);
  const VisibleGpu& gpu = situation.gpus.front();
  const std::size_t gpus = seen_by(ranks, host).size();
  const bool alone = host.size() == ranks.size();
  const std::string allow = "pass --device.oversubscribe true (ranks then share a GPU)";
  if (host.size() <= gpus) {
    throw UsageError(fmt::format(
        "ranks {} and {} on {} would share one GPU ({}): make a different GPU or all GPUs visible "
        "to each rank, or {}",
        taker, rank, situation.host, gpu.uuid, allow));
  }
  throw UsageError(fmt::format(
      "{} on {} see {}{}: start one rank per GPU (mpirun {}), {}, or pass --device.backend host",
      counted(host.size(), "rank"), situation.host, counted(gpus, "GPU"),
      is_mig(gpu) ? " (CUDA shows only one MIG device to a process: set CUDA_VISIBLE_DEVICES to "
                    "another one for each rank)"
                  : "",
      alone ? fmt::format("-np {}", gpus) : fmt::format("--map-by ppr:{}:node", gpus), allow));
}

/// Each rank of a host takes the visible GPU with the fewest ranks. Among several, it takes the
/// first one, counted cyclically from `first_gpu`.
void choose_gpus(Situations ranks, const Ranks& host, const PlacementRequest& request,
                 Placement& plan) {
  std::map<std::string, Ranks> takers;
  const auto place_of = [&](int rank) -> RankPlacement& {
    return plan.places[static_cast<std::size_t>(rank)];
  };
  const auto uuid_of = [&](int rank) {
    return of(ranks, rank).gpus[static_cast<std::size_t>(place_of(rank).gpu)].uuid;
  };
  for (const int rank : host) {
    const auto& gpus = of(ranks, rank).gpus;
    const auto from_first = [&](std::size_t i) { return (request.first_gpu + i) % gpus.size(); };
    std::size_t best = from_first(0);
    for (std::size_t i = 1; i < gpus.size(); ++i) {
      const std::size_t gpu = from_first(i);
      if (takers[gpus[gpu].uuid].size() < takers[gpus[best].uuid].size()) best = gpu;
    }
    auto& sharers = takers[gpus[best].uuid];
    if (!sharers.empty() && !request.oversubscribe) {
      reject_sharing(ranks, host, rank, takers[gpus[0].uuid][0]);
    }
    sharers.push_back(rank);
    place_of(rank).gpu = static_cast<int>(best);
  }
  for (const int rank : host) place_of(rank).sharers = takers[uuid_of(rank)];
}

/// The GPU that a rank has taken, or null.
const VisibleGpu* gpu_of(Situations ranks, const Placement& plan, int rank) {
  const int gpu = plan.places[static_cast<std::size_t>(rank)].gpu;
  return gpu < 0 ? nullptr : &of(ranks, rank).gpus[static_cast<std::size_t>(gpu)];
}

void warn_of_different_gpus(Situations ranks, Placement& plan) {
  std::map<std::string, std::set<std::string>> models;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const VisibleGpu& gpu = *gpu_of(ranks, plan, static_cast<int>(r));
    models[gpu.name].insert(ranks[r].host + gpu.uuid);
  }
  if (models.size() < 2) return;
  const std::string list = join(models, ", ", [](const auto& kind) {
    return fmt::format("{} of {}", kind.second.size(), kind.first);
  });
  plan.warnings.push_back(
      fmt::format("the GPUs of this run differ ({}): the slowest limits the others", list));
}

/// Ranks that each see only one GPU may not be able to use NVLink.
void warn_of_hidden_peers(Situations ranks, const Ranks& host, Placement& plan) {
  const auto sees_one = [&](int rank) {
    return of(ranks, rank).gpus.size() == 1 && !is_mig(of(ranks, rank).gpus[0]);
  };
  if (!std::ranges::all_of(host, sees_one) || seen_by(ranks, host).size() < 2) return;
  bool slurm = false;
  std::vector<std::string_view> causes;
  for (const std::string_view entry : of(ranks, host[0]).environment) {
    slurm = slurm || entry.starts_with("SLURM_");
    if (!entry.starts_with("SLURM_JOB_ID=")) causes.push_back(entry);
  }
  plan.warnings.push_back(fmt::format(
      "each rank on {} sees only its own GPU{}, which can disable NVLink: {}",
      of(ranks, host[0]).host, causes.empty() ? "" : fmt::format(" ({})", join(causes, ", ")),
      slurm ? fmt::format("use --gpus-per-node={0} --ntasks-per-node={0} --gpu-bind=none instead "
                          "of --gpus-per-task",
                          host.size())
            : "make all GPUs of the host visible to all ranks (CUDA_VISIBLE_DEVICES); each rank "
              "takes another one"));
}

/// Fewer ranks than GPUs may be intended and give a note. Idle GPUs on one host while another host
/// has more ranks are probably a mistake and give a warning.
void report_idle_gpus(Situations ranks, const std::map<std::string, Ranks>& hosts,
                      Placement& plan) {
  const auto fullest =
      std::ranges::max_element(hosts, {}, [](const auto& entry) { return entry.second.size(); });
  for (const auto& [host, some] : hosts) {
    std::set<std::string> used;
    for (const int rank : some) used.insert(gpu_of(ranks, plan, rank)->uuid);
    const std::size_t gpus = seen_by(ranks, some).size(), idle = gpus - used.size();
    if (idle == 0) continue;
    if (some.size() < fullest->second.size()) {
      plan.warnings.push_back(fmt::format(
          "{} of {} on {} stay{} idle, but there are {} ranks on {}: spread the ranks evenly "
          "(srun --ntasks-per-node, mpirun --map-by ppr:N:node)",
          idle, counted(gpus, "GPU"), host, idle == 1 ? "s" : "", fullest->second.size(),
          fullest->first));
      return;
    }
    if (plan.notes.empty()) {
      plan.notes.push_back(fmt::format("{} of {} on {} stay{} idle: {} would use {}", idle,
                                       counted(gpus, "GPU"), host, idle == 1 ? "s" : "",
                                       counted(gpus, "rank"), gpus == 2 ? "both" : "all"));
    }
  }
}

// ---------------------------------------------------------------- CPUs

/// Whether the CPUs near the GPU are known. In a virtual machine, all CPUs or none seem to be near.
bool has_known_locality(const VisibleGpu& gpu, const Situation& situation) {
  return gpu.numa_node >= 0 && !gpu.cpus.empty() &&
         gpu.cpus.size() < static_cast<std::size_t>(situation.host_cpus);
}

/// The granted CPUs of a rank that are near its GPU, or all granted CPUs if none are near or the
/// locality is unknown. Adds the rank to `far` if none are near.
Cpus near_cpus(Situations ranks, const Placement& plan, int rank, Ranks& far) {
  const Situation& situation = of(ranks, rank);
  const VisibleGpu* gpu = gpu_of(ranks, plan, rank);
  if (gpu == nullptr || !has_known_locality(*gpu, situation)) return situation.cpus;
  Cpus near = common(situation.cpus, gpu->cpus);
  if (!near.empty() || situation.cpus.empty()) return near;
  far.push_back(rank);
  return situation.cpus;
}

/// Whether `ranks` ranks that were all granted `mask` can use these sets of near CPUs, each shared
/// by some of the ranks: every rank must have enough CPUs, and the sets must be disjoint.
bool are_enough(const std::map<Cpus, Ranks>& sets, const Cpus& mask, std::size_t ranks) {
  const std::size_t min_cpus = std::min(enough_cpus, std::max<std::size_t>(1, mask.size() / ranks));
  std::set<int> all;
  std::size_t sum = 0;
  for (const auto& [cpus, sharers] : sets) {
    if (cpus.size() / sharers.size() < min_cpus) return false;
    all.insert(cpus.begin(), cpus.end());
    sum += cpus.size();
  }
  return all.size() == sum;
}

/// Divides `mask` among the ranks of one host to which it was granted.
void divide_cpus(Situations ranks, const Cpus& mask, const Ranks& group,
                 const PlacementRequest& request, Placement& plan, Ranks& far) {
  std::map<Cpus, Ranks> sets;  // CPUs, and the ranks that share them
  for (const int rank : group) sets[near_cpus(ranks, plan, rank, far)].push_back(rank);
  if (!are_enough(sets, mask, group.size())) sets = {{mask, group}};
  const bool parts = request.bind && mask.size() >= group.size();
  const auto all =
      mask.empty() ? static_cast<std::size_t>(of(ranks, group[0]).host_cpus) : mask.size();
  for (const auto& [cpus, sharers] : sets) {
    for (std::size_t i = 0; i < sharers.size(); ++i) {
      RankPlacement& place = plan.places[static_cast<std::size_t>(sharers[i])];
      place.cpus = mask;
      place.threads = static_cast<unsigned>(std::max<std::size_t>(1, all / group.size()));
      if (parts) {
        const Range part = share(cpus.size(), i, sharers.size());
        const auto first = cpus.begin() + static_cast<std::ptrdiff_t>(part.first);
        place.cpus.assign(first, first + static_cast<std::ptrdiff_t>(part.count));
        place.threads = static_cast<unsigned>(part.count);
      }
      if (request.max_cpus > 0) {
        if (request.bind && place.cpus.size() > request.max_cpus)
          place.cpus.resize(request.max_cpus);
        place.threads = std::min(place.threads, static_cast<unsigned>(request.max_cpus));
      }
      std::ranges::sort(place.cpus);
    }
  }
}

/// Ranks whose CPUs are all near the GPU would get memory on its node anyway, but others would not.
void choose_memory_nodes(Situations ranks, Placement& plan) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const VisibleGpu* gpu = gpu_of(ranks, plan, static_cast<int>(r));
    if (gpu != nullptr && has_known_locality(*gpu, ranks[r])) {
      plan.places[r].memory_node = gpu->numa_node;
    }
  }
}

void warn_of_far_cpus(Situations ranks, const Ranks& far, Placement& plan) {
  if (far.empty()) return;
  const VisibleGpu& gpu = *gpu_of(ranks, plan, far[0]);
  Cpus granted = of(ranks, far[0]).cpus;
  std::ranges::sort(granted);
  plan.warnings.push_back(fmt::format(
      "the launcher bound {} far from the GPU (rank {} on {} has CPUs {}, but its GPU {} is near "
      "CPUs {}, NUMA node {}): disable its binding (mpirun --bind-to none, srun --cpu-bind=none); "
      "each rank then takes CPUs near its GPU",
      named(far), far[0], of(ranks, far[0]).host, list_of(granted), gpu.pci, list_of(gpu.cpus),
      gpu.numa_node));
}

/// Warns if the launcher leaves CPUs idle that readers could use: Open MPI binds each rank to one
/// core if there are at most two ranks.
void warn_of_few_cpus(Situations ranks, const std::map<std::string, Ranks>& hosts,
                      Placement& plan) {
  const Situation& first = ranks[0];
  const Ranks& host = hosts.at(first.host);
  const auto sharers =
      std::ranges::count_if(host, [&](int rank) { return of(ranks, rank).cpus == first.cpus; });
  const auto each = first.cpus.size() / static_cast<std::size_t>(sharers);
  if (first.cpus.empty() || each >= enough_cpus) return;
  const auto all = static_cast<std::size_t>(first.host_cpus);
  if (all < 2 * std::max<std::size_t>(1, each) * host.size()) return;
  plan.warnings.push_back(
      fmt::format("each rank may use only {} of this host's {} CPUs: pass --bind-to none to mpirun "
                  "or --cpus-per-task to srun",
                  std::max<std::size_t>(1, each), all));
}

}  // namespace

Placement place(std::span<const Situation> ranks, const PlacementRequest& request) {
  Placement plan;
  plan.places.resize(ranks.size());
  const auto hosts = by_host(ranks);
  if (take_gpus(ranks, request)) {
    for (const auto& [host, some] : hosts) choose_gpus(ranks, some, request, plan);
    warn_of_different_gpus(ranks, plan);
    for (const auto& [host, some] : hosts) {
      const auto before = plan.warnings.size();
      warn_of_hidden_peers(ranks, some, plan);
      if (plan.warnings.size() > before) break;  // one warning suffices for all hosts
    }
    report_idle_gpus(ranks, hosts, plan);
  }
  Ranks far;
  for (const auto& [host, some] : hosts) {
    std::map<Cpus, Ranks> masks;
    for (const int rank : some) masks[of(ranks, rank).cpus].push_back(rank);
    for (const auto& [mask, group] : masks) divide_cpus(ranks, mask, group, request, plan, far);
  }
  if (request.bind) choose_memory_nodes(ranks, plan);
  std::ranges::sort(far);
  warn_of_far_cpus(ranks, far, plan);
  warn_of_few_cpus(ranks, hosts, plan);
  return plan;
}

}  // namespace shardstream::ranks
