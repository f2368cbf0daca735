// Reads a command line: options of the table, and the switches and settings of one command.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"

namespace shardstream::options {

/// Words that only one command takes, such as "json" for --json. The table does not know them.
struct OwnWords {
  std::span<const std::string_view> switches;  ///< without a value
  std::span<const std::string_view> settings;  ///< with a value
};

/// See OptionTable::parse_command_line.
CommandLine parse(const std::vector<OptionRow>& rows, const std::vector<std::string>& arguments,
                  const OwnWords& own);

/// Throws UsageError with the option that `token` begins with, and the nearest known one.
[[noreturn]] void fail_unknown_option(const std::vector<OptionRow>& rows, std::string_view token,
                                      const OwnWords& own = {});

}  // namespace shardstream::options
