// The options of commands that take WORKLOAD|CONFIG.ini.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/options.hpp"

namespace shardstream::cli {

/// Whether a word names a data set or looks like a file with data sets.
bool names_data(const std::string& word);

/// The effective options of `command`. `table` has parsed its command line into `line`. `ini` is
/// set to the configuration file if the command line names one. Throws UsageError unless exactly
/// one workload is named.
Options resolve_workload(std::string_view command, const OptionTable& table, CommandLine line,
                         const char* const* environment, std::filesystem::path& ini);

}  // namespace shardstream::cli
