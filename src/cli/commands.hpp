// The commands of the program, one row each, and their common parts. Commands that start MPI share
// in_session(): it parses options, starts MPI, runs the work and handles errors.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/metric.hpp"
#include "core/options.hpp"
#include "ranks/session.hpp"

namespace shardstream::cli {

using Arguments = std::vector<std::string>;  ///< what follows the command's name

/// A command of the program. Dispatch, --help, the man page, the completion of shells and the
/// suggestions for unknown words follow from it.
struct Command {
  std::string_view name;
  std::string_view arguments;  ///< the short form in the help of the program
  std::string_view summary;    ///< a sentence without its end: "runs a scaling study"
  /// Its words that are not options of a table: switches, and settings with a value. `switches` has
  /// "json" for --json. Environment variables and INI files do not contain them.
  std::span<const std::string_view> switches = {}, settings = {};
  /// The options that completion offers and the man page explains.
  std::vector<OptionRow> (*options)() = [] { return std::vector<OptionRow>(); };
  /// The words that it takes, such as names of workloads.
  std::vector<std::string_view> (*words)() = [] { return std::vector<std::string_view>(); };
  /// The text of --help, which begins with the usage.
  std::string (*help)(const Arguments& arguments);
  /// Returns the exit code of the process, or throws Error. `environment` has the form of environ.
  int (*run)(const Arguments& arguments, const char* const* environment);
};

/// All commands, in the order of the help.
std::span<const Command* const> commands();

/// The internal command of helper processes: the argument is the name of an experiment. It starts
/// no MPI and takes no options.
int bench_helper(const Arguments& arguments);
/// The internal command that a study starts on each rank of the user's program. It starts no MPI
/// and becomes the program, so it does not return.
[[noreturn]] int exec(const Arguments& arguments);

/// The options of all components, without those of `scale` and `bench`. INI files and environment
/// variables may name any of them.
OptionTable all_options();
/// all_options() and the section [scale].
OptionTable scale_table();
/// The options of `bench` and of all its experiments.
OptionTable bench_table();
/// The rows of `table` that `wanted` names, as keys or whole sections.
std::vector<OptionRow> rows_of(const OptionTable& table, std::span<const std::string_view> wanted);

/// The text of --help for the program.
std::string program_help();
enum class IniFile { accepted, rejected };
/// The end of a command's help: where options come from, and those that `wanted` names as in
/// OptionTable::help(). `ini` says whether the command takes an INI file.
std::string options_help(const OptionTable& table, IniFile ini,
                         std::span<const std::string_view> wanted = {});

using Body = std::function<ExitCode(const ranks::Session&, const Options&, Log&)>;

/// Calls `parse` and then, inside an MPI session, `body`. Returns the exit code of the process.
/// Warnings of the options and an error are printed once. If `parse` fails, MPI is started only
/// under a launcher, where ranks must agree which one prints the error. An error that only one rank
/// has found ends all ranks at once. For `memory_remedy`, see core/failure.hpp.
int in_session(const std::function<Options()>& parse, const Body& body,
               std::string_view memory_remedy = {});

/// The form of the results that the switches name. Throws UsageError if there are both, or if a
/// file name follows --json, which takes no value here although it does in other programs.
Printing printing_of(const CommandLine& line);

// These functions reject options of the command line that belong to another command or workload.
// Environment variables and INI files may serve several commands, so their options are not checked.

/// For `run`: throws UsageError for the first option of the command line that the workload does not
/// take. `always` are keys that every workload takes in this case, as for a dry run.
void reject_options_of_other_workloads(const Options& options,
                                       std::span<const std::string_view> always);

/// For another `command`: throws UsageError for the first option of the command line that is not
/// in `own`, its keys or whole sections. `data` and `sizes` are its keys for data and for sizes.
void reject_options_of_run(const Options& options, std::string_view command,
                           std::span<const std::string_view> own,
                           std::span<const std::string_view> data,
                           std::span<const std::string_view> sizes);

}  // namespace shardstream::cli
