// Anonymous host memory in huge pages, which both backends build their pinned memory on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardstream::device::host {

/// `bytes` of zeroed anonymous memory, aligned to 2 MiB and asked to be in huge pages. No page is
/// touched. Throws Error naming the size when the system refuses.
void* map_pages(std::size_t bytes);
/// Writes to every page with `threads` threads, so that no page fault is left for later and each
/// page lands on the NUMA node of the threads.
void touch_pages(void* data, std::size_t bytes, unsigned threads);
void unmap_pages(void* data, std::size_t bytes) noexcept;

/// Bytes of memory that the system, or this process's control group, would still give out.
std::uint64_t available_memory();

}  // namespace shardstream::device::host
