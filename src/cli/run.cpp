#include <fmt/format.h>

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
#include "execution/run.hpp"
#include "ranks/session.hpp"
#include "scale/options.hpp"
#include "scale/study_options.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

/// Words of the command line that are not options of the table. `rates` is short for measure.rates;
/// the others are for a dry run.
constexpr std::array<std::string_view, 1> switches = {"dry-run"};
constexpr std::array<std::string_view, 3> settings = {"ranks", "gpus-per-node", "rates"};
constexpr std::uint64_t default_ranks_on_host = 8;

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
  throw UsageError(fmt::format("--{}: {} is not possible: give a number of ranks from 1 to 2^32-1",
                               name, found->second));
}

/// The ranks of a dry run; nothing without --dry-run. Throws UsageError if a value is not
/// possible, or if --ranks or --gpus-per-node is given without --dry-run.
std::optional<measure::PlannedRanks> planned_ranks(const CommandLine& line) {
  if (!line.switches.contains("dry-run")) {
    if (line.settings.empty()) return std::nullopt;
    throw UsageError(fmt::format(
        "--{} is only for dry runs: pass --dry-run too, or leave it out, since mpirun or srun sets "
        "the number of ranks",
        line.settings.begin()->first));
  }
  measure::PlannedRanks planned;
  const auto launched = ranks::launched().value_or(ranks::Launched{1, 1, ""});
  planned.ranks = positive_count(line, "ranks", launched.ranks);
  const bool is_launched = planned.ranks == launched.ranks;
  const std::uint64_t on_host = is_launched ? launched.ranks_on_host : default_ranks_on_host;
  planned.ranks_on_host = std::min(planned.ranks, positive_count(line, "gpus-per-node", on_host));
  const bool is_given = line.settings.contains("gpus-per-node");
  planned.assumes_hosts = !is_given && !is_launched;
  planned.why_hosts = is_given      ? "from --gpus-per-node"
                      : is_launched ? "as the launcher has started them"
                                    : "assumed; --gpus-per-node sets the number on each host";
  return planned;
}

/// The INI file of a scaling study that the command line names; empty if there is none.
std::string study_of(const CommandLine& line) {
  for (const std::string& word : line.words) {
    if (word.ends_with(".ini") && has_section(word, "scale")) return word;
  }
  return {};
}

/// Sets `ini` to the INI file that the arguments name, and `dry` to the ranks of a dry run, if
/// it is one.
Options parse(const Arguments& arguments, const char* const* environment, fs::path& ini,
              std::optional<measure::PlannedRanks>& dry) {
  CommandLine line = all_options().parse_command_line(arguments, switches, settings);
  if (auto rates = line.settings.extract("rates")) {
    line.values["measure.rates"] = std::move(rates.mapped());
  }
  dry = planned_ranks(line);
  const std::string study = study_of(line);
  if (!dry && !study.empty()) {
    throw UsageError(
        fmt::format("'{}' describes a scaling study (it has a section [scale]): start it with "
                    "shardstream scale {}, or plan a run of exactly its data with --dry-run "
                    "--ranks N",
                    study, shell_line({study})));
  }
  const OptionTable table = !study.empty() ? scale::with_run_defaults(scale_table())
                            : dry          ? scale_table()
                                           : all_options();
  Options options = resolve_workload("run", table, std::move(line), environment, ini);
  constexpr std::array<std::string_view, 1> dry_run_keys = {"measure.rates"};
  reject_options_of_other_workloads(options, dry ? std::span<const std::string_view>(dry_run_keys)
                                                 : std::span<const std::string_view>());
  return options;
}

/// A warning if the file `ini` describes a weak study and its data are not those of `ranks` ranks.
std::string warning_of_weak_study(const fs::path& ini, const Options& options,
                                  std::uint64_t ranks) {
  if (ini.empty() || !has_section(ini, "scale") || options.text("scale.mode") != "weak") return {};
  const std::string& sizes = options.text("scale.ranks");
  if (!sizes.empty() && scale::parse_ranks(sizes).front() == ranks) return {};
  return fmt::format(
      "'{}' describes a weak study, but a dry run does not increase the data with the ranks: for "
      "the prediction of each size, run shardstream scale {} --list",
      ini.string(), shell_line({ini.string()}));
}

}  // namespace

int run(const Arguments& arguments, const char* const* environment) {
  fs::path ini;
  std::optional<measure::PlannedRanks> dry;
  if (std::ranges::find(arguments, "--dry-run") != arguments.end()) {
    // All processes of a launcher would print the same text and errors: only the first one does.
    if (!ranks::first_of_launcher()) return static_cast<int>(ExitCode::done);
    const Options options = parse(arguments, environment, ini, dry);
    Log log;
    for (const std::string& warning : options.warnings()) log.warn(warning);
    if (dry) {
      const std::string weak = warning_of_weak_study(ini, options, dry->ranks);
      if (!weak.empty()) log.warn(weak);
      print_output(execution::dry_run(options, *dry, log));
    }
    return static_cast<int>(ExitCode::done);
  }
  return in_session(
      [&] { return parse(arguments, environment, ini, dry); },
      [&](const ranks::Session& session, const Options& options, Log& log) {
        execution::run_workload(session, options, log,
                                {"shardstream run " + shell_line(arguments), ini});
        return ExitCode::done;
      },
      "use a smaller --pipeline.gpu-memory, smaller slots or batches, or fewer ranks per host");
}

}  // namespace shardstream::cli
