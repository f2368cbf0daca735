// Calls the command that the first word names. --help and --version start neither MPI nor CUDA.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/failure.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "experiments/catalogue.hpp"
#include "experiments/helper_processes.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "runtime/provenance.hpp"
#include "scale/program/exec.hpp"
#include "workloads/registry.hpp"

extern char** environ;

namespace {

using namespace shardstream;

const cli::Command& command_named(std::string_view name) {
  const auto found = std::ranges::find(cli::commands(), name, &cli::Command::name);
  if (found != cli::commands().end()) return **found;
  std::vector<std::string_view> names;
  for (const cli::Command* each : cli::commands()) names.push_back(each->name);
  std::string meant(nearest(name, names));
  if (const auto workload = nearest(name, workloads::names()); meant.empty() && !workload.empty()) {
    meant = fmt::format("shardstream run {}", workload);
  }
  throw UsageError(fmt::format("unknown command {}{}: see shardstream --help", excerpt(name),
                               did_you_mean(meant)));
}

/// Words after -- are the user's command.
bool asks_for_help(const cli::Arguments& words) {
  const auto own_end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), own_end,
                     [](const auto& w) { return w == "--help" || w == "-h"; });
}

/// The help of a command, of a workload or of an experiment; without words, of the program.
std::string help_on(const cli::Arguments& words) {
  if (words.empty()) return cli::program_help();
  if (workloads::find(words[0]) != nullptr) return command_named("run").help(words);
  if (experiments::find(words[0]) != nullptr) return command_named("bench").help(words);
  return command_named(words[0]).help({words.begin() + 1, words.end()});
}

int dispatch(const cli::Arguments& words) {
  if (words.empty()) throw UsageError("a command is missing: see shardstream --help");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_output(help_on({words.begin() + 1, words.end()}));
    return 0;
  }
  if (words[0] == "--version" || words[0] == "-V") {
    print_output(runtime::version_line() + '\n');
    return 0;
  }
  const cli::Arguments arguments(words.begin() + 1, words.end());
  if (words[0] == experiments::helper_command) return cli::bench_helper(arguments);
  if (words[0] == scale::program::exec_command) cli::exec(arguments);
  const cli::Command& command = command_named(words[0]);
  if (asks_for_help(arguments)) {
    print_output(command.help(arguments));
    return 0;
  }
  return command.run(arguments, environ);
}

/// Whether the command starts programs of the user, which must have the user's environment.
bool starts_others(const cli::Arguments& words) {
  return !words.empty() && (words[0] == "scale" || words[0] == scale::program::exec_command);
}

}  // namespace

int main(int argc, char** argv) {
  Log log;
  try {
    keep_standard_streams();
    ignore_file_size_signal();
    const cli::Arguments words(argv + 1, argv + argc);
    if (!starts_others(words)) gemm::set_library_environment();
    return dispatch(words);
  } catch (const std::exception& error) {
    log.error(message_of(error));
    return static_cast<int>(code_of(error));
  }
}
