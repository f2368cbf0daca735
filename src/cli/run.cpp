#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "cli/commands.hpp"
#include "cli/workload_arguments.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "execution/dry_run.hpp"
#include "execution/run_workload.hpp"
#include "ranks/session.hpp"
#include "scale/scale_options.hpp"
#include "scale/study_options.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> switches_of_run = {"dry-run", "json", "quiet"};
/// `rates` is short for measure.rates.
constexpr std::array<std::string_view, 3> settings_of_run = {"ranks", "gpus-per-node", "rates"};

constexpr std::uint64_t default_ranks_on_host = 8;

/// The number of ranks that the setting `name` has as `text`. Throws UsageError.
std::uint64_t positive_count(std::string_view name, const std::string& text) {
  try {
    const std::uint64_t count = parse_count(text);
    if (count > 0 && count <= UINT32_MAX) return count;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{}: {}", name, error.what()));
  }
  throw UsageError(
      fmt::format("--{}: {} is not possible: give a number of ranks from 1 to 2^32-1", name, text));
}
std::uint64_t positive_count(const CommandLine& line, std::string_view name,
                             std::uint64_t otherwise) {
  const auto found = line.settings.find(name);
  return found == line.settings.end() ? otherwise : positive_count(name, found->second);
}

/// The numbers of ranks of a dry run: --ranks 1,2,4, else `otherwise`. Throws UsageError.
std::vector<std::uint64_t> numbers_of_ranks(const CommandLine& line, std::uint64_t otherwise) {
  const auto found = line.settings.find("ranks");
  if (found == line.settings.end()) return {otherwise};
  std::vector<std::uint64_t> numbers;
  for (const std::string_view number : split(found->second, ',')) {
    const std::uint64_t ranks = positive_count("ranks", std::string(number));
    if (std::ranges::count(numbers, ranks) > 0) {
      throw UsageError(fmt::format("--ranks: {} is listed twice: leave one out", ranks));
    }
    numbers.push_back(ranks);
  }
  return numbers;
}

/// The launches that a dry run plans; none without --dry-run. Throws UsageError if a value is not
/// possible, or if --ranks or --gpus-per-node is given without --dry-run.
std::vector<measure::PlannedRanks> planned_launches(const CommandLine& line) {
  if (!line.switches.contains("dry-run")) {
    if (line.settings.empty()) return {};
    throw UsageError(fmt::format(
        "--{} is only for dry runs: pass --dry-run too, or leave it out, since mpirun or srun sets "
        "the number of ranks",
        line.settings.begin()->first));
  }
  const auto launched = ranks::launched().value_or(ranks::Launched{1, 1, ""});
  const bool is_given = line.settings.contains("gpus-per-node");
  std::vector<measure::PlannedRanks> launches;
  for (const std::uint64_t ranks : numbers_of_ranks(line, launched.ranks)) {
    const bool is_launched = ranks == launched.ranks;
    const std::uint64_t on_host = is_launched ? launched.ranks_on_host : default_ranks_on_host;
    launches.push_back(
        {.ranks = ranks,
         .ranks_on_host = std::min(ranks, positive_count(line, "gpus-per-node", on_host)),
         .why_hosts = is_given      ? "from --gpus-per-node"
                      : is_launched ? "as the launcher has started them"
                                    : "assumed; --gpus-per-node sets the number on each host",
         .assumes_hosts = !is_given && !is_launched});
  }
  return launches;
}

/// The INI file of a scaling study that the command line names; empty if there is none.
std::string study_of(const CommandLine& line) {
  for (const std::string& word : line.words) {
    if (word.ends_with(".ini") && has_section(word, "scale")) return word;
  }
  return {};
}

/// The arguments of `run` besides its options.
struct Request {
  fs::path ini;                            ///< the INI file that they name; or empty
  std::vector<measure::PlannedRanks> dry;  ///< the launches of a dry run; empty for a run
  Printing printing = Printing::text;
};

/// Sets `request` to the other arguments.
Options parse(const Arguments& arguments, const char* const* environment, Request& request) {
  CommandLine line = all_options().parse_command_line(arguments, switches_of_run, settings_of_run);
  if (auto rates = line.settings.extract("rates")) {
    line.values["measure.rates"] = std::move(rates.mapped());
  }
  request.printing = printing_of(line);
  request.dry = planned_launches(line);
  const bool is_dry = !request.dry.empty();
  const std::string study = study_of(line);
  if (!is_dry && !study.empty()) {
    throw UsageError(
        fmt::format("'{}' describes a scaling study (it has a section [scale]): start it with "
                    "shardstream scale {}, or plan a run of exactly its data with --dry-run "
                    "--ranks N",
                    study, shell_line({study})));
  }
  const OptionTable table = !study.empty() ? scale::with_run_defaults(scale_table())
                            : is_dry       ? scale_table()
                                           : all_options();
  Options options = resolve_workload("run", table, std::move(line), environment, request.ini);
  constexpr std::array<std::string_view, 1> dry_run_keys = {"measure.rates"};
  reject_options_of_other_workloads(options, is_dry
                                                 ? std::span<const std::string_view>(dry_run_keys)
                                                 : std::span<const std::string_view>());
  return options;
}

/// A warning if the INI file describes a weak study and its data are not those of all launches.
std::string warning_of_weak_study(const Options& options, const Request& request) {
  const fs::path& ini = request.ini;
  if (ini.empty() || !has_section(ini, "scale") || options.text("scale.mode") != "weak") return {};
  const std::string& sizes = options.text("scale.ranks");
  const std::uint64_t smallest = sizes.empty() ? 0 : scale::parse_ranks(sizes).front();
  const auto has_data = [&](const measure::PlannedRanks& launch) {
    return launch.ranks == smallest;
  };
  if (std::ranges::all_of(request.dry, has_data)) return {};
  return fmt::format(
      "'{}' describes a weak study, but a dry run does not increase the data with the ranks: for "
      "the prediction of each size, run shardstream scale {} --list",
      ini.string(), shell_line({ini.string()}));
}

/// A dry run.
void plan(const Options& options, const Request& request) {
  Log log;
  for (const std::string& warning : options.warnings()) log.warn(warning);
  const std::string weak = warning_of_weak_study(options, request);
  if (!weak.empty()) log.warn(weak);
  std::vector<execution::DryRun> runs;
  for (const measure::PlannedRanks& launch : request.dry) {
    runs.push_back(execution::dry_run(options, launch, log));
  }
  if (request.printing != Printing::none) {
    print_output(execution::to_output(runs, request.printing));
  }
}

int run(const Arguments& arguments, const char* const* environment) {
  Request request;
  if (std::ranges::find(arguments, "--dry-run") != arguments.end()) {
    // All processes of a launcher would print the same text and errors: only the first one does.
    if (ranks::launched_rank().value_or(0) != 0) return static_cast<int>(ExitCode::done);
    plan(parse(arguments, environment, request), request);
    return static_cast<int>(ExitCode::done);
  }
  return in_session(
      [&] { return parse(arguments, environment, request); },
      [&](const ranks::Session& session, const Options& options, Log& log) {
        if (request.printing == Printing::none) log.omit_information();
        execution::run_workload(
            session, options, log,
            {"shardstream run " + shell_line(arguments), request.ini, request.printing});
        return ExitCode::done;
      },
      "use a smaller --pipeline.gpu-memory, smaller slots or batches, or fewer ranks per host");
}

/// Describes the options of one workload, and lists the names of the options of every run.
std::string help_of(const workloads::Workload& workload) {
  const OptionTable table = all_options();
  std::vector<std::string_view> own = workload.honours, common;
  for (const auto& section : workload.options) {
    for (const OptionRow& row : section) own.push_back(row.key);
  }
  for (const OptionRow& row : table.rows()) {
    if (!workloads::is_of_some_workload(row.key) && row.key != "run.workload")
      common.push_back(row.key);
  }
  return fmt::format(
      R"(shardstream run {} [OPTIONS]

{}.

  mpirun -np 2 shardstream run {} {}

{}
Options of every run (see shardstream run --help):
{})",
      workload.name, workload.summary, workload.name, workload.example, table.help(own),
      wrapped("  ", fmt::format("--{}", fmt::join(common, " --")), 2));
}

/// One line per workload.
std::string summaries() {
  std::string lines;
  for (const workloads::Workload& workload : workloads::all()) {
    lines += fmt::format("  {:<11} {}\n", workload.name, workload.summary);
  }
  return lines;
}

std::string run_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    if (const auto* const workload = workloads::find(word)) return help_of(*workload);
  }
  return fmt::format(
      R"(shardstream run WORKLOAD|CONFIG.ini [OPTIONS]
shardstream run WORKLOAD|CONFIG.ini --dry-run [--ranks N] [--gpus-per-node G]
                [--rates RESULT.h5] [OPTIONS]

Runs one workload on all ranks and writes its result and timings to one HDF5 file.
Workloads:
{}
  --json            prints the results as one JSON object instead of lines
  --quiet           prints nothing but warnings and errors
  --dry-run         shows the plan, the memory and the predicted time of a run on N ranks,
                    but does not run it; needs neither MPI nor a GPU
  --ranks           the N of a dry run; by default the launcher's number of ranks, else 1.
                    Several, such as 1,2,4,8, give a table of predicted times
  --gpus-per-node   ranks on each host in a dry run; by default as the launcher has them,
                    else as in the result of --rates if it has several hosts, else 8
  --rates           short for --measure.rates: a result file of the same machine; a dry run
                    uses its measured rates and assumes the rates that it lacks

  shardstream run WORKLOAD --help   shows the options of one workload

{})",
      summaries(), options_help(all_options(), IniFile::accepted));
}

}  // namespace

extern const Command about_run = {.name = "run",
                                  .arguments = "WORKLOAD|CONFIG.ini [OPTIONS]",
                                  .summary = "runs one workload on all ranks",
                                  .switches = switches_of_run,
                                  .settings = settings_of_run,
                                  .options = [] { return all_options().rows(); },
                                  .words = workloads::names,
                                  .help = run_help,
                                  .run = run};

}  // namespace shardstream::cli
