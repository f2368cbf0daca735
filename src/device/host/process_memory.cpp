#include "device/host/process_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/units.hpp"

namespace shardstream::device::host {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The first word of the file as a number; nothing for "max" or if there is no such file.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The number after `key` in a file of "key number" lines; 0 if there is no such line.
std::uint64_t number_of(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  for (std::string word; file >> word >> value;) {
    if (word == key) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

/// The names of files and keys in one version of control groups.
struct Version {
  const char *limit, *usage, *inactive_files, *active_files;
};
constexpr Version version1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                           "total_active_file"};
constexpr Version version2{"memory.max", "memory.current", "inactive_file", "active_file"};

/// The minimum of the available memory on all levels from `group` up to `root`.
std::uint64_t available_in(fs::path group, const fs::path& root, const Version& version) {
  std::uint64_t min_bytes = unlimited;
  while (true) {
    const auto limit = number_in(group / version.limit), usage = number_in(group / version.usage);
    if (limit && usage) {
      const fs::path stat = group / "memory.stat";
      const std::uint64_t cached =
          number_of(stat, version.inactive_files) + number_of(stat, version.active_files);
      const std::uint64_t held = *usage - std::min(*usage, cached);
      min_bytes = std::min(min_bytes, *limit - std::min(*limit, held));
    }
    if (group == root || !group.has_relative_path()) return min_bytes;
    group = group.parent_path();
  }
}

/// The minimum over the groups in /proc/self/cgroup: "0::/path", or "4:memory:/path" in version 1.
/// Inside a container, the path may be that of the host; then the root is this process's group.
std::uint64_t available_in_groups() {
  std::uint64_t min_bytes = unlimited;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",memory,") == controllers.npos) continue;
    const fs::path root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const Version& version = is_v2 ? version2 : version1;
    const fs::path group =
        (root / fs::path(line.substr(second + 1)).relative_path()).lexically_normal();
    min_bytes = std::min(
        {min_bytes, available_in(group, root, version), available_in(root, root, version)});
  }
  return min_bytes;
}

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  return (bytes + huge_page - 1) / huge_page * huge_page;
}

}  // namespace

std::uint64_t available_memory() {
  const std::uint64_t kib = number_of("/proc/meminfo", "MemAvailable:");
  return std::min(kib > 0 ? kib * 1024 : unlimited, available_in_groups());
}

void* map_pages(std::size_t bytes) {
  // One more huge page, so that an aligned part can be cut out.
  const std::size_t size = rounded(bytes);
  void* mapped = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(
        fmt::format("{} of host memory cannot be allocated ({}): use a smaller "
                    "--pipeline.gpu-memory, smaller slots or batches, or fewer ranks per host",
                    format_size(bytes), errno_text(errno)));
  }
  auto* start = static_cast<std::byte*>(mapped);
  auto* aligned = reinterpret_cast<std::byte*>(rounded(reinterpret_cast<std::size_t>(start)));
  if (aligned > start) munmap(start, static_cast<std::size_t>(aligned - start));
  std::byte* end = start + size + huge_page;
  if (aligned + size < end) munmap(aligned + size, static_cast<std::size_t>(end - aligned - size));
  madvise(aligned, size, MADV_HUGEPAGE);  // a hint: if it fails, the memory is only slower
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
