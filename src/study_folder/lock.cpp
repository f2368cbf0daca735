#include "study_folder/lock.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "core/byte_lock.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "study_folder/names.hpp"
#include "study_folder/process_record.hpp"

namespace shardstream::study_folder {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view lock_mark =
    "# shardstream scale locks this file while it makes launches.\n";
constexpr std::uint64_t max_lock_bytes = std::uint64_t{4} << 20;

// The locked bytes are far after the contents: one for the study, one for a process that writes the
// contents, and one for each launch.
constexpr Bytes of_study{off_t{1} << 41, 1}, of_writer{of_study.start + 1, 1};

Bytes of_launch(std::uint64_t launch) {
  return launch == 0 ? of_study : Bytes{of_writer.start + 1 + static_cast<off_t>(launch), 1};
}

/// Whether `path` no longer names the open file.
bool is_replaced(const Descriptor& file, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file.get(), &opened) != 0 || ::lstat(path.c_str(), &named) != 0 ||
         opened.st_ino != named.st_ino || opened.st_dev != named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, std::uint64_t launch, Log& log)
    : folder_(folder), path_(folder / lock_name) {
  do {
    while (!open_file()) {
    }
    int error = change_lock(file_, of_study, launch == 0 ? F_WRLCK : F_RDLCK);
    if (error == 0 && launch > 0) error = change_lock(file_, of_launch(launch), F_WRLCK);
    if (error == EAGAIN || error == EACCES) fail_as_held();
    if (error != 0) {
      log.warn(fmt::format(
          "'{}' cannot be locked ({}): make sure that no other scale works in this folder",
          folder_.string(), errno_text(error)));
      return;
    }
  } while (is_replaced(file_, path_));
  sign(launch);
}

/// Returns false if another process creates the file at this moment.
bool FolderLock::open_file() {
  constexpr unsigned mode = 0666;
  const auto fail = [this](const std::string& why) {
    throw UsageError(fmt::format(
        "output.file: cannot use '{}' to lock the folder ({}): change its permissions, move it "
        "away, or name another folder with -o",
        path_.string(), why));
  };
  const auto open = [this](int flags) {
    file_ = Descriptor(path_, O_RDWR | O_NOFOLLOW | O_NONBLOCK | flags, mode);
    return file_.valid();
  };
  if (!open(0) && errno == ENOENT && !open(O_CREAT | O_EXCL) && errno == EEXIST) return false;
  if (!file_.valid()) fail(errno_text(errno));
  if (const std::string why = why_not_small(file_, max_lock_bytes); !why.empty()) fail(why);
  std::string start(lock_mark.size(), '\0');
  const auto got = file_.read_at(0, reinterpret_cast<std::byte*>(start.data()), start.size());
  start.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, got)));
  if (!lock_mark.starts_with(start)) fail("it is not a lock file of scale");
  return true;
}

/// Writes the holder of the lock for messages of other processes. If this fails, they do not name
/// it.
void FolderLock::sign(std::uint64_t launch) {
  const std::string line = fmt::format("{} {} {} {:%Y-%m-%dT%H:%M:%SZ}\n", launch, host_name(),
                                       getpid(), fmt::gmtime(std::time(nullptr)));
  change_lock(file_, of_writer, F_WRLCK, F_OFD_SETLKW);
  struct stat status {};
  const bool starts = launch == 0 || ::fstat(file_.get(), &status) != 0 || status.st_size == 0;
  if (!starts || ::ftruncate(file_.get(), 0) == 0) {
    const std::string text = starts ? std::string(lock_mark) + line : line;
    const auto end = starts ? 0 : static_cast<std::uint64_t>(status.st_size);
    file_.write_at(end, std::as_bytes(std::span(text)));
  }
  change_lock(file_, of_writer, F_UNLCK);
}

/// "process PID on HOST, since TIME": the last process that has signed and still holds a lock.
std::string FolderLock::holder() const {
  std::istringstream lines(read_small_file(path_, max_lock_bytes).value_or(std::string()));
  std::string found = "another process";
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::uint64_t launch = 0;
    std::string host, pid, since;
    if (!(words >> launch >> host >> pid >> since)) continue;
    if (is_locked(file_, of_launch(launch)).value_or(false)) {
      found = fmt::format("process {} on {}, since {}", pid, host, since);
    }
  }
  return found;
}

void FolderLock::fail_as_held() const {
  throw UsageError(
      fmt::format("output.file: another scale works in '{}' ({}): wait until it ends, or name "
                  "another folder with -o",
                  folder_.string(), holder()));
}

}  // namespace shardstream::study_folder
