// study.ini in the folder of a study: the options of the study. `scale` writes it, and reports read
// it. The file is also a valid INI file for `scale`.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardstream::study_folder {

/// Options by key with their values, in the order of the file.
using OptionList = std::vector<std::pair<std::string, std::string>>;
/// The options of study.ini by key ("scale.ranks"), with `study.name`. A value may differ from the
/// chosen one, since an INI file cannot have every character.
using StoredOptions = std::map<std::string, std::string>;

/// The options of FOLDER/study.ini; empty if there is no such file. Throws UsageError with the file
/// if it is not a regular file or too large, and with the line if it is not a line of an INI file.
StoredOptions read_options(const std::filesystem::path& folder);

/// Whether `scale` has written FOLDER/study.ini, by its first line. Throws as read_options() does
/// for the file.
bool is_own_ini(const std::filesystem::path& folder);

/// The text of study.ini: `chosen` and the study's name.
std::string ini_text(const OptionList& chosen, const std::string& name);

/// The options that read_options() returns for ini_text(chosen, ...), without the name.
StoredOptions stored(const OptionList& chosen);

/// The names of all measuring launches of the study, replicate by replicate; none if `options` lack
/// their numbers. Throws UsageError if these are not numbers, or too large.
std::vector<std::string> launch_names(const StoredOptions& options);

}  // namespace shardstream::study_folder
