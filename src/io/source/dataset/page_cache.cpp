#include "io/source/dataset/page_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/descriptor.hpp"
#include "core/error.hpp"

namespace shardstream::io {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw Error(fmt::format("cannot read '{}' ({}): restore the input file", path.string(), reason));
}

/// Opens an input file. Another file may have taken its place since it was checked, and opening or
/// reading a FIFO could block for ever.
Descriptor open_regular(const std::filesystem::path& path) {
  Descriptor file(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0) fail(path, errno_text(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "it is no longer a regular file");
  return file;
}

/// Drops the pages of the file. Dirty pages must be written first; this is done in pieces, since a
/// process cannot end while it waits for the disk.
void drop(const Descriptor& file, const std::filesystem::path& path) {
  constexpr off64_t piece = off64_t{64} << 20;
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail(path, errno_text(errno));
  for (off64_t at = 0; at < status.st_size; at += piece) {
    // This call may be unsupported. Dirty pages then stay, and a measurement reports a warm file.
    sync_file_range(
        file.get(), at, piece,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(file.get(), at, piece, POSIX_FADV_DONTNEED);
  }
  fdatasync(file.get());  // a client of a file server keeps dirty pages until this call
  const int error = posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (error != 0) fail(path, errno_text(error));
}

void read_all(const Descriptor& file, const std::filesystem::path& path,
              std::span<std::byte> buffer) {
  std::int64_t got = 1;
  for (std::uint64_t at = 0; got > 0; at += static_cast<std::uint64_t>(got)) {
    got = file.read_at(at, buffer.data(), buffer.size());
    if (got < 0) fail(path, errno_text(errno));
  }
}

}  // namespace

void prepare_cache(const std::vector<std::filesystem::path>& files, bool cold) {
  constexpr std::size_t piece = std::size_t{8} << 20;
  std::vector<std::byte> buffer(cold ? 0 : piece);
  for (const auto& path : files) {
    const Descriptor file = open_regular(path);
    if (cold) {
      drop(file, path);
    } else {
      read_all(file, path, buffer);
    }
  }
}

}  // namespace shardstream::io
