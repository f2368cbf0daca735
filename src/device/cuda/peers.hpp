// How the visible GPUs reach each other, asked without opening any of them.
#pragma once

#include <string>
#include <vector>

namespace shardstream::device::cuda {

/// How one GPU reaches another's memory.
struct PeerAccess {
  std::string from, to;       ///< PCI addresses
  bool can = false;           ///< directly
  int performance_rank = -1;  ///< CUDA's: the lower, the faster; -1 if unknown
};

/// Each ordered pair of visible GPUs; nothing where CUDA cannot work.
std::vector<PeerAccess> peer_access();

}  // namespace shardstream::device::cuda
