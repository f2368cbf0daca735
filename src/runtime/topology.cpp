// Each rank lists its observations in tables, which all ranks gather. Every rank then merges the
// rows that describe the same GPU.
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
#include "ranks/memory_policy.hpp"
#include "ranks/session.hpp"

namespace shardstream::runtime {
namespace {

/// The NUMA nodes of this rank's pinned memory.
std::string pinned_nodes(device::Device* device) {
  if (device == nullptr) return "unknown";
  try {
    const device::Buffer<std::byte> probe(*device, device::Memory::pinned, std::size_t{4} << 20);
    return ranks::numa_nodes_of(probe.data(), probe.bytes());
  } catch (const Error&) {
    return "unknown";  // an observation must not end a run whose work is done
  }
}

Table observed_rank(const Viewpoint& from) {
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
                        {"pinned_nodes", ColumnType::text},
                        {"numa_nodes", ColumnType::integer},
                        {"memory_node", ColumnType::integer},
                        {"numa_balancing", ColumnType::text}});
  device::DeviceInfo none;
  none.backend = "none";
  const auto& device = from.device != nullptr ? from.device->info() : none;
  const int node = device.pci.empty() ? -1 : ranks::locality_of(device.pci).numa_node;
  const auto nodes = ranks::numa_nodes();
  const auto policy = ranks::MemoryPolicy::of_this_thread();
  table.add({from.session.host(), std::int64_t{from.session.local_rank()}, std::int64_t{getpid()},
             ranks::granted_cpu_list(), ranks::numa_nodes_of_cpus(ranks::granted_cpus()),
             std::int64_t{from.threads}, device.backend, device.name, device.uuid, device.pci,
             std::int64_t{node}, pinned_nodes(from.device),
             nodes.empty() ? std::int64_t{-1} : std::ssize(nodes),
             std::int64_t{policy ? policy->node() : -1}, ranks::numa_balancing()});
  return table;
}

/// The source of a description of a GPU, the most complete one first.
enum class GpuSource : std::int64_t { bound, visible, nvml };

/// The columns that describe a GPU, both in the observations of a rank and in the merged table.
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
          {"nvlinks", ColumnType::integer},
          {"compute_mode", ColumnType::text},
          {"persistence_mode", ColumnType::text},
          {"async_engines", ColumnType::integer},
          {"concurrent_kernels", ColumnType::integer},
          {"maps_host_memory", ColumnType::integer},
          {"performance_state", ColumnType::integer},
          {"utilization", ColumnType::integer, "%"}};
}

/// `columns`, followed by fact_columns().
std::vector<Column> with_facts(std::vector<Column> columns) {
  std::ranges::move(fact_columns(), std::back_inserter(columns));
  return columns;
}

/// The knowledge of one rank about a GPU.
struct KnownGpu {
  device::GpuFacts facts = {};
  device::GpuUse use = {};
};

void add_gpu(Table& seen, const std::string& host, GpuSource origin, const KnownGpu& gpu) {
  const device::GpuFacts& f = gpu.facts;
  const auto integer = [](std::int64_t value) { return Cell(value); };
  seen.add({integer(static_cast<std::int64_t>(origin)),
            host,
            f.pci,
            f.uuid,
            integer(ranks::locality_of(f.pci).numa_node),
            f.name,
            integer(f.compute_capability),
            integer(f.multiprocessors),
            integer(f.memory),
            integer(f.sm_clock_max),
            integer(f.memory_clock_max),
            f.power_limit,
            f.ecc,
            integer(f.pcie_generation),
            integer(f.pcie_width),
            integer(f.pcie_generation_max),
            integer(f.pcie_width_max),
            device::pcie_rate(f.pcie_generation_max, f.pcie_width_max),
            integer(f.nvlinks),
            f.compute_mode,
            f.persistence_mode,
            integer(f.async_engines),
            integer(f.concurrent_kernels),
            integer(f.maps_host_memory),
            integer(gpu.use.performance_state),
            integer(gpu.use.utilization),
            integer(gpu.use.processes)});
}

/// The facts that CUDA knows about a GPU, completed by those of NVML about all GPUs.
KnownGpu completed(const device::GpuFacts& cuda, const std::vector<KnownGpu>& nvml) {
  const auto gpu = std::ranges::find(nvml, cuda.pci, [](const KnownGpu& g) { return g.facts.pci; });
  KnownGpu known = gpu != nvml.end() ? *gpu : KnownGpu();
  device::GpuFacts& facts = known.facts;
  facts.pci = cuda.pci;
  facts.name = cuda.name;
  facts.compute_capability = cuda.compute_capability;
  facts.multiprocessors = cuda.multiprocessors;
  facts.memory = cuda.memory;
  facts.async_engines = cuda.async_engines;
  facts.concurrent_kernels = cuda.concurrent_kernels;
  facts.maps_host_memory = cuda.maps_host_memory;
  if (!cuda.uuid.empty())
    facts.uuid = cuda.uuid;  // for a MIG device, NVML has the UUID of the whole GPU
  return known;
}

/// The GPUs that CUDA shows to this rank.
std::vector<device::GpuFacts> visible_to_cuda([[maybe_unused]] const Viewpoint& from) {
  if constexpr (built_with_cuda) {
    if (from.ask_cuda) return device::cuda::inventory().gpus;
  }
  return {};
}

Table observed_gpus(const Viewpoint& from) {
  std::vector<Column> columns = with_facts({{"origin", ColumnType::integer},
                                            {"host", ColumnType::text},
                                            {"pci", ColumnType::text},
                                            {"uuid", ColumnType::text}});
  columns.push_back({"processes", ColumnType::integer});
  Table seen("gpus", std::move(columns));
  const auto add = [&](GpuSource origin, const KnownGpu& gpu) {
    add_gpu(seen, from.session.host(), origin, gpu);
  };
  std::vector<KnownGpu> known;  // only once, since the driver takes 5 ms for each GPU
  for (const auto& gpu : from.nvml.gpus()) known.push_back({gpu.facts(), gpu.use()});
  const std::vector<device::GpuFacts> visible = visible_to_cuda(from);
  if (from.device != nullptr && !from.device->info().uuid.empty()) {
    const auto& info = from.device->info();
    const auto own = std::ranges::find(visible, info.uuid, &device::GpuFacts::uuid);
    device::GpuFacts facts = own != visible.end() ? *own : device::GpuFacts();
    facts.uuid = info.uuid;
    facts.pci = info.pci;
    facts.name = info.name;
    facts.compute_capability = info.compute_capability;
    facts.multiprocessors = info.multiprocessors;
    facts.memory = static_cast<std::int64_t>(info.memory_total);
    add(GpuSource::bound, completed(facts, known));
  }
  for (const auto& gpu : visible) add(GpuSource::visible, completed(gpu, known));
  for (const auto& gpu : known) add(GpuSource::nvml, gpu);
  return seen;
}

/// "NVLink" or "PCIe"; "unknown" if NVML does not know.
std::string link_between(const device::Nvml& nvml, const std::string& from, const std::string& to) {
  const auto one = nvml.gpu_at(from), other = nvml.gpu_at(to);
  const auto nvlink = one && other ? one->has_nvlink_to(*other) : std::nullopt;
  if (!nvlink) return "unknown";
  return *nvlink ? "NVLink" : "PCIe";
}

Table observed_peers(const Viewpoint& from) {
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

/// Merges the observations of all ranks. A GPU that several ranks describe becomes one row.
class TopologyMerger {
 public:
  void add_gpus(const Table& seen) {
    for (const Row& gpu : seen.rows()) {
      const auto bound = static_cast<std::int64_t>(GpuSource::bound);
      if (gpu.get<std::int64_t>("origin") == bound) ++ranks_on_[place(gpu, "pci")];
    }
    for (const GpuSource origin : {GpuSource::bound, GpuSource::visible, GpuSource::nvml}) {
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
      if (from == numbers_.end() || to == numbers_.end()) continue;  // CUDA knows no address
      if (!listed_.insert({from->second, to->second}).second) continue;
      peers.add({from->second, to->second, pair["host"], pair["access"], pair["performance_rank"],
                 pair["link"]});
    }
  }

  Table gpus{"gpus", merged_columns()};
  Table peers{"peers",
              {{"gpu", ColumnType::integer},
               {"peer", ColumnType::integer},
               {"host", ColumnType::text},
               {"access", ColumnType::integer},
               {"performance_rank", ColumnType::integer},
               {"link", ColumnType::text}}};

 private:
  using Place = std::pair<std::string, std::string>;  // host, and PCI address or uuid

  static std::vector<Column> merged_columns() {
    std::vector<Column> columns = with_facts({{"gpu", ColumnType::integer},
                                              {"host", ColumnType::text},
                                              {"pci", ColumnType::text},
                                              {"uuid", ColumnType::text},
                                              {"rank", ColumnType::integer},
                                              {"visible", ColumnType::integer}});
    columns.push_back({"other_processes", ColumnType::integer});
    return columns;
  }

  static Place place(const Row& seen, const char* key) {
    return {seen.get<std::string>("host"), seen.get<std::string>(key)};
  }

  void add_gpu(const Row& seen, GpuSource origin) {
    const bool bound = origin == GpuSource::bound;
    // MIG devices of one GPU have the same address, but different UUIDs.
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
                             std::int64_t{origin != GpuSource::nvml}};
    for (const Column& fact : fact_columns()) row.push_back(seen[fact.name]);
    row.emplace_back(other_processes(seen));
    gpus.add(std::move(row));
  }

  /// NVML's process ids may be those of another namespace, so that processes are only counted. If
  /// it shows fewer than the ranks that use the GPU, it hides some.
  std::int64_t other_processes(const Row& seen) const {
    const auto ranks = ranks_on_.find(place(seen, "pci"));
    const std::int64_t own = ranks == ranks_on_.end() ? 0 : ranks->second;
    return std::max<std::int64_t>(-1, seen.get<std::int64_t>("processes") - own);
  }

  std::map<Place, std::int64_t> ranks_on_;
  std::set<Place> uuids_;
  std::map<Place, std::int64_t> numbers_;
  std::set<std::pair<std::int64_t, std::int64_t>> listed_;
};

}  // namespace

Topology observe(const Viewpoint& from) {
  Table ranks = ranks::gather(from.session, observed_rank(from));
  TopologyMerger merger;
  merger.add_gpus(ranks::gather(from.session, observed_gpus(from)));
  merger.add_peers(ranks::gather(from.session, observed_peers(from)));
  return {std::move(ranks), std::move(merger.gpus), std::move(merger.peers)};
}

}  // namespace shardstream::runtime
