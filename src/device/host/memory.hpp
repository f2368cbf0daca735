// Host memory: how much of it this process may still take, and anonymous memory in huge pages,
// which both backends build their pinned memory on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardstream::device::host {

/// Bytes that the system and the control groups of this process (version 1 or 2, each level up to
/// the root) would still give out. Files in the page cache count as free: they give way.
std::uint64_t available_memory();

/// `bytes` of zeroed anonymous memory, aligned to 2 MiB and asked to be in huge pages. No page is
/// touched. Throws Error naming the size when the system refuses.
void* map_pages(std::size_t bytes);
/// Writes to every page with `threads` threads, so that no page fault is left for later and each
/// page lands on the NUMA node of the threads.
void touch_pages(void* data, std::size_t bytes, unsigned threads);
void unmap_pages(void* data, std::size_t bytes) noexcept;

}  // namespace shardstream::device::host
