// The launches of a study, each a line of JSON in attempts.jsonl of its folder: an append-only
// table of what was tried, when, and how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/descriptor.hpp"
#include "scale/process.hpp"

namespace shardstream::scale {

struct Attempt {
  std::string point;  ///< as study.point
  std::uint64_t ranks = 1, replicate = 0, number = 1;
  std::filesystem::path result, log = {};
  Ended ended = {};
  std::string problem = {};  ///< one sentence; empty: the run has succeeded
};

/// For one thread. A line is one write at the end of the file.
class Attempts {
 public:
  /// Opens or makes FOLDER/attempts.jsonl. Throws UsageError if it cannot be written.
  explicit Attempts(const std::filesystem::path& folder);
  /// Throws Error if the disk is full.
  void add(const Attempt& attempt);

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace shardstream::scale
