#include "io/output/part_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/units.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;

/// An upper bound of the size of an HDF5 file's own structure.
constexpr std::uint64_t min_reserved = std::uint64_t{64} << 10;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool is_taken(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

[[noreturn]] void fail_to_create(const Destination& destination, int error) {
  const std::string folder = folder_of(destination.path).string();
  const std::string& option = destination.option;
  if (error == ENOENT || error == ENOTDIR) {
    throw UsageError(
        fmt::format("{}: there is no folder '{}': create it first or choose another {}", option,
                    folder, option));
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    throw UsageError(fmt::format("{}: the folder '{}' is not writable ({}): choose another {}",
                                 option, folder, errno_text(error), option));
  }
  if (error == ENAMETOOLONG) {
    throw UsageError(fmt::format("{}: the name '{}' is too long: choose a shorter one", option,
                                 destination.path.filename().string()));
  }
  throw UsageError(fmt::format("{}: '{}' cannot be created ({}): choose another {}", option,
                               destination.path.string(), errno_text(error), option));
}

/// `error` is EFBIG if the file would exceed the maximum file size, independent of the disk.
[[noreturn]] void fail_to_reserve(const Destination& destination, std::uint64_t bytes, int error,
                                  const std::string& why) {
  const std::string& option = destination.option;
  if (error == EFBIG) {
    throw UsageError(fmt::format(
        "{}: '{}' needs {}, which exceeds the maximum file size ({}): raise the limit or choose "
        "another {}",
        option, destination.path.string(), format_size(bytes), errno_text(error), option));
  }
  throw UsageError(
      fmt::format("{}: the folder '{}' has no space for {} ({}): free some or choose another {}",
                  option, folder_of(destination.path).string(), format_size(bytes), why, option));
}

/// The free space for this user on the file system of the folder of `path`; 0 if it is unknown.
std::uint64_t free_bytes(const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(folder_of(path).c_str(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

/// The umask of this process. Reading it with umask(2) would change it for a moment in all threads.
unsigned file_mode_mask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Umask:")) return static_cast<unsigned>(std::stoul(line.substr(6), {}, 8));
  }
  constexpr unsigned usual = 022;
  return usual;
}

bool is_unsupported(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == ENOTSUP || error == EMLINK ||
         error == ENOSYS || error == EINVAL;
}

}  // namespace

void reserve_room(const Descriptor& file, const Destination& destination, std::uint64_t bytes) {
  struct stat status {};
  const bool known = ::fstat(file.get(), &status) == 0;
  const std::uint64_t own = known ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
  const std::uint64_t free = free_bytes(destination.path);
  // fallocate() respects the limit only if it changes the size of the file. With too large a
  // request, some file systems fill up for a moment, which affects other users.
  int error = bytes > max_file_size() ? EFBIG : free > 0 && bytes > own + free ? ENOSPC : EINTR;
  while (error == EINTR) {
    error =
        ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  }
  if (error == 0 || is_unsupported(error)) return;
  fail_to_reserve(destination, bytes, error,
                  fmt::format("{} free, {}", format_size(free), errno_text(error)));
}

void sync_folder_of(const fs::path& path) {
  const Descriptor opened(folder_of(path), O_RDONLY | O_DIRECTORY);
  if (opened.valid() && (::fsync(opened.get()) == 0 || is_unsupported(errno))) return;
  throw Error(fmt::format("cannot sync the folder '{}' ({}): check its file system",
                          folder_of(path).string(), errno_text(errno)));
}

void expect_destination(const Destination& destination, std::uint64_t bytes) {
  expect_free(destination);
  const fs::path folder = folder_of(destination.path);
  std::error_code error;
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    fail_to_create(destination, errno);
  }
  if (!fs::is_directory(folder, error)) fail_to_create(destination, ENOTDIR);
  const auto longest = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  constexpr std::size_t uuid = 36;
  // Names of journals are longer by a rank and a suffix.
  const std::size_t name =
      part_path_of(destination.path, std::string(uuid, '0')).filename().string().size() +
      std::string_view(".999999.checkpoint").size() - std::string_view(".part").size();
  if (longest > 0 && name > static_cast<std::size_t>(longest))
    fail_to_create(destination, ENAMETOOLONG);
  bytes = std::max(bytes, min_reserved);
  const std::uint64_t free = free_bytes(destination.path);
  if (free > 0 && bytes > free) {
    fail_to_reserve(destination, bytes, ENOSPC, fmt::format("{} free", format_size(free)));
  }
}

PartFile::PartFile(Destination destination, const std::string& uuid)
    : destination_(std::move(destination)), uuid_(uuid) {
  expect_free(destination_);
  part_path_ = part_path_of(path(), uuid);
  remove_stale_parts(path());
  create();
}

PartFile::~PartFile() {
  if (!published_ && !kept_) ::unlink(part_path_.c_str());
}

void PartFile::create() {
  do {
    file_ = Descriptor(part_path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, private_mode);
    if (!file_.valid()) fail_to_create(destination_, errno);
  } while (!lock_and_keep());
}

/// Returns false if another process has removed the new file as stale before it was locked.
bool PartFile::lock_and_keep() {
  if (!lock_as_writer(file_)) return true;  // without locks, no process treats it as stale
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 && status.st_nlink > 0;
}

void PartFile::reserve(std::uint64_t bytes) {
  reserve_room(file_, destination_, std::max(bytes, min_reserved));
}

void PartFile::abandon() {
  // If even that fails, there is nothing left to try.
  [[maybe_unused]] const int result = ::ftruncate(file_.get(), 0);
}

bool PartFile::is_overtaken() const {
  return objection(destination_).has_value();
}

void PartFile::publish() {
  struct stat status {};
  // Truncating the file at its end frees the space reserved after it.
  const auto is_permitted = [&] {  // also if the file system has no permissions
    return ::fchmod(file_.get(), 0666 & ~file_mode_mask()) == 0 || is_unsupported(errno);
  };
  if (::fstat(file_.get(), &status) != 0 || ::ftruncate(file_.get(), status.st_size) != 0 ||
      !is_permitted() || ::fsync(file_.get()) != 0) {
    throw Error(fmt::format("cannot write '{}' to disk ({}): check its file system",
                            part_path_.string(), errno_text(errno)));
  }
  link_into_place();
  published_ = true;
  sync_folder_of(path());  // a new name must survive a crash as well as the contents do
}

void PartFile::link_into_place() {
  const auto fail = [this](const std::string& reason) {
    throw Error(fmt::format("cannot give '{}' its final name: {}", part_path_.string(), reason));
  };
  if (const auto reason = objection(destination_)) fail(*reason);
  if (is_taken(path())) {  // and may be replaced
    // The next run recognises this name and removes the file if this run is killed before it does.
    const fs::path second = part_path_of(path(), uuid_ + "-published");
    const bool linked = kept_ && ::link(part_path_.c_str(), second.c_str()) == 0;
    if (::rename((linked ? second : part_path_).c_str(), path().c_str()) != 0) {
      const int error = errno;
      if (linked) ::unlink(second.c_str());
      fail(errno_text(error));
    }
    return;
  }
  if (::link(part_path_.c_str(), path().c_str()) == 0) {
    if (!kept_) ::unlink(part_path_.c_str());
    return;
  }
  // Without hard links, use a rename that does not replace, or at least check before the rename.
  if (is_unsupported(errno) &&
      ::renameat2(AT_FDCWD, part_path_.c_str(), AT_FDCWD, path().c_str(), RENAME_NOREPLACE) == 0) {
    return;
  }
  if (is_unsupported(errno) && !is_taken(path()) &&
      ::rename(part_path_.c_str(), path().c_str()) == 0) {
    return;
  }
  fail(errno == EEXIST ? fmt::format("'{}' was created meanwhile: choose another {}",
                                     path().string(), destination_.option)
                       : errno_text(errno));
}

}  // namespace shardstream::io
