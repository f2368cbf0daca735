// study.ini in the folder of a study: the options of the study.
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

/// The options by key ("scale.ranks"), with `study.name`; empty if the folder has no study.ini.
std::map<std::string, std::string> read_study_ini(const std::filesystem::path& folder);

/// The name of a launch and of its result without ".h5": "p4-r2".
std::string launch_name(std::uint64_t ranks, std::uint64_t replicate);

/// The names of all measuring launches of the study, replicate by replicate; none if study.ini does
/// not have the necessary options.
std::vector<std::string> launch_names(const std::map<std::string, std::string>& study_ini);

}  // namespace shardstream::report
