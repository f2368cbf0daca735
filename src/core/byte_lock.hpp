// Locks of open file descriptions (fcntl) on parts of a file. They also hold between the hosts of
// an NFS server, and end when the last descriptor of the open file is closed. Unlike the locks of a
// process, they do not end when another descriptor of the file is closed.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <optional>

#include "core/descriptor.hpp"

namespace shardstream {

/// The bytes from `start` on; `count` 0 means all of them, also those that are added later.
struct Bytes {
  off_t start = 0, count = 0;
};

/// Sets (`command` F_OFD_SETLK or F_OFD_SETLKW) or removes a lock of `type` F_WRLCK, F_RDLCK or
/// F_UNLCK. Returns 0 or errno: EAGAIN or EACCES if another open file excludes the lock.
int change_lock(const Descriptor& file, Bytes bytes, short type, int command = F_OFD_SETLK);

/// Whether another open file has an exclusive lock on one of the bytes. Nothing if the file system
/// has no locks.
std::optional<bool> is_locked(const Descriptor& file, Bytes bytes);

/// Locks the bytes exclusively. Returns false if the file system has no locks, or if another open
/// file has the lock for 5 s: its process may be stopped, and a study must not wait for it.
bool lock_soon(const Descriptor& file, Bytes bytes);

}  // namespace shardstream
