#include "core/byte_lock.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

namespace shardstream {
namespace {

/// fcntl() with the lock, which F_OFD_GETLK changes. Returns 0 or errno.
int call(const Descriptor& file, int command, struct flock& lock) {
  while (::fcntl(file.get(), command, &lock) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

struct flock lock_on(Bytes bytes, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = bytes.start;
  lock.l_len = bytes.count;
  return lock;
}

}  // namespace

int change_lock(const Descriptor& file, Bytes bytes, short type, int command) {
  struct flock lock = lock_on(bytes, type);
  return call(file, command, lock);
}

std::optional<bool> is_locked(const Descriptor& file, Bytes bytes) {
  struct flock lock = lock_on(bytes, F_RDLCK);
  if (call(file, F_OFD_GETLK, lock) != 0) return std::nullopt;
  return lock.l_type != F_UNLCK;
}

bool lock_soon(const Descriptor& file, Bytes bytes) {
  constexpr int attempts = 250;
  for (int i = 0; i < attempts; ++i) {
    const int error = change_lock(file, bytes, F_WRLCK);
    if (error != EAGAIN && error != EACCES) return error == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace shardstream
