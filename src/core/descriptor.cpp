#include "core/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "core/limits.hpp"

namespace shardstream {
namespace {

/// Linux transfers at most 2^31 - 4096 bytes per call. A smaller limit keeps the pieces aligned.
constexpr std::uint64_t max_bytes_per_call = std::uint64_t{1} << 30;

}  // namespace

Descriptor::Descriptor(const std::filesystem::path& path, int flags, unsigned mode) {
  do {
    fd_ = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd_ < 0 && errno == EINTR);
}

bool Descriptor::close() {
  // Linux closes the descriptor even if close() returns EINTR, so it must not be closed again.
  return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR;
}

std::int64_t Descriptor::read_at(std::uint64_t offset, std::byte* out, std::uint64_t bytes) const {
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto piece = std::min(bytes - done, max_bytes_per_call);
    const ssize_t got = ::pread(fd_, out + done, piece, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

bool Descriptor::write_at(std::uint64_t offset, std::span<const std::byte> data) const {
  std::uint64_t done = 0;
  while (done < data.size()) {
    const auto piece = std::min(data.size() - done, max_bytes_per_call);
    const ssize_t put = ::pwrite(fd_, data.data() + done, piece, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    done += static_cast<std::uint64_t>(put);
  }
  return true;
}

void close_inherited_descriptors(int kept) {
  std::vector<int> open_ones;  // the loop itself needs a descriptor
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string name = entry.path().filename();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    open_ones.push_back(number);
  }
  for (const int number : open_ones) {
    if (number > STDERR_FILENO && number != kept) ::close(number);
  }
}

std::string errno_text(int error) {
  const std::string text = std::system_category().message(error);
  if (error == EFBIG) return with_limit(text, file_size_limit());
  if (error == ENOMEM) return with_limit(text, address_space_limit());
  return text;
}

std::string_view special_kind(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? special_kind(status.st_mode) : std::string_view();
}

std::string_view special_kind(mode_t mode) {
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : std::string_view();
}

}  // namespace shardstream
