// The launches of a study: an append-only table in attempts.jsonl of its folder, with one line of
// JSON per launch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/descriptor.hpp"
#include "scale/process.hpp"

namespace shardstream::scale {

struct LaunchAttempt {
  std::string point;  ///< the value of study.point
  std::uint64_t ranks = 1, replicate = 0, number = 1;
  std::filesystem::path result, log = {};
  Ended ended = {};
  std::string problem = {};  ///< one sentence; empty if the run has succeeded
};

/// Not thread-safe, but several processes may append to the file at a time.
class Attempts {
 public:
  /// Opens or creates FOLDER/attempts.jsonl. Throws UsageError if it cannot be written, is not
  /// a regular file, or has other contents.
  explicit Attempts(const std::filesystem::path& folder);
  /// Appends a line. Throws Error if that fails, for example on a full disk.
  void add(const LaunchAttempt& attempt);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  bool is_torn_ = false;  ///< a crash has cut the last line, so a line break must precede the next
};

}  // namespace shardstream::scale
