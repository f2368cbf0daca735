// The number of threads of a warp, which is the same on all GPUs.
#pragma once

namespace shardstream::experiments {

inline constexpr unsigned warp = 32;

}  // namespace shardstream::experiments
