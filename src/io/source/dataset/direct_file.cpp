#include "io/source/dataset/direct_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include "core/shard.hpp"
#include "kernels/data/generate.hpp"

namespace shardstream::io {
namespace {

/// The bytes per call: whole blocks, and less than Linux's limit of 2^31 - 4096.
constexpr std::uint64_t max_per_call = std::uint64_t{1} << 30;

std::uint64_t page_size() {
  return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The numbers of all pages of the file that contain a byte of the range.
Range pages_of(Range bytes) {
  const std::uint64_t first = bytes.first / page_size();
  return {first, ceil_div(bytes.end(), page_size()) - first};
}

/// The share of sampled pages for which `is_cached` is true; it returns nothing if it is unknown.
/// Each call samples other pages, since a page may be cached because it was sampled before.
template <class IsCached>
std::optional<double> sampled_share(Range pages, std::uint64_t samples, const IsCached& is_cached) {
  samples = std::min(samples, pages.count);
  if (samples == 0) return std::nullopt;
  const auto seed =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::uint64_t cached = 0;
  for (std::uint64_t i = 0; i < samples; ++i) {
    const Range stretch = share(pages.count, i, samples);
    const std::optional<bool> answer =
        is_cached(pages.first + stretch.first + mix(seed + i) % stretch.count);
    if (!answer) return std::nullopt;
    cached += *answer ? 1 : 0;
  }
  return static_cast<double>(cached) / static_cast<double>(samples);
}

std::string path_of(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

/// For other files, mincore() reports that everything is cached.
bool mincore_tells_the_truth(const Descriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return false;
  return status.st_uid == ::geteuid() || ::access(path_of(file).c_str(), W_OK) == 0;
}

}  // namespace

DirectFile::DirectFile(const Descriptor& file)
    : file_(fmt::format("/proc/self/fd/{}", file.get()), O_RDONLY | O_DIRECT) {
  if (!file_.valid()) return;
  const AlignedBytes first(block(), room(1));
  if (read_at(0, first.data(), 1) >= 0) return;
  const int why = errno;
  file_ = Descriptor();
  errno = why;
}

std::uint64_t DirectFile::block() {
  static const auto page = static_cast<std::uint64_t>(std::max(4096L, sysconf(_SC_PAGESIZE)));
  return page;
}

std::uint64_t DirectFile::room(std::uint64_t bytes) {
  return (ceil_div(bytes, block()) + 1) * block();
}

std::int64_t DirectFile::read_at(std::uint64_t offset, std::byte* to, std::uint64_t bytes) const {
  const std::uint64_t before = head(offset), start = offset - before, wanted = before + bytes;
  const std::uint64_t whole = ceil_div(wanted, block()) * block();
  std::uint64_t done = 0;
  while (done < wanted) {
    const auto piece = std::min(whole - done, max_per_call);
    const ssize_t got = ::pread(file_.get(), to + done, piece, static_cast<off_t>(start + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    done += static_cast<std::uint64_t>(got);
    // A read returns less than a block only at the end of the file; reading on would be an error.
    if (got == 0 || done % block() != 0) break;
  }
  return static_cast<std::int64_t>(std::min(done - std::min(done, before), bytes));
}

std::optional<double> cached_share(const Descriptor& file, Range bytes, std::uint64_t samples) {
  const auto share = cached_share_by_mapping(file, bytes, samples);
  return share ? share : cached_share_by_reading(file, bytes, samples);
}

std::optional<double> cached_share_by_mapping(const Descriptor& file, Range bytes,
                                              std::uint64_t samples) {
  if (bytes.count == 0 || !mincore_tells_the_truth(file)) return std::nullopt;
  const Range pages = pages_of(bytes);
  // The mapping is never accessed, so a file that shrinks causes no fault.
  void* const mapped = ::mmap(nullptr, pages.count * page_size(), PROT_READ, MAP_SHARED, file.get(),
                              static_cast<off_t>(pages.first * page_size()));
  if (mapped == MAP_FAILED) return std::nullopt;
  const auto share = sampled_share(pages, samples, [&](std::uint64_t page) -> std::optional<bool> {
    unsigned char state = 0;
    auto* const address = static_cast<std::byte*>(mapped) + (page - pages.first) * page_size();
    if (::mincore(address, page_size(), &state) != 0) return std::nullopt;
    return (state & 1) != 0;
  });
  ::munmap(mapped, pages.count * page_size());
  return share;
}

std::optional<double> cached_share_by_reading(const Descriptor& file, Range bytes,
                                              std::uint64_t samples) {
  if (bytes.count == 0) return std::nullopt;
  const Descriptor own(path_of(file), O_RDONLY);
  if (!own.valid()) return std::nullopt;
  // Without read-ahead, a sample loads at most one page.
  if (::posix_fadvise(own.get(), 0, 0, POSIX_FADV_RANDOM) != 0) return std::nullopt;
  return sampled_share(pages_of(bytes), samples, [&](std::uint64_t page) -> std::optional<bool> {
    std::byte byte{};
    const iovec to{&byte, 1};
    while (true) {
      const ssize_t got =
          ::preadv2(own.get(), &to, 1, static_cast<off_t>(page * page_size()), RWF_NOWAIT);
      if (got >= 0) return got == 1;  // 0: after the end of the file
      if (errno == EAGAIN) return false;
      if (errno != EINTR) return std::nullopt;
    }
  });
}

std::string_view page_cache_state(std::optional<double> share) {
  if (!share) return "unknown";
  return *share >= 0.95 ? "warm" : *share <= 0.05 ? "cold" : "partly";
}

}  // namespace shardstream::io
