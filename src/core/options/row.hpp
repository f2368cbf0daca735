// The arithmetic on single rows of the option table: which values a row admits, how they are
// described, and what the row is called in the environment.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"

namespace shardstream::options {

using Values = std::map<std::string, Options::Value, std::less<>>;

// Values of Options::Value::origin; a value of an INI file has "FILE:LINE".
inline constexpr std::string_view from_command_line = "command line";
inline constexpr std::string_view from_environment = "environment";
inline constexpr std::string_view from_default = "default";

inline constexpr std::string_view environment_prefix = "SHARDSTREAM_";

/// The value of a flag, or nothing if `text` is neither true nor false.
std::optional<bool> flag_of(std::string_view text);
/// The same; throws UsageError if `text` is neither.
bool parse_flag(std::string_view text);

/// The name of a value in --help: "COUNT".
std::string_view value_name(const OptionRow& row);

/// The values that a user may give, as the end of a sentence: "a count in 1..64, or auto".
std::string describe(const OptionRow& row);

/// Throws UsageError, whose message names `text` and the fault but not the option. The range of a
/// text is only shown in --help and not checked.
void check_value(const OptionRow& row, std::string_view text);

/// Throws ContractError if the row is badly declared. Every start of the program checks all rows.
void check_row(const OptionRow& row);

/// SHARDSTREAM_SECTION_NAME
std::string environment_name(std::string_view key);

/// Null if there is no such key. Valid as long as `rows`.
const OptionRow* find_row(const std::vector<OptionRow>& rows, std::string_view key);

/// Whether `names`, keys and whole sections, contain the key.
bool is_among(std::string_view key, std::span<const std::string_view> names);

/// The key that the user probably meant, or nothing. A bare "file" means "output.file", and a bare
/// "input" the first option of that section.
std::string_view nearest_key(const std::vector<OptionRow>& rows, std::string_view word);

}  // namespace shardstream::options
