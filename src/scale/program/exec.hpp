// `shardstream exec`, which a study starts on each rank: this process leaves a record of itself and
// becomes the user's program. It starts no MPI.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shardstream::scale::program {

/// The name of the command.
inline constexpr std::string_view exec_command = "exec";

struct Execution {
  std::filesystem::path records;         ///< the folder for the record; empty: no record
  std::vector<std::string> environment;  ///< KEY=VALUE
  std::vector<std::string> command;      ///< its words
};

/// The arguments of `exec` for this execution; parse_execution() is the inverse.
std::vector<std::string> arguments_of(const Execution& execution);
/// Throws UsageError unless the arguments are [--records FOLDER] [--set KEY=VALUE]... -- COMMAND.
Execution parse_execution(const std::vector<std::string>& arguments);

/// Sets the variables, writes the record and becomes the program, so it does not return. Throws
/// UsageError if there is no such program, and Error if it cannot be executed.
[[noreturn]] void become(const Execution& execution);

}  // namespace shardstream::scale::program
