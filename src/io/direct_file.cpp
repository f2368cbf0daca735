#include "io/direct_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/shard.hpp"

namespace shardstream::io {
namespace {

/// A call moves at most 2^31 - 4096 bytes; less, and whole blocks.
constexpr std::uint64_t most_per_call = std::uint64_t{1} << 30;

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
    const auto piece = std::min(whole - done, most_per_call);
    const ssize_t got = ::pread(file_.get(), to + done, piece, static_cast<off_t>(start + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    done += static_cast<std::uint64_t>(got);
    // Only at the end of the file is less than a block read; asking on from there is an error.
    if (got == 0 || done % block() != 0) break;
  }
  return static_cast<std::int64_t>(std::min(done - std::min(done, before), bytes));
}

}  // namespace shardstream::io
