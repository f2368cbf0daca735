// Standard error: lines, each with the rank as prefix, and how far a long step has come. Standard
// output is for results alone: what could not be written there is an error.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream {

/// Thread-safe; a line is written whole, and what is not printable in it escaped. `prefix` is empty
/// for a process without ranks.
class Log {
 public:
  explicit Log(std::string prefix = {}, std::FILE* out = stderr)
      : prefix_(std::move(prefix)), out_(out) {}

  void info(std::string_view line) { write("", line); }
  void warn(std::string_view line);
  void error(std::string_view line) { write("error: ", line); }

  /// What warn() was given so far, in order.
  std::vector<std::string> warnings() const;

 private:
  void write(std::string_view kind, std::string_view line);

  mutable std::mutex mutex_;
  std::string prefix_;
  std::vector<std::string> warnings_;
  std::FILE* out_;
};

/// How far a long step has come: a bar on a terminal, elsewhere lines at growing intervals. The bar
/// shows after 2 s. Without a terminal there is a line after 5 s; each interval to the next
/// line is twice the one before, up to 10 minutes. Silent if it is not `enabled`. Thread-safe. The
/// destructor clears the bar.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `total` in any unit.
  Progress(std::string what, double total, bool enabled, std::FILE* out = stderr,
           Clock::time_point start = Clock::now());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `part` more of the total is done.
  void add(double part, Clock::time_point now = Clock::now());

 private:
  std::mutex mutex_;  // guards everything below
  std::string what_;
  double total_, done_ = 0;
  bool enabled_, terminal_, shown_ = false;
  std::FILE* out_;
  Clock::time_point start_, next_;
  Clock::duration interval_;  ///< between the next two lines
};

/// Writes `text` to standard output, all of it and at once. Throws Error when that fails;
/// `consolation` ends its sentence: "; the result is complete in FILE". Not thread-safe.
void print_output(std::string_view text, std::string_view consolation = {});

/// To be called before any file is opened. One of the three standard streams that whoever started
/// this process had closed is opened, without its purpose: else the next file would get its number,
/// and what is printed.
void keep_standard_streams();

}  // namespace shardstream
