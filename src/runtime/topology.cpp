// Each rank writes what it sees as a JSON object, whose fields are named as the tables' columns
// are; every rank makes the tables from all ranks' objects.
#include "runtime/topology.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "device/buffer.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/peers.hpp"
#include "device/pcie.hpp"
#include "launch/affinity.hpp"
#include "launch/gpu_locality.hpp"
#include "launch/memory_nodes.hpp"

namespace shardstream::runtime {
namespace {

using Json = nlohmann::json;

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

Json rank_seen(const Viewpoint& from) {
  device::DeviceInfo none;
  none.backend = "none";
  const auto& device = from.device != nullptr ? from.device->info() : none;
  return {{"host", from.session.host()},
          {"local_rank", from.session.local_rank()},
          {"pid", getpid()},
          {"cpus", launch::granted_cpu_list()},
          {"cpu_nodes", launch::numa_nodes_of_cpus(launch::granted_cpus())},
          {"threads", from.threads},
          {"backend", device.backend},
          {"device", device.name},
          {"gpu_uuid", device.uuid},
          {"gpu_pci", device.pci},
          {"gpu_node", device.pci.empty() ? -1 : launch::locality_of(device.pci).numa_node},
          {"pinned_nodes", pinned_nodes(from.device)}};
}

/// Who tells of a GPU; the first knows the most.
enum class Origin { bound, visible, nvml };

Json gpu_seen(Origin origin, const device::GpuFacts& f) {
  return {{"origin", origin},
          {"pci", f.pci},
          {"uuid", f.uuid},
          {"numa_node", launch::locality_of(f.pci).numa_node},
          {"name", f.name},
          {"compute_capability", f.compute_capability},
          {"multiprocessors", f.multiprocessors},
          {"memory", f.memory},
          {"sm_clock_max", f.sm_clock_max},
          {"memory_clock_max", f.memory_clock_max},
          {"power_limit", f.power_limit},
          {"ecc", f.ecc},
          {"pcie_generation", f.pcie_generation},
          {"pcie_width", f.pcie_width},
          {"pcie_generation_max", f.pcie_generation_max},
          {"pcie_width_max", f.pcie_width_max},
          {"pcie_rate_max", device::pcie_rate(f.pcie_generation_max, f.pcie_width_max)},
          {"nvlinks", f.nvlinks}};
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

Json gpus_seen(const Viewpoint& from) {
  Json all = Json::array();
  if (from.device != nullptr && !from.device->info().uuid.empty()) {
    const auto& info = from.device->info();
    device::GpuFacts facts;
    facts.uuid = info.uuid;
    facts.pci = info.pci;
    facts.name = info.name;
    facts.compute_capability = info.compute_capability;
    facts.multiprocessors = info.multiprocessors;
    facts.memory = static_cast<std::int64_t>(info.memory_total);
    all.push_back(gpu_seen(Origin::bound, completed(facts, from.nvml)));
  }
  if constexpr (built_with_cuda) {
    if (from.ask_cuda) {
      for (const auto& gpu : device::cuda::inventory().gpus) {
        all.push_back(gpu_seen(Origin::visible, completed(gpu, from.nvml)));
      }
    }
  }
  for (const auto& gpu : from.nvml.gpus()) all.push_back(gpu_seen(Origin::nvml, gpu.facts()));
  return all;
}

/// "NVLink" or "PCIe"; "unknown" where NVML does not tell.
std::string link_between(const device::Nvml& nvml, const std::string& from, const std::string& to) {
  const auto one = nvml.gpu_at(from), other = nvml.gpu_at(to);
  const auto nvlink = one && other ? one->has_nvlink_to(*other) : std::nullopt;
  if (!nvlink) return "unknown";
  return *nvlink ? "NVLink" : "PCIe";
}

Json peers_seen(const Viewpoint& from) {
  Json all = Json::array();
  if constexpr (built_with_cuda) {
    if (!from.ask_cuda) return all;
    for (const auto& pair : device::cuda::peer_access()) {
      all.push_back({{"from", pair.from},
                     {"to", pair.to},
                     {"access", pair.can ? 1 : 0},
                     {"performance_rank", pair.performance_rank},
                     {"link", link_between(from.nvml, pair.from, pair.to)}});
    }
  }
  return all;
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

/// Adds `seen` as a row; JSON has no NaN, and writes null for it.
void add_row(Table& table, const Json& seen) {
  std::vector<Cell> row;
  for (const Column& column : table.columns()) {
    const Json& field = seen.at(column.name);
    if (column.type == ColumnType::integer) row.emplace_back(field.get<std::int64_t>());
    if (column.type == ColumnType::text) row.emplace_back(field.get<std::string>());
    if (column.type == ColumnType::real) {
      row.emplace_back(field.is_null() ? device::unknown : field.get<double>());
    }
  }
  table.add(std::move(row));
}

/// Puts together what the ranks have seen; a GPU that several ranks tell of becomes one row.
class Gathering {
 public:
  void add(Json seen) {
    Json& own = seen["rank"];
    own["rank"] = ranks_.rows().size();
    add_row(ranks_, own);
    for (Json& gpu : seen["gpus"]) {
      gpu["host"] = own["host"];
      gpu["visible"] = gpu["origin"] == Origin::nvml ? 0 : 1;
      gpu["rank"] = gpu["origin"] == Origin::bound ? own["rank"] : Json(-1);
      seen_.push_back(std::move(gpu));
    }
    for (Json& pair : seen["peers"]) {
      pair["host"] = own["host"];
      pairs_.push_back(std::move(pair));
    }
  }

  Topology tables() {
    std::ranges::stable_sort(seen_, {},
                             [](const Json& gpu) { return gpu["origin"].get<Origin>(); });
    for (Json& gpu : seen_) add_gpu(gpu);
    for (Json& pair : pairs_) add_pair(pair);
    return {std::move(ranks_), std::move(gpus_), std::move(peers_)};
  }

 private:
  using Place = std::pair<std::string, std::string>;  // host, and PCI address or uuid

  static Place place(const Json& seen, const char* key) { return {seen["host"], seen[key]}; }

  void add_gpu(Json& gpu) {
    // Slices of one GPU share its address; each is bound by its own uuid.
    if (gpu["origin"] == Origin::bound ? !uuids_.insert(place(gpu, "uuid")).second
                                       : numbers_.contains(place(gpu, "pci"))) {
      return;
    }
    gpu["gpu"] = gpus_.rows().size();
    numbers_.insert({place(gpu, "pci"), gpu["gpu"]});
    add_row(gpus_, gpu);
  }

  void add_pair(Json& pair) {
    const auto from = numbers_.find(place(pair, "from")), to = numbers_.find(place(pair, "to"));
    if (from == numbers_.end() || to == numbers_.end()) return;  // CUDA told no address
    if (!told_.insert({from->second, to->second}).second) return;
    pair["gpu"] = from->second;
    pair["peer"] = to->second;
    add_row(peers_, pair);
  }

  Table ranks_ = ranks_table(), gpus_ = gpus_table(), peers_ = peers_table();
  std::vector<Json> seen_, pairs_;
  std::set<Place> uuids_;
  std::map<Place, std::int64_t> numbers_;
  std::set<std::pair<std::int64_t, std::int64_t>> told_;
};

}  // namespace

Topology observe(const Viewpoint& from) {
  const Json mine = {
      {"rank", rank_seen(from)}, {"gpus", gpus_seen(from)}, {"peers", peers_seen(from)}};
  // What is no UTF-8 in a name is replaced.
  const std::string text = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
  Gathering gathering;
  for (const std::string& seen : from.session.gather(text)) gathering.add(Json::parse(seen));
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
