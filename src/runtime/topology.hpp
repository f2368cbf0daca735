// The observed placement of ranks, the GPUs, and the links between GPUs.
#pragma once

#include <vector>

#include "device/device.hpp"
#include "device/nvml.hpp"
#include "ranks/session.hpp"

namespace shardstream::io {
class ResultFile;
}
namespace shardstream::result {
struct Rank;  // result/tables.hpp
struct Gpu;
struct Peer;
}  // namespace shardstream::result

namespace shardstream::runtime {

/// The same on every rank.
struct Topology {
  std::vector<result::Rank> ranks;
  /// Empty if neither CUDA nor NVML lists GPUs, and in runs on the host backend.
  std::vector<result::Gpu> gpus;
  std::vector<result::Peer> peers;
};
/// Writes the tables of /topology.
void store(io::ResultFile& file, const Topology& topology);

/// The sources of one rank's observations.
struct Viewpoint {
  const ranks::Session& session;
  unsigned threads = 1;
  device::Device* device = nullptr;  ///< null if none could be opened
  const device::Nvml& nvml;
  bool ask_cuda = false;  ///< whether CUDA lists the GPUs that this rank does not use
};

/// Collective.
Topology observe(const Viewpoint& from);

}  // namespace shardstream::runtime
