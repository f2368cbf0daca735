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
#include "measure/gather.hpp"
#include "ranks/cpus.hpp"
#include "ranks/gpu_locality.hpp"
#include "ranks/memory_policy.hpp"
#include "ranks/session.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"

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

result::Rank observed_rank(const Viewpoint& from) {
  device::DeviceInfo none;
  none.backend = "none";
  const auto& device = from.device != nullptr ? from.device->info() : none;
  const auto nodes = ranks::numa_nodes();
  const auto policy = ranks::MemoryPolicy::of_this_thread();
  return {.rank = from.session.rank(),
          .host = from.session.host(),
          .local_rank = from.session.local_rank(),
          .pid = getpid(),
          .cpus = ranks::granted_cpu_list(),
          .cpu_nodes = ranks::numa_nodes_of_cpus(ranks::granted_cpus()),
          .threads = from.threads,
          .backend = device.backend,
          .device = device.name,
          .gpu_uuid = device.uuid,
          .gpu_pci = device.pci,
          .gpu_node = device.pci.empty() ? -1 : ranks::locality_of(device.pci).numa_node,
          .pinned_nodes = pinned_nodes(from.device),
          .numa_nodes = nodes.empty() ? -1 : std::ssize(nodes),
          .memory_node = policy ? policy->node() : -1,
          .numa_balancing = ranks::numa_balancing()};
}

/// The source of a description of a GPU, the most complete one first.
enum class GpuSource : std::int64_t { bound, visible, nvml };

/// The knowledge of one rank about a GPU.
struct KnownGpu {
  device::GpuFacts facts = {};
  device::GpuUse use = {};
};

/// A GPU as a rank describes it, not merged with the descriptions of other ranks.
struct SeenGpu : result::Gpu {
  std::int64_t origin = 0;  ///< GpuSource
  std::int64_t processes = -1;

  static constexpr std::string_view table = "seen_gpus";
  static std::vector<result::Field<SeenGpu>> columns() {
    auto columns = result::joined<SeenGpu>(result::Gpu::columns());
    columns.push_back({"origin", &SeenGpu::origin});
    columns.push_back({"processes", &SeenGpu::processes});
    return columns;
  }
};

SeenGpu seen_by(const ranks::Session& session, GpuSource origin, const KnownGpu& gpu) {
  const device::GpuFacts& f = gpu.facts;
  SeenGpu seen;
  seen.origin = static_cast<std::int64_t>(origin);
  seen.processes = gpu.use.processes;
  static_cast<result::GpuPlace&>(seen) = {.host = session.host(),
                                          .pci = f.pci,
                                          .uuid = f.uuid,
                                          .rank = session.rank(),
                                          .numa_node = ranks::locality_of(f.pci).numa_node};
  static_cast<result::GpuHardware&>(seen) = {
      .name = f.name,
      .compute_capability = f.compute_capability,
      .multiprocessors = f.multiprocessors,
      .memory = f.memory,
      .sm_clock_max = f.sm_clock_max,
      .memory_clock_max = f.memory_clock_max,
      .power_limit = f.power_limit,
      .ecc = f.ecc,
      .pcie_generation = f.pcie_generation,
      .pcie_width = f.pcie_width,
      .pcie_generation_max = f.pcie_generation_max,
      .pcie_width_max = f.pcie_width_max,
      .pcie_rate_max = device::pcie_rate(f.pcie_generation_max, f.pcie_width_max),
      .nvlinks = f.nvlinks};
  static_cast<result::GpuState&>(seen) = {.compute_mode = f.compute_mode,
                                          .persistence_mode = f.persistence_mode,
                                          .async_engines = f.async_engines,
                                          .concurrent_kernels = f.concurrent_kernels,
                                          .maps_host_memory = f.maps_host_memory,
                                          .performance_state = gpu.use.performance_state,
                                          .utilization = gpu.use.utilization};
  return seen;
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

std::vector<SeenGpu> observed_gpus(const Viewpoint& from) {
  std::vector<SeenGpu> seen;
  const auto add = [&](GpuSource origin, const KnownGpu& gpu) {
    seen.push_back(seen_by(from.session, origin, gpu));
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

/// A pair of GPUs that a rank can see, by their PCI addresses.
struct SeenPeer {
  std::string host, from, to;
  bool access = false;
  std::int64_t performance_rank = 0;
  std::string link;

  static constexpr std::string_view table = "seen_peers";
  static std::vector<result::Field<SeenPeer>> columns() {
    using R = SeenPeer;
    return {{"host", &R::host},
            {"from", &R::from},
            {"to", &R::to},
            {"access", &R::access},
            {"performance_rank", &R::performance_rank},
            {"link", &R::link}};
  }
};

std::vector<SeenPeer> observed_peers([[maybe_unused]] const Viewpoint& from) {
  std::vector<SeenPeer> seen;
  if constexpr (built_with_cuda) {
    if (!from.ask_cuda) return seen;
    for (const auto& pair : device::cuda::peer_access()) {
      seen.push_back({.host = from.session.host(),
                      .from = pair.from,
                      .to = pair.to,
                      .access = pair.can,
                      .performance_rank = pair.performance_rank,
                      .link = link_between(from.nvml, pair.from, pair.to)});
    }
  }
  return seen;
}

/// Merges the observations of all ranks. A GPU that several ranks describe becomes one row.
class TopologyMerger {
 public:
  void add_gpus(const std::vector<SeenGpu>& seen) {
    const auto is_from = [](const SeenGpu& gpu, GpuSource origin) {
      return gpu.origin == static_cast<std::int64_t>(origin);
    };
    for (const SeenGpu& gpu : seen) {
      if (is_from(gpu, GpuSource::bound)) ++ranks_on_[{gpu.host, gpu.pci}];
    }
    for (const GpuSource origin : {GpuSource::bound, GpuSource::visible, GpuSource::nvml}) {
      for (const SeenGpu& gpu : seen) {
        if (is_from(gpu, origin)) add_gpu(gpu, origin);
      }
    }
  }

  void add_peers(const std::vector<SeenPeer>& seen) {
    for (const SeenPeer& pair : seen) {
      const auto from = numbers_.find({pair.host, pair.from}),
                 to = numbers_.find({pair.host, pair.to});
      if (from == numbers_.end() || to == numbers_.end()) continue;  // CUDA knows no address
      if (!listed_.insert({from->second, to->second}).second) continue;
      peers.push_back(
          {from->second, to->second, pair.host, pair.access, pair.performance_rank, pair.link});
    }
  }

  std::vector<result::Gpu> gpus;
  std::vector<result::Peer> peers;

 private:
  using GpuKey = std::pair<std::string, std::string>;  // host, and PCI address or uuid

  void add_gpu(const SeenGpu& seen, GpuSource origin) {
    const bool bound = origin == GpuSource::bound;
    const GpuKey place{seen.host, seen.pci};
    // MIG devices of one GPU have the same address, but different UUIDs.
    if (bound ? !uuids_.insert({seen.host, seen.uuid}).second : numbers_.contains(place)) return;
    result::Gpu gpu = seen;
    gpu.gpu = std::ssize(gpus);
    if (!bound) gpu.rank = -1;
    gpu.visible = origin != GpuSource::nvml;
    // NVML's process ids may be those of another namespace, so that processes are only counted. If
    // it shows fewer than the ranks that use the GPU, it hides some.
    const auto ranks = ranks_on_.find(place);
    const std::int64_t own = ranks == ranks_on_.end() ? 0 : ranks->second;
    gpu.other_processes = std::max<std::int64_t>(-1, seen.processes - own);
    numbers_.insert({place, gpu.gpu});
    gpus.push_back(std::move(gpu));
  }

  std::map<GpuKey, std::int64_t> ranks_on_;
  std::set<GpuKey> uuids_;
  std::map<GpuKey, std::int64_t> numbers_;
  std::set<std::pair<std::int64_t, std::int64_t>> listed_;
};

}  // namespace

Topology observe(const Viewpoint& from) {
  auto ranks = measure::gather(from.session, std::vector{observed_rank(from)});
  TopologyMerger merger;
  merger.add_gpus(measure::gather(from.session, observed_gpus(from)));
  merger.add_peers(measure::gather(from.session, observed_peers(from)));
  return {std::move(ranks), std::move(merger.gpus), std::move(merger.peers)};
}

void store(io::ResultFile& file, const Topology& topology) {
  result::write(file, topology.ranks);
  result::write(file, topology.gpus);
  result::write(file, topology.peers);
}

}  // namespace shardstream::runtime
