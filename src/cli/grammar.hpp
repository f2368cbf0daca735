// The words of the command line as data: for the completion of bash and zsh, and for the man page.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"

namespace shardstream::cli {

/// A command and its words.
struct Grammar {
  std::string_view name, summary;
  std::span<const std::string_view> switches, settings;  ///< without and with a value
  std::vector<OptionRow> options;
  std::vector<std::string_view> words;  ///< such as names of workloads
};

/// All commands, in the order of the help.
std::vector<Grammar> grammars();

/// A script for `shell`, bash or zsh, that completes commands, words, options and their choices.
/// Throws UsageError for another shell.
std::string completion_of(std::string_view shell);

/// The man page, in the format of man(7).
std::string man_page();

}  // namespace shardstream::cli
