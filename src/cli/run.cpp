#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/commands.hpp"
#include "cli/in_session.hpp"
#include "cli/option_scope.hpp"
#include "core/standard_output.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "launch/session.hpp"
#include "run/dry_run.hpp"
#include "run/run.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

/// Words of the command line that are no options. `rates` is short for measure.rates, the others
/// are for a dry run.
constexpr std::array<std::string_view, 1> switches = {"dry-run"};
constexpr std::array<std::string_view, 3> settings = {"ranks", "gpus-per-node", "rates"};
constexpr std::uint64_t usual_ranks_on_host = 8;

std::uint64_t positive_count(const CommandLine& line, std::string_view name,
                             std::uint64_t otherwise) {
  const auto found = line.settings.find(name);
  if (found == line.settings.end()) return otherwise;
  try {
    const std::uint64_t count = parse_count(found->second);
    if (count > 0 && count <= UINT32_MAX) return count;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{}: {}", name, error.what()));
  }
  throw UsageError(fmt::format("--{}: {} can't be: give a number of ranks from 1 to 2^32-1", name,
                               found->second));
}

/// The request for a dry run; nothing without --dry-run. Throws UsageError if a value is not
/// possible, or if --ranks or --gpus-per-node is given without --dry-run.
std::optional<measure::Request> request_of(const CommandLine& line) {
  if (!line.switches.contains("dry-run")) {
    if (line.settings.empty()) return std::nullopt;
    throw UsageError(fmt::format(
        "--{} is for planning a run: pass --dry-run too, or leave it out (mpirun or srun says how "
        "many ranks there are)",
        line.settings.begin()->first));
  }
  measure::Request request;
  const auto launched = launch::launched().value_or(launch::Launched{1, 1, ""});
  request.ranks = positive_count(line, "ranks", launched.ranks);
  const std::uint64_t on_host =
      request.ranks == launched.ranks ? launched.ranks_on_host : usual_ranks_on_host;
  request.ranks_on_host = std::min(request.ranks, positive_count(line, "gpus-per-node", on_host));
  return request;
}

/// "NAME, NAME or NAME"
std::string names_of_workloads() {
  std::vector<std::string_view> names;
  for (const workloads::Workload& workload : workloads::all()) names.push_back(workload.name);
  return join_or(names);
}

/// `ini` becomes the INI file that the arguments name, and `dry` the request for a dry run, if
/// there is one.
Options parse(const Arguments& arguments, const char* const* environment, fs::path& ini,
              std::optional<measure::Request>& dry) {
  const OptionTable table = all_options();
  CommandLine line = table.parse_command_line(arguments, switches, settings);
  if (auto rates = line.settings.extract("rates")) {
    line.values["measure.rates"] = std::move(rates.mapped());
  }
  dry = request_of(line);
  if (line.words.size() == 2 && line.words[1].ends_with(".ini")) {
    throw UsageError(fmt::format(
        "run takes a workload or a configuration file, not both: leave out {}, since {} names its "
        "workload by itself (workload in the section [run])",
        excerpt(line.words[0]), excerpt(line.words[1])));
  }
  if (line.words.size() != 1) {
    throw UsageError(
        line.words.empty()
            ? fmt::format("run needs a workload ({}) or a configuration file (NAME.ini): see "
                          "shardstream run --help",
                          names_of_workloads())
            : fmt::format("run takes one workload or configuration file, but {} "
                          "follows {}: check the spelling of the options",
                          excerpt(line.words[1]), excerpt(line.words[0])));
  }
  if (!line.words[0].ends_with(".ini")) {
    if (fs::is_regular_file(line.words[0])) {
      throw UsageError(
          fmt::format("{} is not taken for a configuration file: give it a name that "
                      "ends in .ini",
                      excerpt(line.words[0])));
    }
    line.values["run.workload"] = line.words[0];
  } else {
    ini = line.words[0];
  }
  Options options =
      table.resolve(line, environment, ini.empty() ? std::nullopt : std::optional(ini));
  if (options.text("run.workload").empty()) {
    throw UsageError(fmt::format(
        "{} names no workload: add one to it (workload = {} in the section [run]), or name it on "
        "the command line (--run.workload {})",
        excerpt(ini.string()), names_of_workloads(), workloads::all()[0].name));
  }
  constexpr std::array<std::string_view, 1> of_dry_runs = {"measure.rates"};
  reject_options_of_other_workloads(options, dry ? std::span<const std::string_view>(of_dry_runs)
                                                 : std::span<const std::string_view>());
  return options;
}

/// The command as a shell would read it again.
std::string command_line(const Arguments& arguments) {
  std::string line = "shardstream run";
  for (const std::string& word : arguments) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!") == word.npos;
    std::string quoted = word;
    for (auto at = quoted.find('\''); at != quoted.npos; at = quoted.find('\'', at + 4)) {
      quoted.replace(at, 1, "'\\''");
    }
    line += plain ? fmt::format(" {}", word) : fmt::format(" '{}'", quoted);
  }
  return line;
}

}  // namespace

int run(const Arguments& arguments, const char* const* environment) {
  fs::path ini;
  std::optional<measure::Request> dry;
  if (std::ranges::find(arguments, "--dry-run") != arguments.end()) {
    // The others of a launcher's processes would say the same, errors too.
    if (!launch::first_of_launcher()) return static_cast<int>(ExitCode::done);
    const Options options = parse(arguments, environment, ini, dry);
    Log log;
    for (const std::string& warning : options.warnings()) log.warn(warning);
    if (dry) print_output(run::dry_run(options, *dry, log));
    return static_cast<int>(ExitCode::done);
  }
  return in_session([&] { return parse(arguments, environment, ini, dry); },
                    [&](const launch::Session& session, const Options& options, Log& log) {
                      run::run_workload(session, options, log, {command_line(arguments), ini});
                      return ExitCode::done;
                    });
}

}  // namespace shardstream::cli
