// The commands of the program. Each returns the exit code of the process or throws Error. Commands
// that start MPI share in_session(): it parses options, starts MPI, runs the work and handles
// errors.
#pragma once

#include <array>
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

/// The options of all components, without those of `scale` and `bench`. INI files and environment
/// variables may name any of them.
OptionTable all_options();
/// all_options() and the section [scale].
OptionTable scale_table();
/// The options of `bench` and of all its experiments.
OptionTable bench_table();
/// The options of `report`.
OptionTable report_options();
/// all_options() with the meanings and ranges that they have for `generate`.
OptionTable generate_options();
/// The options that `generate` accepts, as keys or whole sections.
inline constexpr std::array<std::string_view, 9> options_of_generate = {
    "input.data", "input.count",  "input.shape", "input.type",      "input.seed",
    "launch",     "comm.timeout", "output.file", "output.overwrite"};

/// The options that `bench` accepts in addition to the options of its experiments.
inline constexpr std::array<std::string_view, 11> options_of_bench = {"measure.warmup",
                                                                      "measure.repeat",
                                                                      "measure.precision",
                                                                      "measure.max-time",
                                                                      "measure.telemetry",
                                                                      "output.file",
                                                                      "measure.telemetry-interval",
                                                                      "output.overwrite",
                                                                      "launch",
                                                                      "device",
                                                                      "comm.timeout"};

using Arguments = std::vector<std::string>;  ///< what follows the command's name

int run(const Arguments& arguments, const char* const* environment);
int scale(const Arguments& arguments, const char* const* environment);
int report(const Arguments& arguments, const char* const* environment);
int compare(const Arguments& arguments, const char* const* environment);
int bench(const Arguments& arguments, const char* const* environment);
/// The internal command of helper processes: the argument is the name of an experiment. It starts
/// no MPI and takes no options.
int bench_helper(const Arguments& arguments);
/// The internal command that a study starts on each rank of the user's program. It starts no MPI
/// and becomes the program, so it does not return.
[[noreturn]] int exec(const Arguments& arguments);
int generate(const Arguments& arguments, const char* const* environment);
int info(const Arguments& arguments, const char* const* environment);
int completion(const Arguments& arguments, const char* const* environment);
int man(const Arguments& arguments, const char* const* environment);

/// The text of --help for the program or a command. `arguments` are those of the command.
std::string program_help();
std::string run_help(const Arguments& arguments);
std::string scale_help(const Arguments& arguments);
std::string report_help(const Arguments& arguments);
std::string compare_help(const Arguments& arguments);
std::string bench_help(const Arguments& arguments);
std::string generate_help(const Arguments& arguments);
std::string info_help(const Arguments& arguments);
std::string completion_help(const Arguments& arguments);
std::string man_help(const Arguments& arguments);

using Body = std::function<ExitCode(const ranks::Session&, const Options&, Log&)>;

/// Calls `parse` and then, inside an MPI session, `body`. Returns the exit code of the process.
/// Warnings of the options and an error are printed once. If `parse` fails, MPI is started only
/// under a launcher, where ranks must agree which one prints the error. An error that only one rank
/// has found ends all ranks at once. For `memory_remedy`, see core/failure.hpp.
int in_session(const std::function<Options()>& parse, const Body& body,
               std::string_view memory_remedy = {});

/// The words of each command that are not options of a table: switches, and settings with a value.
/// `rates` is short for measure.rates.
inline constexpr std::array<std::string_view, 3> switches_of_run = {"dry-run", "json", "quiet"};
inline constexpr std::array<std::string_view, 3> settings_of_run = {"ranks", "gpus-per-node",
                                                                    "rates"};
inline constexpr std::array<std::string_view, 3> switches_of_scale = {"list", "json", "quiet"};
inline constexpr std::array<std::string_view, 3> settings_of_scale = {"predict", "only", "rates"};
inline constexpr std::array<std::string_view, 6> switches_of_report = {
    "json", "quiet", "markdown", "latex", "together", "short"};
inline constexpr std::array<std::string_view, 3> settings_of_report = {"csv", "extra-p", "svg"};
inline constexpr std::array<std::string_view, 2> switches_of_compare = {"json", "quiet"};
inline constexpr std::array<std::string_view, 2> settings_of_compare = {"threshold",
                                                                        "launch-noise"};
inline constexpr std::array<std::string_view, 5> switches_of_bench = {"list", "code", "quick",
                                                                      "json", "quiet"};
inline constexpr std::array<std::string_view, 1> settings_of_bench = {"search"};
inline constexpr std::array<std::string_view, 2> switches_of_generate = {"json", "quiet"};
inline constexpr std::array<std::string_view, 3> switches_of_info = {"json", "quiet", "measure"};

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
