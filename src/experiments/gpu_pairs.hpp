// Divides the pairs of GPUs among the ranks, so that `peer` measures each pair once.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ranks/session.hpp"

namespace shardstream::experiments {

/// The GPUs that a rank sees, by their PCI addresses.
struct SeenGpus {
  std::string host;
  std::vector<std::string> addresses;  ///< by ordinal
  std::size_t own;                     ///< the ordinal of the rank's own GPU
};

/// The ordinals of the GPUs with which `rank` measures its own GPU: all that it sees, except those
/// whose pair with its own GPU belongs to a lower rank. A pair belongs to the lowest rank that owns
/// one of the two GPUs and sees the other one.
std::vector<int> partners_of(std::span<const SeenGpus> ranks, std::size_t rank);

/// The same for this rank. Collective; every rank must have a GPU.
std::vector<int> own_partners(const ranks::Session& session);

}  // namespace shardstream::experiments
