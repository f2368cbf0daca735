// An owner of a file descriptor. Its reads and writes continue after short and interrupted calls.
// Also texts for errors of the system and for kinds of files.
#pragma once

#include <sys/types.h>

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
  /// open(2) with O_CLOEXEC. On failure, valid() is false and errno is set.
  Descriptor(const std::filesystem::path& path, int flags, unsigned mode = 0);
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  /// False if the system reports an error of an earlier write only now; errno is set.
  bool close();

  /// Reads up to `bytes` bytes at `offset` into `out`. Returns the number of bytes read, which is
  /// smaller only at the end of the file, or -1 with errno. Thread-safe.
  std::int64_t read_at(std::uint64_t offset, std::byte* out, std::uint64_t bytes) const;

  /// Writes all of `data` at `offset`. Returns false with errno on failure. Thread-safe.
  bool write_at(std::uint64_t offset, std::span<const std::byte> data) const;

 private:
  int fd_ = -1;
};

/// Closes all descriptors of this process but the standard streams and `kept`. For new processes:
/// an inherited descriptor of a lock file would keep its lock. Not thread-safe.
void close_inherited_descriptors(int kept = -1);

/// The system's text for an errno value: "No such file or directory". If a limit of this process is
/// the likely cause, the text names it: "File too large; ulimit -f is 8000 KiB".
std::string errno_text(int error);

/// "a FIFO", "a socket", "a character device" or "a block device" if `path` leads to one; empty for
/// anything else and if there is no file.
std::string_view special_kind(const std::filesystem::path& path);
/// The same for the mode of a file that is known from stat().
std::string_view special_kind(mode_t mode);

}  // namespace shardstream
