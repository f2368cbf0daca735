// Host memory: the amount that this process can still allocate, and anonymous memory in huge pages,
// the base of pinned memory in both backends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardstream::device::host {

/// The number of bytes that this process can still allocate, from the system and from the control
/// groups of this process (version 1 or 2, on every level up to the root). Files in the page cache
/// count as free, since the system drops them if needed.
std::uint64_t available_memory();

/// `bytes` bytes of zeroed anonymous memory, aligned to 2 MiB, with a request for huge pages. No
/// page is touched. Throws Error with the size on failure. unmap_pages() frees the memory.
void* map_pages(std::size_t bytes);
/// Writes to every page with `threads` threads, so that no page faults happen later and each page
/// is on the NUMA node of the threads.
void touch_pages(void* data, std::size_t bytes, unsigned threads);
void unmap_pages(void* data, std::size_t bytes) noexcept;

}  // namespace shardstream::device::host
