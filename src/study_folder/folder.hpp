// The folder of a study: its files, and which of them `scale` may replace. A user may have put any
// file there, so a file is replaced or removed only if its contents prove that it is of this study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "study_folder/names.hpp"
#include "study_folder/study_ini.hpp"

namespace shardstream::study_folder {

class StudyFolder {
 public:
  /// Throws UsageError if runs would replace a part of the name, such as {ranks}.
  explicit StudyFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }

  /// Throws UsageError if the path exists and is not a folder, or cannot be reached.
  void check() const;
  /// Throws UsageError if the folder has other files but no study, or has a study.ini that `scale`
  /// has not written and no result.
  void expect_only_study() const;
  bool has_study() const;
  /// Whether the folder contains a study with at least one file *.h5.
  bool has_results() const;
  StoredOptions options() const { return read_options(path_); }

  /// Creates the folder and its folder of logs. Throws UsageError.
  void create() const;
  /// Writes study.ini. Several jobs may read the old file meanwhile, so the new one replaces it
  /// atomically. Throws UsageError if that fails, or if `scale` has not written the old file.
  void write_options(const OptionList& chosen, const std::string& name) const;
  /// Removes attempts.jsonl. Throws UsageError if it has lines that `scale` has not written.
  void remove_attempts() const;
  /// The file of a log.
  std::filesystem::path log(std::string_view name) const { return path_ / logs_name / name; }
  /// Creates an empty log for an attempt of a launch, with an unused name. Throws Error.
  std::filesystem::path new_log(const std::string& launch, std::uint64_t attempt) const;

 private:
  void expect_own_options() const;

  std::filesystem::path path_;
};

}  // namespace shardstream::study_folder
