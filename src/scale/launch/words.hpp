// Commands in options: their words, and the keys in braces that are replaced in them. No shell
// reads them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::scale {

/// The words of a command: white space separates them, except inside '...' and "...". Nothing else
/// has a special meaning. Throws UsageError, which names `option`, for an open quote.
std::vector<std::string> command_words(std::string_view option, std::string_view line);

/// A line from which command_words() returns `words`. A shell reads it in the same way, except for
/// characters that are special to it.
std::string command_line_of(const std::vector<std::string>& words);

/// Keys such as "ranks", without their braces, and the texts that replace them.
using Keys = std::map<std::string, std::string, std::less<>>;

/// `text` with the value of KEY for each {KEY}, and with {KEY} for each {{KEY}}. A key consists of
/// letters and hyphens; other braces stay as they are. Throws UsageError, which names `option`, for
/// a key that is not in `values`.
std::string filled(std::string_view option, std::string_view text, const Keys& values);

}  // namespace shardstream::scale
