// A file descriptor that closes itself, and whole reads and writes on it: short and interrupted
// calls are continued. And what the system says of files and of errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace shardstream {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  /// open(2) with O_CLOEXEC; not valid() on failure, errno says why.
  Descriptor(const std::filesystem::path& path, int flags, unsigned mode = 0);
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  /// False when the system reports an error of an earlier write only now; errno says which.
  bool close();

  /// Reads up to `bytes` at `offset` and returns how many there were before the end of the file, or
  /// -1 with errno. Safe from several threads.
  std::int64_t read_at(std::uint64_t offset, std::byte* out, std::uint64_t bytes) const;

  /// Writes everything at `offset`; false with errno when it cannot. Safe from several threads.
  bool write_at(std::uint64_t offset, std::span<const std::byte> data) const;

 private:
  int fd_ = -1;
};

/// What the system says about an errno value: "No such file or directory". A limit of this process
/// that is the likely cause is named: "File too large; ulimit -f is 8000 KiB".
std::string errno_text(int error);

/// "a FIFO", "a socket", "a character device" or "a block device", if `path` leads to one; empty
/// for anything else, also if nothing is there.
std::string_view special_kind(const std::filesystem::path& path);

}  // namespace shardstream
