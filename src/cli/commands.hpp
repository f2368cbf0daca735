// The program's commands; each returns what the process returns, or throws Error. What those that
// start MPI share: options first, then MPI, then the work; and how it ends.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options.hpp"
#include "launch/session.hpp"

namespace shardstream::cli {

/// The options of all rooms. INI files and environment variables may name any of them.
OptionTable all_options();
/// The same with [scale].
OptionTable scale_table();
/// The options of `bench`, those of its experiments among them.
OptionTable bench_table();
/// The same as `generate` takes them.
OptionTable generate_options();
/// Those that `generate` goes by, by key or whole sections.
inline constexpr std::array<std::string_view, 9> options_of_generate = {
    "input.data", "input.count",  "input.shape", "input.type",      "input.seed",
    "launch",     "comm.timeout", "output.file", "output.overwrite"};

/// Those that `bench` goes by beside its experiments' own.
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
int generate(const Arguments& arguments, const char* const* environment);
int info(const Arguments& arguments, const char* const* environment);

/// Text for --help: of the program, or of a command with what follows its name.
std::string program_help();
std::string run_help(const Arguments& arguments);
std::string scale_help(const Arguments& arguments);
std::string report_help(const Arguments& arguments);
std::string compare_help(const Arguments& arguments);
std::string bench_help(const Arguments& arguments);
std::string generate_help(const Arguments& arguments);
std::string info_help(const Arguments& arguments);

using Body = std::function<ExitCode(const launch::Session&, const Options&, Log&)>;

/// Calls `parse` and then, inside an MPI session, `body`; returns what the process returns. The
/// warnings of the options and an error are printed once. An error in `parse` starts MPI only under
/// a launcher, where the ranks must agree on who speaks. An error that one rank alone knows of ends
/// all ranks at once.
int in_session(const std::function<Options()>& parse, const Body& body);

// Rejecting options of the command line that another command or workload takes. Variables and INI
// files may serve several commands and workloads, so their options are not checked.

/// Of `run`: throws UsageError for the first option of the command line that is not for
/// run.workload. `always` are keys that count for every workload, as some do in a dry run.
void reject_options_of_other_workloads(const Options& options,
                                       std::span<const std::string_view> always);

/// Of another `command`: throws UsageError for the first option of the command line that is not
/// among its `own`, keys or whole sections. `data` and `sizes` are its keys for data and for sizes.
void reject_options_of_run(const Options& options, std::string_view command,
                           std::span<const std::string_view> own,
                           std::span<const std::string_view> data,
                           std::span<const std::string_view> sizes);

/// Throws UsageError if a file is named after --json, which takes no value, as users of other
/// programs expect.
void reject_json_file(const CommandLine& line);

}  // namespace shardstream::cli
