// How much host memory this process may still take.
#pragma once

#include <cstdint>

namespace shardstream::device::host {

/// Bytes that the system and the control groups of this process (version 1 or 2, each level up to
/// the root) would still give out. Files in the page cache count as free: they give way.
std::uint64_t available_memory();

}  // namespace shardstream::device::host
