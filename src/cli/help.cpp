#include <fmt/format.h>

#include "cli/commands.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

std::string sources(IniFile ini) {
  const bool accepted = ini == IniFile::accepted;
  return fmt::format(
      R"(Options come from the command line, else from SHARDSTREAM_* variables
({}), else from {}the defaults.
A SHARDSTREAM_* variable that matches no option gives a warning.
Write sizes as 64MiB or 1.5GB, counts as 2^24 or 1e9, and shares as 0.05 or 5%.
)",
      accepted ? "SHARDSTREAM_OUTPUT_FILE for output.file"
               : "SHARDSTREAM_INPUT_COUNT for input.count",
      accepted ? "an INI file, else from " : "");
}

/// One line for each command.
std::string lines_of_commands() {
  std::string lines;
  for (const Command* command : commands()) {
    const std::string usage = fmt::format("{} {}", command->name, command->arguments);
    lines += fmt::format("  shardstream {:<35} {}\n", usage, command->summary);
  }
  return lines;
}

/// One example of a command for each workload.
std::string examples() {
  std::string lines;
  for (const workloads::Workload& workload : workloads::all()) {
    lines += fmt::format("  mpirun -np 2 shardstream run {} {}\n", workload.name, workload.example);
  }
  return lines;
}

}  // namespace

std::string options_help(const OptionTable& table, IniFile ini,
                         std::span<const std::string_view> wanted) {
  return fmt::format("{}\n{}", sources(ini), table.help(wanted));
}

std::string program_help() {
  return fmt::format(
      R"(shardstream streams data that is larger than GPU memory through one GPU or many.

{}  shardstream COMMAND --help                      shows a command's options
  shardstream help NAME                           explains a command, workload or experiment
  shardstream --version, -V

{}
{}
Exit codes: 0 done; 1 failed after work had started; 2 fix the command or the input;
3 the result did not pass its verification; 4 compare cannot tell; 5 compare found a point
slower; 75 stopped with a checkpoint: run the same command again.
)",
      lines_of_commands(), examples(), sources(IniFile::accepted));
}

}  // namespace shardstream::cli
