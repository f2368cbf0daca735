#include "device/host/pages.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::device::host {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  return (bytes + huge_page - 1) / huge_page * huge_page;
}

/// The first number in a file of the kernel's, if there is one ("max" is none).
std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

}  // namespace

void* map_pages(std::size_t bytes) {
  // One huge page more than asked for, so that an aligned start can be cut out.
  const std::size_t size = rounded(bytes);
  void* mapped = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(fmt::format("{} of host memory cannot be had ({}): use smaller slots and batches",
                            format_size(bytes), std::strerror(errno)));
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
  const auto touch = [=](std::size_t part) {
    for (std::size_t i = pages * part / threads; i < pages * (part + 1) / threads; ++i) {
      start[i * page] = std::byte{0};
    }
  };
  std::vector<std::thread> others;
  for (unsigned part = 1; part < threads; ++part) others.emplace_back(touch, part);
  touch(0);
  for (auto& other : others) other.join();
}

void unmap_pages(void* data, std::size_t bytes) noexcept {
  munmap(data, rounded(bytes));
}

std::uint64_t available_memory() {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) available = std::stoull(line.substr(13)) * 1024;
  }
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, *limit > *used ? *limit - *used : 0);
  return available;
}

}  // namespace shardstream::device::host
