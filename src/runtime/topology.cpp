// Each rank lists what it sees in tables, which all ranks gather; every rank merges the rows that
// tell of the same GPU.
#include "runtime/topology.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "device/buffer.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/nvml.hpp"
#include "ranks/cpus.hpp"
#include "ranks/gpu_locality.hpp"
#include "ranks/session.hpp"

namespace shardstream::runtime {
namespace {

/// Where pinned memory of this rank lands.
std::string pinned_nodes(device::Device* device) {
  if (device == nullptr) return "unknown";
  try {
    const device::Buffer<std::byte> probe(*device, device::Memory::pinned, std::size_t{4} << 20);
    return ranks::numa_nodes_of(probe.data(), probe.bytes());
  } catch (const Error&) {
    return "unknown";  // a look round must not end a run whose work is done
  }
}

Table rank_seen(const Viewpoint& from) {
  Table table("ranks", {{"host", ColumnType::text},
                        {"local_rank", ColumnType::integer},
                        {"pid", ColumnType::integer},
                        {"cpus", ColumnType::text},
                        {"cpu_nodes", ColumnType::text},
                        {"threads", ColumnType::integer},
                        {"backend", ColumnType::text},
                        {"device", ColumnType::text},
                        {"gpu_uuid", ColumnType::text},
                        {"gpu_pci", ColumnType::text},
                        {"gpu_node", ColumnType::integer},
                        {"pinned_nodes", ColumnType::text}});
  device::DeviceInfo none;
  none.backend = "none";
  const auto& device = from.device != nullptr ? from.device->info() : none;
  const int node = device.pci.empty() ? -1 : ranks::locality_of(device.pci).numa_node;
  table.add({from.session.host(), std::int64_t{from.session.local_rank()}, std::int64_t{getpid()},
             ranks::granted_cpu_list(), ranks::numa_nodes_of_cpus(ranks::granted_cpus()),
             std::int64_t{from.threads}, device.backend, device.name, device.uuid, device.pci,
             std::int64_t{node}, pinned_nodes(from.device)});
  return table;
}

/// Who tells of a GPU; the first knows the most.
enum class Origin : std::int64_t { bound, visible, nvml };

/// What is told of a GPU, the same where it is seen and where all is gathered.
std::vector<Column> fact_columns() {
  return {{"numa_node", ColumnType::integer},
          {"name", ColumnType::text},
          {"compute_capability", ColumnType::integer},
          {"multiprocessors", ColumnType::integer},
          {"memory", ColumnType::integer, "B"},
          {"sm_clock_max", ColumnType::integer, "MHz"},
          {"memory_clock_max", ColumnType::integer, "MHz"},
          {"power_limit", ColumnType::real, "W"},
          {"ecc", ColumnType::text},
          {"pcie_generation", ColumnType::integer},
          {"pcie_width", ColumnType::integer},
          {"pcie_generation_max", ColumnType::integer},
          {"pcie_width_max", ColumnType::integer},
          {"pcie_rate_max", ColumnType::real, "GB/s"},
          {"nvlinks", ColumnType::integer}};
}

/// `columns`, and then those of the facts.
std::vector<Column> with_facts(std::vector<Column> columns) {
  std::ranges::move(fact_columns(), std::back_inserter(columns));
  return columns;
}

void add_gpu(Table& seen, const std::string& host, Origin origin, const device::GpuFacts& f) {
  const auto integer = [](std::int64_t value) { return Cell(value); };
  seen.add({integer(static_cast<std::int64_t>(origin)), host, f.pci, f.uuid,
            integer(ranks::locality_of(f.pci).numa_node), f.name, integer(f.compute_capability),
            integer(f.multiprocessors), integer(f.memory), integer(f.sm_clock_max),
            integer(f.memory_clock_max), f.power_limit, f.ecc, integer(f.pcie_generation),
            integer(f.pcie_width), integer(f.pcie_generation_max), integer(f.pcie_width_max),
            device::pcie_rate(f.pcie_generation_max, f.pcie_width_max), integer(f.nvlinks)});
}

/// What CUDA knows, and NVML's word for the rest.
device::GpuFacts completed(const device::GpuFacts& cuda, const device::Nvml& nvml) {
  const auto gpu = nvml.gpu_at(cuda.pci);
  device::GpuFacts facts = gpu ? gpu->facts() : device::GpuFacts();
  facts.pci = cuda.pci;
  facts.name = cuda.name;
  facts.compute_capability = cuda.compute_capability;
  facts.multiprocessors = cuda.multiprocessors;
  facts.memory = cuda.memory;
  if (!cuda.uuid.empty()) facts.uuid = cuda.uuid;  // of a MIG slice, where NVML's is the GPU's
  return facts;
}

Table gpus_seen(const Viewpoint& from) {
  Table seen("gpus", with_facts({{"origin", ColumnType::integer},
                                 {"host", ColumnType::text},
                                 {"pci", ColumnType::text},
                                 {"uuid", ColumnType::text}}));
  const auto add = [&](Origin origin, const device::GpuFacts& facts) {
    add_gpu(seen, from.session.host(), origin, facts);
  };
  if (from.device != nullptr && !from.device->info().uuid.empty()) {
    const auto& info = from.device->info();
    device::GpuFacts facts;
    facts.uuid = info.uuid;
    facts.pci = info.pci;
    facts.name = info.name;
    facts.compute_capability = info.compute_capability;
    facts.multiprocessors = info.multiprocessors;
    facts.memory = static_cast<std::int64_t>(info.memory_total);
    add(Origin::bound, completed(facts, from.nvml));
  }
  if constexpr (built_with_cuda) {
    if (from.ask_cuda) {
      for (const auto& gpu : device::cuda::inventory().gpus) {
        add(Origin::visible, completed(gpu, from.nvml));
      }
    }
  }
  for (const auto& gpu : from.nvml.gpus()) add(Origin::nvml, gpu.facts());
  return seen;
}

/// "NVLink" or "PCIe"; "unknown" where NVML does not tell.
std::string link_between(const device::Nvml& nvml, const std::string& from, const std::string& to) {
  const auto one = nvml.gpu_at(from), other = nvml.gpu_at(to);
  const auto nvlink = one && other ? one->has_nvlink_to(*other) : std::nullopt;
  if (!nvlink) return "unknown";
  return *nvlink ? "NVLink" : "PCIe";
}

Table peers_seen(const Viewpoint& from) {
  Table seen("peers", {{"host", ColumnType::text},
                       {"from", ColumnType::text},
                       {"to", ColumnType::text},
                       {"access", ColumnType::integer},
                       {"performance_rank", ColumnType::integer},
                       {"link", ColumnType::text}});
  if constexpr (built_with_cuda) {
    if (!from.ask_cuda) return seen;
    for (const auto& pair : device::cuda::peer_access()) {
      seen.add({from.session.host(), pair.from, pair.to, std::int64_t{pair.can},
                std::int64_t{pair.performance_rank}, link_between(from.nvml, pair.from, pair.to)});
    }
  }
  return seen;
}

/// Merges what the ranks have seen: a GPU that several ranks tell of becomes one row.
class Merging {
 public:
  void add_gpus(const Table& seen) {
    for (const Origin origin : {Origin::bound, Origin::visible, Origin::nvml}) {
      for (const Row& gpu : seen.rows()) {
        if (gpu.get<std::int64_t>("origin") == static_cast<std::int64_t>(origin)) {
          add_gpu(gpu, origin);
        }
      }
    }
  }

  void add_peers(const Table& seen) {
    for (const Row& pair : seen.rows()) {
      const auto from = numbers_.find(place(pair, "from")), to = numbers_.find(place(pair, "to"));
      if (from == numbers_.end() || to == numbers_.end()) continue;  // CUDA told no address
      if (!told_.insert({from->second, to->second}).second) continue;
      peers.add({from->second, to->second, pair["host"], pair["access"], pair["performance_rank"],
                 pair["link"]});
    }
  }

  Table gpus{"gpus", with_facts({{"gpu", ColumnType::integer},
                                 {"host", ColumnType::text},
                                 {"pci", ColumnType::text},
                                 {"uuid", ColumnType::text},
                                 {"rank", ColumnType::integer},
                                 {"visible", ColumnType::integer}})};
  Table peers{"peers",
              {{"gpu", ColumnType::integer},
               {"peer", ColumnType::integer},
               {"host", ColumnType::text},
               {"access", ColumnType::integer},
               {"performance_rank", ColumnType::integer},
               {"link", ColumnType::text}}};

 private:
  using Place = std::pair<std::string, std::string>;  // host, and PCI address or uuid

  static Place place(const Row& seen, const char* key) {
    return {seen.get<std::string>("host"), seen.get<std::string>(key)};
  }

  void add_gpu(const Row& seen, Origin origin) {
    const bool bound = origin == Origin::bound;
    // Slices of one GPU share its address; each is bound by its own uuid.
    if (bound ? !uuids_.insert(place(seen, "uuid")).second
              : numbers_.contains(place(seen, "pci"))) {
      return;
    }
    const auto number = static_cast<std::int64_t>(gpus.rows().size());
    numbers_.insert({place(seen, "pci"), number});
    std::vector<Cell> row = {number,
                             seen["host"],
                             seen["pci"],
                             seen["uuid"],
                             bound ? seen["rank"] : Cell(std::int64_t{-1}),
                             std::int64_t{origin != Origin::nvml}};
    for (const Column& fact : fact_columns()) row.push_back(seen[fact.name]);
    gpus.add(std::move(row));
  }

  std::set<Place> uuids_;
  std::map<Place, std::int64_t> numbers_;
  std::set<std::pair<std::int64_t, std::int64_t>> told_;
};

}  // namespace

Topology observe(const Viewpoint& from) {
  Table ranks = ranks::gather(from.session, rank_seen(from));
  Merging merging;
  merging.add_gpus(ranks::gather(from.session, gpus_seen(from)));
  merging.add_peers(ranks::gather(from.session, peers_seen(from)));
  return {std::move(ranks), std::move(merging.gpus), std::move(merging.peers)};
}

Topology observe(const Runtime& runtime) {
  return observe({.session = runtime.session,
                  .threads = runtime.resources.threads,
                  .device = runtime.device.get(),
                  .nvml = runtime.nvml,
                  .ask_cuda = runtime.resources.backend == Backend::cuda});
}

}  // namespace shardstream::runtime
