// The folder of a study: its files, and which of them `scale` may replace. A user may have put any
// file there, so a file is replaced or removed only if its contents prove that it is of this study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "scale/study_options.hpp"

namespace shardstream::scale {

/// What a result file says about the launch that has made it.
struct LaunchLabels {
  std::string study, point;
  std::uint64_t replicate = 0;
};

class StudyFolder {
 public:
  /// Throws UsageError if runs would replace a part of the name, such as {ranks}.
  explicit StudyFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }

  /// Throws UsageError if the path exists and is no folder, or cannot be reached.
  void check() const;
  /// Throws UsageError if it is a folder with other files but no study.
  void expect_only_study() const;
  bool has_study() const;
  /// Whether it contains a study with at least one file *.h5.
  bool has_results() const;
  std::map<std::string, std::string> options() const;  ///< those of study.ini

  /// Creates the folder and the one of the logs. Throws UsageError.
  void create() const;
  /// Writes study.ini. Several jobs may read an old one meanwhile, so the new file replaces it at
  /// once. Throws UsageError if that fails, or if the old file is not one of `scale`.
  void write_options(const Values& values, const std::string& name) const;
  /// Removes attempts.jsonl. Throws UsageError if it has other lines than those of `scale`.
  void remove_attempts() const;
  /// Creates an empty log for an attempt of a launch, under a name that no file has. Throws Error.
  std::filesystem::path new_log(const std::string& launch, std::uint64_t attempt) const;

 private:
  std::filesystem::path path_;
};

/// The reason why `result` is not proved to be a result of this launch, complete or not, so that it
/// must not be removed. Empty if it is one, and if there is no such file.
std::string why_not_own_result(const std::filesystem::path& result, const LaunchLabels& labels);
/// The same for the trace of a run of this study.
std::string why_not_own_trace(const std::filesystem::path& trace, const std::string& study);

}  // namespace shardstream::scale
