#include "scale/attempts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.hpp"
#include "report/attempts.hpp"

namespace shardstream::scale {

Attempts::Attempts(const std::filesystem::path& folder)
    : path_(folder / "attempts.jsonl"), file_(path_, O_WRONLY | O_CREAT | O_APPEND, 0644) {
  if (file_.valid()) return;
  throw UsageError(
      fmt::format("output.file: cannot write '{}': {}", path_.string(), errno_text(errno)));
}

void Attempts::add(const Attempt& attempt) {
  const std::string line = report::to_line({.point = attempt.point,
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
  // Several jobs may write at a time. On NFS, O_APPEND alone does not separate their lines, so the
  // file is locked. On file systems without locks, O_APPEND must suffice.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  const bool is_locked = fcntl(file_.get(), F_OFD_SETLKW, &lock) == 0;
  const ssize_t written = write(file_.get(), line.data(), line.size());
  const int error = errno;
  lock.l_type = F_UNLCK;
  if (is_locked) fcntl(file_.get(), F_OFD_SETLK, &lock);
  if (written == static_cast<ssize_t>(line.size())) return;
  throw Error(fmt::format("cannot write '{}': {}", path_.string(), errno_text(error)));
}

}  // namespace shardstream::scale
