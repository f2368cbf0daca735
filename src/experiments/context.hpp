// Whether CUDA can still be used.
#pragma once

namespace shardstream::experiments {

/// Whether an error has spoilt the CUDA context of this rank, so that every later call fails. False
/// in a build without CUDA.
bool context_is_lost();

}  // namespace shardstream::experiments
