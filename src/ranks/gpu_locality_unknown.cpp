#include "ranks/gpu_locality.hpp"

namespace shardstream::ranks {

void load_topology() {}

Locality locality_of(std::string_view) {
  return {};
}

Cpus neighbours_together(const Cpus& cpus) {
  return cpus;
}

std::string hwloc_version() {
  return "none";
}

}  // namespace shardstream::ranks
