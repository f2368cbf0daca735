// attempts.jsonl of a study's folder: every launch, a line of JSON each. `scale` appends to it, and
// reports read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardstream::report {

struct Attempt {
  std::string point;  ///< as study.point
  std::uint64_t ranks = 1, replicate = 0;
  std::uint64_t number = 1;           ///< of this launch, from 1
  double utc_start = 0, utc_end = 0;  ///< of the launcher, in seconds since 1970
  int exit_code = 0;                  ///< 128 + N after signal N
  bool timed_out = false;             ///< ended by scale.timeout
  bool interrupted = false;           ///< ended because the user wanted it
  std::string result = {}, log = {};  ///< names of files
  std::string problem = {};           ///< one sentence; empty: the launch has succeeded

  /// The launch's name: "p4-r2", "p4-timeline", "calibration".
  std::string name() const { return std::filesystem::path(result).stem().string(); }
};

/// The attempt as a line of the file, with its end.
std::string to_line(const Attempt& attempt);

/// The lines of FOLDER/attempts.jsonl in their order; none if there is no such file. Throws
/// UsageError, which names the file and the line, if a line is none that to_line() writes.
std::vector<Attempt> read_attempts(const std::filesystem::path& folder);

}  // namespace shardstream::report
