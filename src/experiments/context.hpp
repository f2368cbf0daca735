// The state of CUDA in this process.
#pragma once

#include <string>
#include <vector>

namespace shardstream::experiments {

/// Whether an error has destroyed the CUDA context of this rank, so that every later call fails.
/// False in a build without CUDA.
bool context_is_lost();
/// Number of GPUs that this process sees; 0 in a build without CUDA.
int visible_gpus();
/// The PCI addresses of these GPUs by ordinal. All processes of a host see the same address.
std::vector<std::string> visible_addresses();
/// The ordinal of this thread's GPU; -1 in a build without CUDA.
int current_gpu();

}  // namespace shardstream::experiments
