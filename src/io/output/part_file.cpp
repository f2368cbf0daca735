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
#include <optional>
#include <system_error>

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/units.hpp"
#include "io/hdf5/handles.hpp"

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

/// The contents of a file that this program has written, from its own marks.
struct Mark {
  Contents contents;
  bool complete = true;
  std::string created = {};
};

std::optional<Mark> mark_of_hdf5(const fs::path& path) {
  const hdf5::AtWork at_work(path.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  const auto access = hdf5::posix_access(false);
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file.valid()) return std::nullopt;
  const hdf5::Object root(H5Oopen(file.get(), "/", H5P_DEFAULT));
  if (!root.valid()) return std::nullopt;
  const std::string schema = hdf5::read_text_attribute(root.get(), "schema");
  if (schema == generated_schema) return Mark{Contents::generated};
  if (schema != result_schema) return std::nullopt;
  return Mark{Contents::result, hdf5::read_text_attribute(root.get(), "status") == "complete",
              hdf5::read_text_attribute(root.get(), "created_utc")};
}

std::optional<Mark> mark_of(const fs::path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string start(std::max(trace_start.size(), page_start.size()), '\0');
  file.read_at(0, reinterpret_cast<std::byte*>(start.data()), start.size());
  if (start.starts_with(trace_start)) return Mark{Contents::trace};
  if (start.starts_with(page_start)) return Mark{Contents::page};
  return mark_of_hdf5(path);
}

/// The reason why the regular file `path` may not be replaced, or "". An unfinished result may
/// always be replaced.
std::optional<std::string> objection_to_replacing(const fs::path& path, Overwrite overwrite,
                                                  Contents contents) {
  if (overwrite == Overwrite::anything) return std::nullopt;
  const auto mark = mark_of(path);
  const bool own = mark && mark->contents == contents;
  if (own && (overwrite == Overwrite::own || !mark->complete)) return std::nullopt;
  const char* const kind = contents == Contents::result      ? "a result of a run"
                           : contents == Contents::generated ? "a file of generate"
                           : contents == Contents::page      ? "a page of report"
                                                             : "a trace of a run";
  if (!own) {
    return fmt::format(
        "'{}' already exists and is not {}: choose another output.file or pass --output.overwrite "
        "anything, which replaces the whole file",
        path.string(), kind);
  }
  return fmt::format(
      "'{}' already exists ({}): choose another output.file or pass --output.overwrite true, which "
      "replaces the whole file{}",
      path.string(), mark->created.empty() ? kind : "complete result of " + mark->created,
      contents == Contents::result || contents == Contents::generated ? " with all its data sets"
                                                                      : "");
}

/// The reason why `path` may not be replaced, or "" if it may be or does not exist.
std::optional<std::string> objection(const fs::path& path, Overwrite overwrite, Contents contents) {
  if (!is_taken(path)) return std::nullopt;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return fmt::format("'{}' is a folder: choose another output.file", path.string());
  }
  if (const auto kind = special_kind(path); !kind.empty()) {
    return fmt::format("'{}' is {}, not a regular file: choose another output.file{}",
                       path.string(), kind,
                       contents == Contents::result
                           ? ", or pass --output.store false if you do not need the result matrix"
                           : "");
  }
  return objection_to_replacing(path, overwrite, contents);
}

[[noreturn]] void fail_to_create(const fs::path& path, int error) {
  const std::string folder = folder_of(path).string();
  if (error == ENOENT || error == ENOTDIR) {
    throw UsageError(fmt::format(
        "output.file: there is no folder '{}': create it first or choose another output.file",
        folder));
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    throw UsageError(
        fmt::format("output.file: the folder '{}' is not writable ({}): choose another output.file",
                    folder, errno_text(error)));
  }
  if (error == ENAMETOOLONG) {
    throw UsageError(fmt::format("output.file: the name '{}' is too long: choose a shorter one",
                                 path.filename().string()));
  }
  throw UsageError(
      fmt::format("output.file: '{}' cannot be created ({}): choose another output.file",
                  path.string(), errno_text(error)));
}

/// `error` is EFBIG if the file would exceed the maximum file size, independent of the disk.
[[noreturn]] void fail_to_reserve(const fs::path& path, std::uint64_t bytes, int error,
                                  const std::string& why) {
  if (error == EFBIG) {
    throw UsageError(fmt::format(
        "output.file: '{}' needs {}, which exceeds the maximum file size ({}): raise the "
        "limit or choose another output.file",
        path.string(), format_size(bytes), errno_text(error)));
  }
  throw UsageError(
      fmt::format("output.file: the folder '{}' has no space for {} ({}): free some or choose "
                  "another output.file",
                  folder_of(path).string(), format_size(bytes), why));
}

/// Throws UsageError if `path` is not a valid name of a result or exists and may not be replaced.
void expect_free(const fs::path& path, Overwrite overwrite, Contents contents) {
  const std::string name = path.filename().string();
  if (name.empty() || name == "." || name == "..") {
    throw UsageError(fmt::format("output.file: '{}' has no file name: add one", path.string()));
  }
  if (const auto reason = objection(path, overwrite, contents)) {
    throw UsageError("output.file: " + *reason);
  }
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

void reserve_room(const Descriptor& file, const fs::path& path, std::uint64_t bytes) {
  struct stat status {};
  const bool known = ::fstat(file.get(), &status) == 0;
  const std::uint64_t own = known ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
  const std::uint64_t free = free_bytes(path);
  // fallocate() respects the limit only if it changes the size of the file. With too large a
  // request, some file systems fill up for a moment, which affects other users.
  int error = bytes > max_file_size() ? EFBIG : free > 0 && bytes > own + free ? ENOSPC : EINTR;
  while (error == EINTR) {
    error =
        ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  }
  if (error == 0 || is_unsupported(error)) return;
  fail_to_reserve(path, bytes, error,
                  fmt::format("{} free, {}", format_size(free), errno_text(error)));
}

void sync_folder_of(const fs::path& path) {
  const Descriptor opened(folder_of(path), O_RDONLY | O_DIRECTORY);
  if (opened.valid() && (::fsync(opened.get()) == 0 || is_unsupported(errno))) return;
  throw Error(fmt::format("cannot sync the folder '{}' ({}): check its file system",
                          folder_of(path).string(), errno_text(errno)));
}

Overwrite overwrite_of(const Options& options) {
  const std::string& text = options.text("output.overwrite");
  if (text == "anything") return Overwrite::anything;
  return text == "true" ? Overwrite::own : Overwrite::never;
}

void expect_place(const fs::path& path, Overwrite overwrite, Contents contents,
                  std::uint64_t bytes) {
  expect_free(path, overwrite, contents);
  const fs::path folder = folder_of(path);
  std::error_code error;
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    fail_to_create(path, errno);
  }
  if (!fs::is_directory(folder, error)) fail_to_create(path, ENOTDIR);
  const auto longest = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  constexpr std::size_t uuid = 36;
  // Names of journals are longer by a rank and a suffix.
  const std::size_t name = part_path_of(path, std::string(uuid, '0')).filename().string().size() +
                           std::string_view(".999999.checkpoint").size() -
                           std::string_view(".part").size();
  if (longest > 0 && name > static_cast<std::size_t>(longest)) fail_to_create(path, ENAMETOOLONG);
  bytes = std::max(bytes, min_reserved);
  const std::uint64_t free = free_bytes(path);
  if (free > 0 && bytes > free) {
    fail_to_reserve(path, bytes, ENOSPC, fmt::format("{} free", format_size(free)));
  }
}

PartFile::PartFile(fs::path path, Overwrite overwrite, const std::string& uuid, Contents contents)
    : path_(std::move(path)), uuid_(uuid), overwrite_(overwrite), contents_(contents) {
  expect_free(path_, overwrite, contents);
  part_path_ = part_path_of(path_, uuid);
  remove_stale_parts(path_);
  create();
}

PartFile::~PartFile() {
  if (!published_ && !kept_) ::unlink(part_path_.c_str());
}

void PartFile::create() {
  do {
    file_ = Descriptor(part_path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, private_mode);
    if (!file_.valid()) fail_to_create(path_, errno);
  } while (!lock_and_keep());
}

/// Returns false if another process has removed the new file as stale before it was locked.
bool PartFile::lock_and_keep() {
  if (!lock_as_writer(file_)) return true;  // no locks here: nobody can find it stale
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 && status.st_nlink > 0;
}

void PartFile::reserve(std::uint64_t bytes) {
  reserve_room(file_, path_, std::max(bytes, min_reserved));
}

void PartFile::abandon() {
  // If even that fails, there is nothing left to try.
  [[maybe_unused]] const int result = ::ftruncate(file_.get(), 0);
}

bool PartFile::is_overtaken() const {
  return objection(path_, overwrite_, contents_).has_value();
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
  sync_folder_of(path_);  // a new name must survive a crash as well as the contents do
}

void PartFile::link_into_place() {
  const auto fail = [this](const std::string& reason) {
    throw Error(fmt::format("cannot give '{}' its final name: {}", part_path_.string(), reason));
  };
  if (const auto reason = objection(path_, overwrite_, contents_)) fail(*reason);
  if (is_taken(path_)) {  // and may be replaced
    // The next run recognises this name and removes the file if this run is killed before it does.
    const fs::path second = part_path_of(path_, uuid_ + "-published");
    const bool linked = kept_ && ::link(part_path_.c_str(), second.c_str()) == 0;
    if (::rename((linked ? second : part_path_).c_str(), path_.c_str()) != 0) {
      const int error = errno;
      if (linked) ::unlink(second.c_str());
      fail(errno_text(error));
    }
    return;
  }
  if (::link(part_path_.c_str(), path_.c_str()) == 0) {
    if (!kept_) ::unlink(part_path_.c_str());
    return;
  }
  // Without hard links, use a rename that does not replace, or at least check before the rename.
  if (is_unsupported(errno) &&
      ::renameat2(AT_FDCWD, part_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) {
    return;
  }
  if (is_unsupported(errno) && !is_taken(path_) &&
      ::rename(part_path_.c_str(), path_.c_str()) == 0) {
    return;
  }
  fail(errno == EEXIST
           ? fmt::format("'{}' was created meanwhile: choose another output.file", path_.string())
           : errno_text(errno));
}

}  // namespace shardstream::io
