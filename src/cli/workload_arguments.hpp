// The options of the commands that take WORKLOAD|CONFIG.ini.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/options.hpp"

namespace shardstream::cli {

/// The effective options of `command`, whose command line is `line`, as `table` has parsed it.
/// `ini` becomes the configuration file that it names, if it names one. Throws UsageError unless
/// exactly one workload is named.
Options resolve_workload(std::string_view command, const OptionTable& table, CommandLine line,
                         const char* const* environment, std::filesystem::path& ini);

}  // namespace shardstream::cli
