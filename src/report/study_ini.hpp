// study.ini in the folder of a study: the options of the study. `scale` writes it, and reports read
// it. The file is also a valid INI file for `scale`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::report {

/// The values of study.point for runs that are not measurements: the first run of a study, and the
/// runs that record spans for figures.
inline constexpr std::string_view calibration_label = "calibration", timeline_label = "timeline";

/// The first line of study.ini, which proves that `scale` has written the file.
inline constexpr std::string_view study_ini_mark =
    "# A scaling study; shardstream scale has written this file.";

/// The maximum size of study.ini in bytes.
inline constexpr std::uint64_t max_study_ini_bytes = std::uint64_t{1} << 20;

/// A value as study.ini has it: control characters become \xNN, and a value that an INI file would
/// otherwise cut or trim is in quotes.
std::string ini_value(std::string_view value);
/// The value that read_study_ini() returns for ini_value(value).
std::string stored_value(std::string_view value);

/// The options by key ("scale.ranks"), with `study.name`; empty if the folder has no study.ini. If
/// a key has several values, the first one counts. Line ends may be those of Windows. Throws
/// UsageError with the file if it is not a regular file or too large.
std::map<std::string, std::string> read_study_ini(const std::filesystem::path& folder);

/// The name of a launch and of its result without ".h5": "p4-r2".
std::string launch_name(std::uint64_t ranks, std::uint64_t replicate);

/// The names of all measuring launches of the study, replicate by replicate; none if study.ini does
/// not have the necessary options. Throws UsageError if these are not numbers, or too large.
std::vector<std::string> launch_names(const std::map<std::string, std::string>& study_ini);

}  // namespace shardstream::report
