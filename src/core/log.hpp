// Lines on standard error, each with the rank as prefix. Standard output is for results alone.
#pragma once

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

}  // namespace shardstream
