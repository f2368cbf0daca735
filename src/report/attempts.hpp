// attempts.jsonl in the folder of a study: one line of JSON per launch. `scale` appends to it, and
// reports read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::report {

/// The maximum size of attempts.jsonl in bytes.
inline constexpr std::uint64_t max_attempts_bytes = std::uint64_t{64} << 20;

/// The beginning of each line.
inline constexpr std::string_view attempt_start = "{\"point\":";

struct Attempt {
  std::string point;  ///< the value of study.point
  std::uint64_t ranks = 1, replicate = 0;
  std::uint64_t number = 1;           ///< of this launch, from 1
  double utc_start = 0, utc_end = 0;  ///< of the launcher, in seconds since 1970
  int exit_code = 0;                  ///< 128 + N after signal N
  bool timed_out = false;             ///< ended by scale.timeout
  bool interrupted = false;           ///< ended by the user
  std::string result = {}, log = {};  ///< names of files
  std::string problem = {};           ///< one sentence; empty: the launch has succeeded

  /// The launch's name: "p4-r2", "p4-timeline", "calibration".
  std::string name() const { return std::filesystem::path(result).stem().string(); }
};

/// The attempt as a line of the file, with a line break.
std::string to_line(const Attempt& attempt);

/// The attempts in FOLDER/attempts.jsonl, in order; none if there is no such file. Throws
/// UsageError with the file if it is not a regular file or too large, and with the line if
/// to_line() cannot have written it.
std::vector<Attempt> read_attempts(const std::filesystem::path& folder);

}  // namespace shardstream::report
