// The carve-out: the part of a multiprocessor's on-chip memory that is shared memory. The rest is
// L1 cache.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardstream::experiments::execution {

/// Bytes of L1 cache that remain beside a carve-out of `bytes`, at least. `max` is the largest
/// possible carve-out, which leaves 28 KiB, or 32 KiB with compute capability 7.x (CUDA C++
/// Programming Guide, sections Shared Memory of the compute capabilities).
constexpr std::uint64_t l1_beside(std::uint64_t bytes, std::uint64_t max) {
  return max - bytes + 28 * 1024;
}

/// The number of blocks that a multiprocessor holds with a carve-out of `bytes`: each needs `each`
/// bytes of shared memory, including the part that the driver reserves, and other limits allow
/// `max`. At least 1: the driver enlarges a carve-out that does not hold a block.
constexpr std::uint64_t blocks_in(std::uint64_t bytes, std::uint64_t each, std::uint64_t max) {
  return std::max<std::uint64_t>(1, std::min(bytes / each, max));
}

}  // namespace shardstream::experiments::execution
