#include "core/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream {
namespace {

using namespace std::chrono_literals;
constexpr Progress::Clock::duration bar_delay = 2s, bar_interval = 200ms;
constexpr Progress::Clock::duration first_line = 5s, max_interval = 10min;

}  // namespace

void Log::warn(std::string_view line, const std::vector<std::string>& details) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(warnings_, line) != warnings_.end()) return;
    warnings_.emplace_back(line);
  }
  write("warning: ", line);
  for (const std::string& detail : details) write("  ", detail);
}

std::vector<std::string> Log::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

void Log::write(std::string_view kind, std::string_view line) {
  // One fwrite per line, so that launchers that merge the output of ranks keep lines whole.
  const std::string whole =
      fmt::format("{}{}{}{}\n", prefix_, prefix_.empty() ? "" : ": ", kind, printable(line));
  const std::lock_guard lock(mutex_);
  std::fwrite(whole.data(), 1, whole.size(), out_);
  std::fflush(out_);
}

Progress::Progress(std::string what, double total, bool enabled, std::FILE* out,
                   Clock::time_point start)
    : what_(printable(what)),
      total_(total),
      enabled_(enabled),
      terminal_(isatty(fileno(out)) == 1),
      out_(out),
      start_(start),
      next_(start + (terminal_ ? bar_delay : first_line)),
      interval_(terminal_ ? bar_interval : 2 * first_line) {}

Progress::~Progress() {
  clear();
}

void Progress::extend(double part) {
  const std::lock_guard lock(mutex_);
  if (total_ > 0) total_ += part;
}

/// Removes the bar.
void Progress::clear() {
  if (shown_ && terminal_) std::fputs("\r\033[K", out_);
  shown_ = false;
}

void Progress::add(double part, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  done_ += part;
  if (terminal_ && total_ > 0 && done_ >= total_) return clear();
  if (!enabled_ || now < next_) return;
  next_ = now + interval_;
  if (!terminal_) interval_ = std::min(2 * interval_, max_interval);
  shown_ = true;
  const double share = total_ > 0 ? std::clamp(done_ / total_, 0.0, 1.0) : 0;
  std::string line = words(share, std::chrono::duration<double>(now - start_).count());
  if (terminal_ && total_ <= 0) {
    line = fmt::format("\r{}\033[K", line);
  } else if (terminal_) {
    constexpr int width = 30;
    const int full = static_cast<int>(share * width);
    line = fmt::format("\r[{:#<{}}{:.<{}}] {}\033[K", "", full, "", width - full, line);
  } else {
    line += '\n';
  }
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fflush(out_);
}

/// The share that is done after some seconds, and the time that is left.
std::string Progress::words(double share, double seconds) const {
  if (total_ <= 0) return fmt::format("{}: {} so far", what_, format_duration(seconds));
  const std::string left = share > 0 ? format_duration(seconds / share - seconds) + " left"
                                     : std::string("just started");
  return fmt::format("{}: {:.0f} % after {}, {}", what_, 100 * share, format_duration(seconds),
                     left);
}

void print_output(std::string_view lines, std::string_view consolation) {
  const std::string text = printable_lines(lines);
  const bool taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (taken && std::fflush(stdout) == 0) return;
  throw Error(
      fmt::format("standard output cannot be written ({}){}", errno_text(errno), consolation));
}

std::optional<std::string> ask(std::string_view question) {
  std::fputs(printable_lines(question).c_str(), stderr);
  std::string line;
  if (std::getline(std::cin, line)) return line;
  std::fputc('\n', stderr);  // an error starts a line of its own
  return std::nullopt;
}

void warn_plainly(const char* text) noexcept {
  std::fprintf(stderr, "warning: %s\n", text);
}

void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // open() takes the lowest free number, which is this stream's. The opposite access mode makes
    // every use of the stream fail.
    const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != stream) throw Error("cannot open /dev/null in place of a closed stream");
  }
}

}  // namespace shardstream
