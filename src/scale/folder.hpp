// The folder of a study: its files, and which of them `scale` may replace. A user may have put any
// file there, so a file is replaced or removed only if its contents prove that it is of this study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "scale/study_options.hpp"

namespace shardstream::scale {

/// The labels of a launch in its result file.
struct LaunchLabels {
  std::string study, point;
  std::uint64_t replicate = 0;
};

class StudyFolder {
 public:
  /// Throws UsageError if runs would replace a part of the name, such as {ranks}.
  explicit StudyFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }

  /// Throws UsageError if the path exists and is not a folder, or cannot be reached.
  void check() const;
  /// Throws UsageError if the folder has other files but no study.
  void expect_only_study() const;
  bool has_study() const;
  /// Whether the folder contains a study with at least one file *.h5.
  bool has_results() const;
  std::map<std::string, std::string> options() const;  ///< those of study.ini

  /// Creates the folder and its folder of logs. Throws UsageError.
  void create() const;
  /// Writes study.ini. Several jobs may read the old file meanwhile, so the new one replaces it
  /// atomically. Throws UsageError if that fails, or if `scale` has not written the old file.
  void write_options(const Values& values, const std::string& name) const;
  /// Removes attempts.jsonl. Throws UsageError if it has lines that `scale` has not written.
  void remove_attempts() const;
  /// Creates an empty log for an attempt of a launch, with an unused name. Throws Error.
  std::filesystem::path new_log(const std::string& launch, std::uint64_t attempt) const;

 private:
  std::filesystem::path path_;
};

/// The reason why `result` must not be removed: nothing proves that it is a result of this launch,
/// complete or not. Empty if it is one, or if there is no such file.
std::string why_not_own_result(const std::filesystem::path& result, const LaunchLabels& labels);
/// The same for the trace of a run of this study.
std::string why_not_own_trace(const std::filesystem::path& trace, const std::string& study);

}  // namespace shardstream::scale
