#include "scale/attempts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/files.hpp"
#include "report/attempts.hpp"

namespace shardstream::scale {
namespace {

/// Locks the whole file. Returns false if the file system has no locks, or if another process holds
/// the lock for 5 s: that process may be stopped, and a study must not wait for it.
bool lock_soon(const Descriptor& file) {
  constexpr int attempts = 250;
  for (int i = 0; i < attempts; ++i) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    if (fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return true;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace

Attempts::Attempts(const std::filesystem::path& folder)
    : path_(folder / "attempts.jsonl"),
      file_(path_, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0644) {
  const auto fail = [this](const std::string& why) {
    throw UsageError(fmt::format(
        "output.file: cannot append to '{}' ({}): move it away, or name another folder with -o",
        path_.string(), why));
  };
  if (!file_.valid()) fail(errno_text(errno));
  if (const auto why = why_not_small(file_, report::max_attempts_bytes); !why.empty()) fail(why);
  const std::string text = read_small_file(path_, report::max_attempts_bytes).value_or("");
  if (!text.empty() && !text.starts_with(report::attempt_start))
    fail("it is not a list of launches");
  is_torn_ = !text.empty() && !text.ends_with('\n');
}

void Attempts::add(const LaunchAttempt& attempt) {
  std::string line = report::to_line({.point = attempt.point,
                                      .ranks = attempt.ranks,
                                      .replicate = attempt.replicate,
                                      .number = attempt.number,
                                      .utc_start = attempt.ended.utc_start,
                                      .utc_end = attempt.ended.utc_end,
                                      .exit_code = attempt.ended.code,
                                      .timed_out = attempt.ended.timed_out,
                                      .interrupted = attempt.ended.interrupted,
                                      .result = attempt.result.filename().string(),
                                      .log = attempt.log.filename().string(),
                                      .problem = attempt.problem});
  if (std::exchange(is_torn_, false)) line = "\n" + line;
  // Several jobs may write at a time. On NFS, O_APPEND alone does not separate their lines, so the
  // file is locked. On file systems without locks, O_APPEND must suffice.
  const bool is_locked = lock_soon(file_);
  const ssize_t written = write(file_.get(), line.data(), line.size());
  const int error = errno;
  struct flock lock = {};
  lock.l_type = F_UNLCK;
  if (is_locked) fcntl(file_.get(), F_OFD_SETLK, &lock);
  if (written == static_cast<ssize_t>(line.size())) return;
  throw Error(fmt::format("cannot write '{}': {}", path_.string(), errno_text(error)));
}

}  // namespace shardstream::scale
