// Each rank writes what it sees as lines of fields, tabs between them; every rank makes the tables
// from all ranks' lines. The last field of a line is never empty: split() trims.
#include "runtime/topology.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "device/buffer.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/peers.hpp"
#include "device/pcie.hpp"
#include "launch/affinity.hpp"
#include "launch/gpu_locality.hpp"
#include "launch/memory_nodes.hpp"

namespace shardstream::runtime {
namespace {

using Fields = std::vector<std::string>;

std::int64_t integer(const std::string& text) {
  return std::stoll(text);
}

/// Where pinned memory of this rank lands.
std::string pinned_nodes(device::Device* device) {
  if (device == nullptr) return "unknown";
  try {
    const device::Buffer<std::byte> probe(*device, device::Memory::pinned, std::size_t{4} << 20);
    return launch::numa_nodes_of(probe.data(), probe.bytes());
  } catch (const Error&) {
    return "unknown";  // a look round must not end a run whose work is done
  }
}

std::string rank_line(const Viewpoint& from) {
  device::DeviceInfo none;
  none.backend = "none";
  const auto& device = from.device != nullptr ? from.device->info() : none;
  const std::string cpus = launch::granted_cpu_list();
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", from.session.host(),
                     from.session.local_rank(), getpid(), cpus,
                     launch::numa_nodes_of_cpus(launch::granted_cpus()), device.backend,
                     device.name, device.uuid, device.pci,
                     device.pci.empty() ? -1 : launch::locality_of(device.pci).numa_node,
                     from.threads, pinned_nodes(from.device));
}

/// Who tells of a GPU; the first knows the most.
enum class Origin { bound, visible, nvml };

std::string gpu_line(Origin origin, const device::GpuFacts& f) {
  return fmt::format("gpu\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
                     static_cast<int>(origin), f.uuid, f.pci, launch::locality_of(f.pci).numa_node,
                     f.name, f.compute_capability, f.multiprocessors, f.memory, f.sm_clock_max,
                     f.memory_clock_max, f.power_limit, f.ecc, f.pcie_generation, f.pcie_width,
                     f.pcie_generation_max, f.pcie_width_max, f.nvlinks);
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

std::string gpu_lines(const Viewpoint& from) {
  std::string lines;
  if (from.device != nullptr && !from.device->info().uuid.empty()) {
    const auto& info = from.device->info();
    device::GpuFacts facts;
    facts.uuid = info.uuid;
    facts.pci = info.pci;
    facts.name = info.name;
    facts.compute_capability = info.compute_capability;
    facts.multiprocessors = info.multiprocessors;
    facts.memory = static_cast<std::int64_t>(info.memory_total);
    lines += gpu_line(Origin::bound, completed(facts, from.nvml));
  }
  if constexpr (built_with_cuda) {
    if (from.ask_cuda) {
      for (const auto& gpu : device::cuda::inventory().gpus) {
        lines += gpu_line(Origin::visible, completed(gpu, from.nvml));
      }
    }
  }
  for (const auto& gpu : from.nvml.gpus()) lines += gpu_line(Origin::nvml, gpu.facts());
  return lines;
}

/// "NVLink" or "PCIe"; "unknown" where NVML does not tell.
std::string link_between(const device::Nvml& nvml, const std::string& from, const std::string& to) {
  const auto one = nvml.gpu_at(from), other = nvml.gpu_at(to);
  const auto nvlink = one && other ? one->has_nvlink_to(*other) : std::nullopt;
  if (!nvlink) return "unknown";
  return *nvlink ? "NVLink" : "PCIe";
}

std::string peer_lines(const Viewpoint& from) {
  std::string lines;
  if constexpr (built_with_cuda) {
    if (!from.ask_cuda) return lines;
    for (const auto& pair : device::cuda::peer_access()) {
      lines += fmt::format("peer\t{}\t{}\t{}\t{}\t{}\n", pair.from, pair.to, pair.can ? 1 : 0,
                           pair.performance_rank, link_between(from.nvml, pair.from, pair.to));
    }
  }
  return lines;
}

Table ranks_table() {
  return Table("ranks", {{"rank", ColumnType::integer},
                         {"host", ColumnType::text},
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
}

Table gpus_table() {
  return Table("gpus", {{"gpu", ColumnType::integer},
                        {"host", ColumnType::text},
                        {"pci", ColumnType::text},
                        {"uuid", ColumnType::text},
                        {"rank", ColumnType::integer},
                        {"visible", ColumnType::integer},
                        {"numa_node", ColumnType::integer},
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
                        {"nvlinks", ColumnType::integer}});
}

Table peers_table() {
  return Table("peers", {{"gpu", ColumnType::integer},
                         {"peer", ColumnType::integer},
                         {"host", ColumnType::text},
                         {"access", ColumnType::integer},
                         {"performance_rank", ColumnType::integer},
                         {"link", ColumnType::text}});
}

/// Puts the ranks' lines together; a GPU that several ranks tell of becomes one row.
class Gathering {
 public:
  void add(const std::string& text) {
    const auto lines = split(text, '\n');
    const Fields mine = fields_of(lines[0]);
    const std::string& host = mine[0];
    ranks_.add({rank_, host, integer(mine[1]), integer(mine[2]), mine[3], mine[4],
                integer(mine[10]), mine[5], mine[6], mine[7], mine[8], integer(mine[9]), mine[11]});
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const Fields fields = fields_of(lines[i]);
      if (fields[0] == "gpu") seen_.push_back({rank_, host, fields});
      if (fields[0] == "peer") pairs_.push_back({rank_, host, fields});
    }
    ++rank_;
  }

  Topology tables() {
    const auto origin = [](const Seen& gpu) { return gpu.fields[1]; };
    std::ranges::stable_sort(seen_, {}, origin);
    for (const auto& gpu : seen_) add_gpu(gpu);
    for (const auto& pair : pairs_) add_pair(pair);
    return {std::move(ranks_), std::move(gpus_), std::move(peers_)};
  }

 private:
  struct Seen {
    std::int64_t rank;
    std::string host;
    Fields fields;
  };
  using Place = std::pair<std::string, std::string>;  // host, and PCI address or uuid

  static Fields fields_of(std::string_view line) {
    const auto pieces = split(line, '\t');
    return {pieces.begin(), pieces.end()};
  }

  void add_gpu(const Seen& seen) {
    const Fields& f = seen.fields;
    const auto origin = static_cast<Origin>(integer(f[1]));
    // Slices of one GPU share its address; each is bound by its own uuid.
    if (origin == Origin::bound ? !uuids_.insert({seen.host, f[2]}).second
                                : numbers_.contains({seen.host, f[3]})) {
      return;
    }
    const auto number = static_cast<std::int64_t>(gpus_.rows().size());
    numbers_.insert({{seen.host, f[3]}, number});
    std::vector<Cell> row = {number,
                             seen.host,
                             f[3],
                             f[2],
                             origin == Origin::bound ? seen.rank : -1,
                             std::int64_t{origin != Origin::nvml},
                             integer(f[4]),
                             f[5]};
    for (std::size_t i = 6; i <= 10; ++i)
      row.emplace_back(integer(f[i]));  // capability to memory's clock
    row.emplace_back(std::stod(f[11]));
    row.emplace_back(f[12]);
    for (std::size_t i = 13; i <= 16; ++i) row.emplace_back(integer(f[i]));  // the PCIe link
    row.emplace_back(device::pcie_rate(std::stoi(f[15]), std::stoi(f[16])));
    row.emplace_back(integer(f[17]));
    gpus_.add(std::move(row));
  }

  void add_pair(const Seen& seen) {
    const Fields& f = seen.fields;
    const auto from = numbers_.find({seen.host, f[1]}), to = numbers_.find({seen.host, f[2]});
    if (from == numbers_.end() || to == numbers_.end()) return;  // CUDA told no address
    if (!told_.insert({from->second, to->second}).second) return;
    peers_.add({from->second, to->second, seen.host, integer(f[3]), integer(f[4]), f[5]});
  }

  Table ranks_ = ranks_table(), gpus_ = gpus_table(), peers_ = peers_table();
  std::int64_t rank_ = 0;
  std::vector<Seen> seen_, pairs_;
  std::set<Place> uuids_;
  std::map<Place, std::int64_t> numbers_;
  std::set<std::pair<std::int64_t, std::int64_t>> told_;
};

}  // namespace

Topology observe(const Viewpoint& from) {
  Gathering gathering;
  for (const std::string& text :
       from.session.gather(rank_line(from) + gpu_lines(from) + peer_lines(from))) {
    gathering.add(text);
  }
  return gathering.tables();
}

Topology observe(const Runtime& runtime) {
  return observe({.session = runtime.session,
                  .threads = runtime.resources.threads,
                  .device = runtime.device.get(),
                  .nvml = runtime.nvml,
                  .ask_cuda = !runtime.resources.device_is_host});
}

}  // namespace shardstream::runtime
