#include "study_folder/attempts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/byte_lock.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "study_folder/names.hpp"

namespace shardstream::study_folder {
namespace {

constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;
constexpr std::string_view line_start = "{\"point\":";

/// The line of the file, with a line break.
std::string to_line(const LaunchAttempt& attempt) {
  const nlohmann::ordered_json line = {{"point", attempt.point},
                                       {"ranks", attempt.ranks},
                                       {"replicate", attempt.replicate},
                                       {"attempt", attempt.number},
                                       {"utc_start", attempt.utc_start},
                                       {"utc_end", attempt.utc_end},
                                       {"exit_code", attempt.exit_code},
                                       {"timed_out", attempt.timed_out},
                                       {"interrupted", attempt.interrupted},
                                       {"result", attempt.result},
                                       {"log", attempt.log},
                                       {"job", attempt.job},
                                       {"problem", attempt.problem}};
  return line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace

std::vector<LaunchAttempt> read_attempts(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / attempts_name;
  std::vector<LaunchAttempt> attempts;
  std::istringstream file(read_small_file(path, max_bytes).value_or(std::string()));
  std::size_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    try {
      const auto line = nlohmann::json::parse(text);
      attempts.push_back({.point = line.at("point"),
                          .ranks = line.at("ranks"),
                          .replicate = line.at("replicate"),
                          .number = line.at("attempt"),
                          .utc_start = line.at("utc_start"),
                          .utc_end = line.at("utc_end"),
                          .exit_code = line.at("exit_code"),
                          .timed_out = line.at("timed_out"),
                          .interrupted = line.at("interrupted"),
                          .result = line.at("result"),
                          .log = line.at("log"),
                          .job = line.value("job", ""),  // older files lack it
                          .problem = line.at("problem")});
    } catch (const nlohmann::json::exception& error) {
      throw UsageError(fmt::format("'{}', line {} is not a launch of a study ({}): remove the line",
                                   path.string(), number, error.what()));
    }
  }
  return attempts;
}

AttemptTable::AttemptTable(const std::filesystem::path& folder)
    : path_(folder / attempts_name),
      file_(path_, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0666) {
  const auto fail = [this](const std::string& why) {
    throw UsageError(fmt::format(
        "output.file: cannot append to '{}' ({}): move it away, or name another folder with -o",
        path_.string(), why));
  };
  if (!file_.valid()) fail(errno_text(errno));
  if (const auto why = why_not_small(file_, max_bytes); !why.empty()) fail(why);
  const std::string text = read_small_file(path_, max_bytes).value_or("");
  if (!text.empty() && !text.starts_with(line_start)) fail("it is not a list of launches");
  is_torn_ = !text.empty() && !text.ends_with('\n');
}

void AttemptTable::add(const LaunchAttempt& attempt) {
  std::string line = to_line(attempt);
  if (std::exchange(is_torn_, false)) line = "\n" + line;
  // Several jobs may write at a time. On NFS, O_APPEND alone does not separate their lines, so the
  // file is locked. On file systems without locks, O_APPEND must suffice.
  const bool is_locked = lock_soon(file_, {});
  const ssize_t written = write(file_.get(), line.data(), line.size());
  const int error = errno;
  if (is_locked) change_lock(file_, {}, F_UNLCK);
  if (written == static_cast<ssize_t>(line.size())) return;
  throw Error(fmt::format("cannot write '{}': {}", path_.string(), errno_text(error)));
}

}  // namespace shardstream::study_folder
