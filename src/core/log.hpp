// The only way to print (the test `output_calls` checks this): lines on standard error, with the
// rank as prefix, the progress of a long step, and standard output, which is for results only. All
// of them escape what could act on a terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream {

/// Thread-safe. A line is written in one piece, with unprintable bytes escaped. `prefix` is empty
/// for a process without ranks. `out` must outlive the log.
class Log {
 public:
  explicit Log(std::string prefix = {}, std::FILE* out = stderr)
      : prefix_(std::move(prefix)), out_(out) {}

  /// From now on, the log only writes warnings and errors. Call it before threads use the log.
  void omit_information() { is_quiet_ = true; }
  /// Whether the progress of long steps is to be shown.
  bool shows_progress() const { return !is_quiet_; }

  void info(std::string_view line) {
    if (!is_quiet_) write("", line);
  }
  /// The details follow the warning, one line each. Each warning is written once.
  void warn(std::string_view line, const std::vector<std::string>& details = {});
  void error(std::string_view line) { write("error: ", line); }

  /// The lines of warn() so far, in order, without details.
  std::vector<std::string> warnings() const;

 private:
  void write(std::string_view kind, std::string_view line);

  mutable std::mutex mutex_;
  std::string prefix_;
  std::vector<std::string> warnings_;
  std::FILE* out_;
  bool is_quiet_ = false;
};

/// The progress of a long step. On a terminal, a bar appears after 2 s. It is cleared when all is
/// done, and by the destructor. Elsewhere, a line appears after 5 s, and each interval to the next
/// line is twice the one before, up to 10 minutes. So steps that are repeated share one object.
/// Nothing is written unless `enabled`. Thread-safe.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `total` in any unit; 0 if it is unknown.
  Progress(std::string what, double total, bool enabled, std::FILE* out = stderr,
           Clock::time_point start = Clock::now());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `part` more of the total is done.
  void add(double part, Clock::time_point now = Clock::now());
  /// The total has become larger, unless it is unknown.
  void extend(double part);

 private:
  void clear();
  std::string words(double share, double seconds) const;

  std::mutex mutex_;  // guards everything below
  std::string what_;
  double total_, done_ = 0;
  bool enabled_, terminal_, shown_ = false;
  std::FILE* out_;
  Clock::time_point start_, next_;
  Clock::duration interval_;  ///< between the next two lines
};

/// Writes `lines` to standard output and flushes it. Unprintable bytes are escaped, except for line
/// breaks. So a caller passes texts of users and files through printable() first, since their line
/// breaks would start new lines. Throws Error if writing fails; `consolation` ends its message: ";
/// the result is complete in FILE". Not thread-safe.
void print_output(std::string_view lines, std::string_view consolation = {});

/// Writes `question` to standard error, without a line break, and reads a line of standard input.
/// None at the end of the input. Unprintable bytes of the question are escaped, except for line
/// breaks. Not thread-safe.
std::optional<std::string> ask(std::string_view question);

/// Prints a constant text as a warning. For destructors and other code that must not throw.
void warn_plainly(const char* text) noexcept;

/// Opens /dev/null in place of each standard stream that was closed when this process started.
/// Otherwise, the next file would get the stream's number, and printed text would go into the file.
/// Call it before any file is opened.
void keep_standard_streams();

}  // namespace shardstream
