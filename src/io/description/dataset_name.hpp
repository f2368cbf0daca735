// The name of a data set, as a user writes it.
#pragma once

#include <optional>
#include <string>

namespace shardstream::io {

/// The parts of FILE:/PATH{MEMBER}[SELECTION].
struct DatasetName {
  std::string file, path;
  std::string member;                         ///< of a compound type, see find_member()
  std::optional<std::string> selection = {};  ///< without brackets, see SelectionText

  /// The path with the member in braces, if there is one.
  std::string path_and_member() const;
  /// The same with the selection in brackets, if there is one: all that follows FILE and the colon.
  std::string within_file() const;
};
/// Splits at the last ":/" that follows the name of an existing file, or else at the last one. The
/// path is empty if there is no ":/" or if `text` is the name of an existing file. If the path ends
/// in ']', the text after the last '[' is the selection. If the rest ends in '}', the text between
/// it and the '{' that it closes is the member.
DatasetName dataset_name(const std::string& text);

/// Throws UsageError if `name` is not a file but FILE[SELECTION] with an existing FILE.
void expect_no_selection(const std::string& name);
/// Throws UsageError, since the selection has no data set. `file` may be a pattern.
[[noreturn]] void fail_as_selection_of_file(const std::string& file, const std::string& selection);

}  // namespace shardstream::io
