#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/commands.hpp"
#include "comm/transport.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "experiments/bench_session.hpp"
#include "experiments/catalogue.hpp"
#include "experiments/helper_processes.hpp"
#include "io/hdf5/result_file.hpp"
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::cli {

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
  const auto parsed_line = [&] { return table.parse_command_line(arguments, switches_of_bench); };
  if (std::ranges::find(arguments, "--list") != arguments.end()) {
    const CommandLine line = parsed_line();
    if (!line.words.empty()) {
      throw UsageError(fmt::format("--list runs nothing: leave out {}", excerpt(line.words[0])));
    }
    print_output(experiments::list(printing_of(line)));
    return static_cast<int>(ExitCode::done);
  }
  if (!arguments.empty() && arguments[0] == "help") {
    const CommandLine line = parsed_line();
    if (line.words.size() != 2) {
      throw UsageError(
          "bench help needs the name of one experiment, as in shardstream bench help stride: see "
          "shardstream bench --list for all names");
    }
    print_output(experiments::help(experiments::named(line.words[1])));
    return static_cast<int>(ExitCode::done);
  }
  std::vector<const experiments::Experiment*> selected;
  experiments::BenchRequest request{.experiments = {}, .command_line = {}};
  return in_session(
      [&] {
        const CommandLine line = parsed_line();
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
