#include "device/host/pages.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/units.hpp"

namespace shardstream::device::host {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  return (bytes + huge_page - 1) / huge_page * huge_page;
}

}  // namespace

void* map_pages(std::size_t bytes) {
  // One huge page more than asked for, so that an aligned start can be cut out.
  const std::size_t size = rounded(bytes);
  void* mapped = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(
        fmt::format("{} of host memory cannot be had ({}): use a smaller --pipeline.gpu-memory, "
                    "smaller slots or batches, or fewer ranks on a host",
                    format_size(bytes), errno_text(errno)));
  }
  auto* start = static_cast<std::byte*>(mapped);
  auto* aligned = reinterpret_cast<std::byte*>(rounded(reinterpret_cast<std::size_t>(start)));
  if (aligned > start) munmap(start, static_cast<std::size_t>(aligned - start));
  std::byte* end = start + size + huge_page;
  if (aligned + size < end) munmap(aligned + size, static_cast<std::size_t>(end - aligned - size));
  madvise(aligned, size, MADV_HUGEPAGE);  // a wish: without it the memory is only slower
  return aligned;
}

void touch_pages(void* data, std::size_t bytes, unsigned threads) {
  constexpr std::size_t page = 4096;
  if (bytes < huge_page) threads = 1;
  const std::size_t pages = (bytes + page - 1) / page;
  auto* start = static_cast<volatile std::byte*>(data);
  parallel_for(threads, threads, [=](std::uint64_t part) {
    for (std::size_t i = pages * part / threads; i < pages * (part + 1) / threads; ++i) {
      start[i * page] = std::byte{0};
    }
  });
}

void unmap_pages(void* data, std::size_t bytes) noexcept {
  munmap(data, rounded(bytes));
}

}  // namespace shardstream::device::host
