// The program's commands; each returns what the process returns, or throws Error.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"

namespace shardstream::cli {

/// The options of all rooms. INI files and environment variables may name any of them.
OptionTable all_options();
/// The same with [scale].
OptionTable scale_table();
/// Those of `bench`.
OptionTable bench_table();
/// The same as `generate` takes them.
OptionTable generate_options();
/// Those that `generate` goes by, by key or whole sections.
inline constexpr std::array<std::string_view, 9> options_of_generate = {
    "input.data", "input.count",  "input.shape", "input.type",      "input.seed",
    "launch",     "comm.timeout", "output.file", "output.overwrite"};

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

}  // namespace shardstream::cli
