#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "comm/transport.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "experiments/bench_session.hpp"
#include "experiments/catalogue.hpp"
#include "experiments/code.hpp"
#include "experiments/helper_processes.hpp"
#include "experiments/search.hpp"
#include "io/hdf5/result_file.hpp"
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::cli {

namespace {

/// Whether the command prints texts of the catalogue, and starts neither MPI nor CUDA.
bool reads_texts(const Arguments& arguments) {
  return (!arguments.empty() && arguments[0] == "help") ||
         std::ranges::any_of(arguments, [](const std::string& argument) {
           return argument == "--list" || argument == "--search" ||
                  argument.starts_with("--search=");
         });
}

void reject_code(const CommandLine& line) {
  if (line.switches.contains("code")) {
    throw UsageError("--code belongs to bench help: write shardstream bench help NAME --code");
  }
}

/// Throws UsageError if the command line of `command`, which only prints texts, has more than the
/// `own` switches and settings.
void reject_ignored(const CommandLine& line, std::string_view command,
                    std::initializer_list<std::string_view> own) {
  const auto reject = [&](const auto& name) {
    if (std::ranges::find(own, name) != own.end()) return;
    throw UsageError(
        fmt::format("{} prints texts and measures nothing: leave out --{}{}", command, name,
                    name == "json" ? ", or write shardstream bench --list --json" : ""));
  };
  for (const auto& name : line.switches) reject(name);
  for (const auto& [name, value] : line.settings) reject(name);
  for (const auto& [key, value] : line.values) reject(key);
}

/// The explanations of experiments, or their code.
std::string help_of(std::span<const std::string> names, bool as_code) {
  if (names.empty()) {
    throw UsageError(
        "bench help needs names of experiments or groups, or all, as in shardstream bench help "
        "stride: see shardstream bench --list for all names");
  }
  return join(experiments::select(names), "\n\n", [&](const experiments::Experiment* each) {
    return as_code ? experiments::code_text(*each) : experiments::help(*each);
  });
}

/// For --list, --search and help.
std::string text_of_catalogue(const CommandLine& line) {
  const auto searched = line.settings.find("search");
  const bool is_list = line.switches.contains("list"), is_search = searched != line.settings.end();
  if (!is_list && !is_search) {
    reject_ignored(line, "bench help", {"code"});
    return help_of(std::span(line.words).subspan(1), line.switches.contains("code"));
  }
  reject_code(line);
  if (is_list && is_search) throw UsageError("--list and --search exclude each other: give one");
  if (!line.words.empty()) {
    throw UsageError(fmt::format("{} runs nothing: leave out {}", is_list ? "--list" : "--search",
                                 excerpt(line.words[0])));
  }
  reject_ignored(line, is_list ? "--list" : "--search", {"list", "search", "json", "quiet"});
  return is_list ? experiments::list(printing_of(line))
                 : experiments::search(searched->second, printing_of(line));
}

}  // namespace

OptionTable bench_table() {
  std::vector<std::span<const OptionRow>> groups = {
      ranks::launch_options(),    runtime::device_options(),    comm::comm_options(),
      measure::measure_options(), measure::telemetry_options(), io::output_options()};
  const auto of_experiments = experiments::options();
  groups.insert(groups.end(), of_experiments.begin(), of_experiments.end());
  return OptionTable(groups).with(experiments::bench_options());
}

int bench(const Arguments& arguments, const char* const* environment) {
  const OptionTable table = bench_table();
  const auto parsed_line = [&] {
    return table.parse_command_line(arguments, switches_of_bench, settings_of_bench);
  };
  if (reads_texts(arguments)) {
    print_output(text_of_catalogue(parsed_line()));
    return static_cast<int>(ExitCode::done);
  }
  std::vector<const experiments::Experiment*> selected;
  experiments::BenchRequest request{.experiments = {}, .command_line = {}};
  return in_session(
      [&] {
        const CommandLine line = parsed_line();
        reject_code(line);
        selected = experiments::select(line.words);
        request = {.experiments = selected,
                   .quick = line.switches.contains("quick"),
                   .command_line = "shardstream bench " + shell_line(arguments),
                   .printing = printing_of(line)};
        Options options = table.resolve(line, environment, std::nullopt);
        std::vector<std::string_view> own(options_of_bench.begin(), options_of_bench.end());
        for (const auto* experiment : experiments::all()) own.push_back(experiment->name);
        reject_options_of_run(options, "bench", own, {}, {});
        experiments::reject_options_of_others(options, selected);
        experiments::reject_missing_files(options, line.words);
        return options;
      },
      [&](const ranks::Session& session, const Options& options, Log& log) {
        if (request.printing == Printing::none) log.omit_information();
        return experiments::run_experiments(session, options, log, request);
      },
      "start fewer ranks per host");
}

int bench_helper(const Arguments& arguments) {
  if (arguments.size() != 1) {
    throw UsageError(
        fmt::format("{} needs the name of one experiment: see shardstream bench --list",
                    experiments::helper_command));
  }
  return static_cast<int>(experiments::run_as_helper(experiments::named(arguments[0])));
}

}  // namespace shardstream::cli
