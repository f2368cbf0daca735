#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>

#include "ranks/gpu_locality.hpp"

namespace shardstream::ranks {
namespace {

/// The machine's topology; null if it cannot be read. Then everything is unknown.
class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0) return;
    // PCI devices come from sysfs. These components are excluded because they start CUDA, OpenCL or
    // an X display to name devices, or (x86) visit every core. A component that this hwloc lacks is
    // ignored.
    for (const char* name : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "x86"}) {
      hwloc_topology_set_components(topology_, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
    }
    // The topology includes CPUs that this job may not use.
    const bool loaded =
        hwloc_topology_set_flags(topology_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
        hwloc_topology_set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        hwloc_topology_load(topology_) == 0;
    if (loaded) return;
    hwloc_topology_destroy(topology_);
    topology_ = nullptr;
  }
  ~Topology() {
    if (topology_ != nullptr) hwloc_topology_destroy(topology_);
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  hwloc_topology_t get() const { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
};

/// Loads the topology once per process, since it takes time and does not change.
hwloc_topology_t topology() {
  static const Topology loaded;
  return loaded.get();
}

Cpus cpus_in(hwloc_const_bitmap_t set) {
  Cpus cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

/// The NUMA node of `place`, or -1. It is the lowest node with CPUs, since memory of GPUs and far
/// memory are nodes too. For the whole machine, the node is unknown if it has more than one.
int node_of(hwloc_obj_t place) {
  int found = -1;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology(), HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    const bool in = hwloc_bitmap_isset(place->nodeset, node->os_index) != 0;
    if (!in || hwloc_bitmap_iszero(node->cpuset) != 0) continue;
    if (found >= 0 && place == hwloc_get_root_obj(topology())) return -1;
    const int index = static_cast<int>(node->os_index);
    found = found < 0 ? index : std::min(found, index);
  }
  return found;
}

}  // namespace

void load_topology() {
  (void)topology();
}

Locality locality_of(std::string_view pci) {
  if (topology() == nullptr) return {};
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology(), std::string(pci).c_str());
  if (device == nullptr) return {};
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology(), device);
  return {node_of(place), cpus_in(place->cpuset)};
}

Cpus neighbours_together(const Cpus& cpus) {
  if (topology() == nullptr) return cpus;
  Cpus ordered;
  hwloc_obj_t unit = nullptr;
  while ((unit = hwloc_get_next_obj_by_type(topology(), HWLOC_OBJ_PU, unit)) != nullptr) {
    ordered.push_back(static_cast<int>(unit->os_index));
  }
  Cpus together = common(ordered, cpus);
  return together.size() == cpus.size() ? together : cpus;  // hwloc may not know all of them
}

std::string hwloc_version() {
  const unsigned version = hwloc_get_api_version();
  return fmt::format("{}.{}.{}", version >> 16, version >> 8 & 0xffU, version & 0xffU);
}

}  // namespace shardstream::ranks
