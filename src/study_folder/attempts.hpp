// attempts.jsonl in the folder of a study: one line of JSON per attempt of a launch. `scale`
// appends to it, and reports read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::study_folder {

/// One attempt of a launch: what was started, and how it ended.
struct LaunchAttempt {
  std::string point;  ///< the value of study.point
  std::uint64_t ranks = 1, replicate = 0;
  std::uint64_t number = 1;           ///< of this launch, from 1
  double utc_start = 0, utc_end = 0;  ///< of the launcher, in seconds since 1970
  int exit_code = 0;                  ///< 128 + N after signal N
  bool timed_out = false;             ///< ended by scale.timeout
  bool interrupted = false;           ///< ended by the user, or by the end of the Slurm job
  std::string result = {}, log = {};  ///< names of files
  std::string job = {};               ///< number of the Slurm job; empty outside of Slurm
  std::string problem = {};           ///< one sentence; empty: the launch has succeeded

  /// The launch's name: "p4-r2", "p4-timeline", "calibration".
  std::string name() const { return std::filesystem::path(result).stem().string(); }
};

/// The attempts in FOLDER/attempts.jsonl, in order; none if there is no such file. Throws
/// UsageError with the file if it is not a regular file or too large, and with the line if
/// AttemptTable cannot have written it.
std::vector<LaunchAttempt> read_attempts(const std::filesystem::path& folder);

/// Appends to attempts.jsonl. Not thread-safe, but several processes may append at a time.
class AttemptTable {
 public:
  /// Opens or creates FOLDER/attempts.jsonl. Throws UsageError if it cannot be written, is not
  /// a regular file, or has other contents.
  explicit AttemptTable(const std::filesystem::path& folder);
  /// Appends a line. Throws Error if that fails, for example on a full disk.
  void add(const LaunchAttempt& attempt);

 private:
  std::filesystem::path path_;
  Descriptor file_;
  bool is_torn_ = false;  ///< a crash has cut the last line, so a line break must precede the next
};

}  // namespace shardstream::study_folder
