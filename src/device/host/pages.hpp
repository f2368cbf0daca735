// Anonymous host memory in huge pages, which both backends build their pinned memory on.
#pragma once

#include <cstddef>

namespace shardstream::device::host {

/// `bytes` of zeroed anonymous memory, aligned to 2 MiB and asked to be in huge pages. No page is
/// touched. Throws Error naming the size when the system refuses.
void* map_pages(std::size_t bytes);
/// Writes to every page with `threads` threads, so that no page fault is left for later and each
/// page lands on the NUMA node of the threads.
void touch_pages(void* data, std::size_t bytes, unsigned threads);
void unmap_pages(void* data, std::size_t bytes) noexcept;

}  // namespace shardstream::device::host
