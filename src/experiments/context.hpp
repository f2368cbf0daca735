// The state of CUDA in this process.
#pragma once

namespace shardstream::experiments {

/// Whether an error has destroyed the CUDA context of this rank, so that every later call fails.
/// False in a build without CUDA.
bool context_is_lost();
/// Number of GPUs that this process sees; 0 in a build without CUDA.
int visible_gpus();

}  // namespace shardstream::experiments
