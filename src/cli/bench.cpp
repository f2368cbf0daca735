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
#include "experiments/axes.hpp"
#include "experiments/bench_session.hpp"
#include "experiments/catalogue.hpp"
#include "experiments/code.hpp"
#include "experiments/helper_processes.hpp"
#include "experiments/predictions.hpp"
#include "experiments/search.hpp"
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

namespace {

constexpr std::array<std::string_view, 5> switches_of_bench = {"list", "code", "quick", "json",
                                                               "quiet"};
constexpr std::array<std::string_view, 4> settings_of_bench = {"axis", "from", "predict", "search"};
/// The options that `bench` accepts in addition to the options of its experiments.
constexpr std::array<std::string_view, 11> common_options_of_bench = {
    "measure.warmup",   "measure.repeat",    "measure.precision",
    "measure.max-time", "measure.telemetry", "measure.telemetry-interval",
    "output.file",      "output.overwrite",  "launch",
    "device",           "comm.timeout"};

/// The keys and sections of all options that `bench` accepts.
std::vector<std::string_view> options_of_bench() {
  std::vector<std::string_view> own(common_options_of_bench.begin(), common_options_of_bench.end());
  for (const auto* experiment : experiments::all()) own.push_back(experiment->name);
  return own;
}

std::vector<std::string_view> names_of_bench() {
  std::vector<std::string_view> names = experiments::names();
  names.insert(names.begin() + 1, "help");
  return names;
}

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
        fmt::format("{} measures nothing: leave out --{}{}", command, name,
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

/// The arguments with --predict=ask for a --predict that no value follows: the next word is an
/// option or a name.
Arguments with_question_asked(const Arguments& arguments) {
  Arguments result = arguments;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "--";
    const bool asks = next.starts_with("--") || experiments::find(next) != nullptr;
    if (arguments[i] == "--predict" && asks) result[i] += "=ask";
  }
  return result;
}

/// The arguments with one --axis, which has the values of all, separated by semicolons.
Arguments with_one_axis(const Arguments& arguments) {
  constexpr std::string_view name = "--axis";
  Arguments result;
  std::optional<std::string> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool has_next = arguments[i] == name && i + 1 < arguments.size();
    if (has_next || arguments[i].starts_with(std::string(name) + '=')) {
      values = (values ? *values + ';' : "") +
               (has_next ? arguments[++i] : arguments[i].substr(name.size() + 1));
    } else {
      result.push_back(arguments[i]);
    }
  }
  if (values) result.push_back(fmt::format("{}={}", name, *values));
  return result;
}

/// The value of --axis, checked against the selected experiments; empty without it.
std::string axes_of(const CommandLine& line,
                    std::span<const experiments::Experiment* const> selected,
                    const Options& options) {
  const auto given = line.settings.find("axis");
  if (given == line.settings.end()) return {};
  experiments::check_choices(experiments::axis_choices(given->second), selected, options);
  return given->second;
}

/// The predictions of --predict; empty without it. Asks on standard error and reads standard
/// input, unless the command line has the numbers. `basis` says what the results come from.
std::vector<double> predictions_of(const CommandLine& line,
                                   std::span<const experiments::Experiment* const> selected,
                                   std::string_view basis = {}) {
  const auto given = line.settings.find("predict");
  if (given == line.settings.end()) return {};
  if (selected.size() != 1) {
    throw UsageError(fmt::format("--predict takes one experiment, but {} are chosen: name one",
                                 selected.size()));
  }
  if (printing_of(line) != Printing::text) {
    throw UsageError("--predict prints text: leave out --json and --quiet");
  }
  if (given->second != "ask") return experiments::predictions_of(*selected[0], given->second);
  if (ranks::under_launcher()) {
    throw UsageError(
        "--predict cannot ask under a launcher: give the numbers, as in --predict 4,2");
  }
  return experiments::ask_for_predictions(*selected[0], basis);
}

/// For --from: the tables of a file, and the comparison with predictions.
std::string text_of_file(const CommandLine& line) {
  if (line.switches.contains("json")) {
    throw UsageError("--from prints text: write shardstream report FILE --json for JSON");
  }
  reject_ignored(line, "--from", {"from", "predict"});
  const auto selected = experiments::select(line.words);
  std::vector<experiments::FileResult> results;
  for (const experiments::Experiment* each : selected) {
    results.push_back(experiments::result_in(line.settings.at("from"), *each));
  }
  const std::vector<double> predictions = predictions_of(line, selected, results[0].basis);
  return join(results, "\n", [&](const experiments::FileResult& each) {
    const auto& [result, basis] = each;
    const std::string text =
        experiments::text_of(result, *experiments::find(result.name), predictions);
    return basis.empty() ? text : fmt::format("Measured on {}.\n{}", printable(basis), text);
  });
}

int bench(const Arguments& arguments, const char* const* environment) {
  const OptionTable table = bench_table();
  const auto parsed_line = [&] {
    return table.parse_command_line(with_question_asked(with_one_axis(arguments)),
                                    switches_of_bench, settings_of_bench);
  };
  if (reads_texts(arguments)) {
    print_output(text_of_catalogue(parsed_line()));
    return static_cast<int>(ExitCode::done);
  }
  const bool reads_file = std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--from" || argument.starts_with("--from=");
  });
  if (reads_file) {
    print_output(text_of_file(parsed_line()));
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
                   .printing = printing_of(line),
                   .predictions = predictions_of(line, selected)};
        Options options = table.resolve(line, environment, std::nullopt);
        reject_options_of_run(options, "bench", options_of_bench(), {}, {});
        experiments::reject_options_of_others(options, selected);
        experiments::reject_missing_files(options, line.words);
        request.axes = axes_of(line, selected, options);
        return options;
      },
      [&](const ranks::Session& session, const Options& options, Log& log) {
        if (request.printing == Printing::none) log.omit_information();
        return experiments::run_experiments(session, options, log, request);
      },
      "start fewer ranks per host");
}

std::string bench_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    if (const auto* const found = experiments::find(word)) return experiments::help(*found);
  }
  return fmt::format(
      R"(shardstream bench NAME...|GROUP...|all [--quick] [-o FILE.h5] [OPTIONS]
shardstream bench NAME --predict [NUMBER,...] [--from FILE.h5] [OPTIONS]
shardstream bench NAME...|GROUP...|all --from FILE.h5
shardstream bench --list
shardstream bench --search WORD
shardstream bench help NAME...|GROUP...|all [--code]

Runs experiments of the catalogue, each on the GPUs of all ranks at the same time. An
experiment measures a technique of the CUDA guides, with it and without, checks results,
and prints a table with one line per case: the measured value with its 95 % confidence
interval, its share, and a remark. The share is the value divided by a reference: a
ceiling that the same run has measured, or another case. The line `share` names the
reference. The column `expected` has the value that follows from ceilings and the case. If a
rank is slower than the others, its number is shown.

  --list      lists the experiments by group
  --search    lists the experiments with a sentence, an option or a section of a guide that has
              all words, such as coalesced or "shared memory"
  help NAME   explains an experiment: its question, variables, expectations and pitfalls, with
              links to guides and its options; with --code, prints its kernels
  --predict   takes your predictions for the exercise of the experiment, or asks for them, and
              shows them beside the expected and the measured values
  --from      takes the results of a file of bench, and measures nothing; needs no GPU
  --axis A=V,...
              measures only these values of an axis, which help NAME lists, as in --axis stride=2,8
              or --axis bytes=4KiB..1MiB*4; repeat it for other axes, or write EXPERIMENT.AXIS
  --quick     measures fewer and smaller cases for a shorter time
  -o          writes all tables to one file, for shardstream report; the file is updated
              after each experiment
  --json      prints one JSON object at the end instead of tables
  --quiet     prints nothing but warnings and errors

Exit codes: 0 done, even if experiments were not available here; 1 an experiment failed;
2 fix the command, for example a size beyond the memory; 3 a result was wrong. The tables
of the other experiments are kept. If several experiments failed, 3 comes before 1, and 1
before 2.

{})",
      options_help(bench_table(), IniFile::rejected, common_options_of_bench));
}

}  // namespace

extern const Command about_bench = {
    .name = "bench",
    .arguments = "NAME...|all [OPTIONS]",
    .summary = "measures CUDA techniques on your GPUs",
    .switches = switches_of_bench,
    .settings = settings_of_bench,
    .options = [] { return rows_of(bench_table(), options_of_bench()); },
    .words = names_of_bench,
    .help = bench_help,
    .run = bench};

int bench_helper(const Arguments& arguments) {
  if (arguments.size() != 1) {
    throw UsageError(
        fmt::format("{} needs the name of one experiment: see shardstream bench --list",
                    experiments::helper_command));
  }
  return static_cast<int>(experiments::run_as_helper(experiments::named(arguments[0])));
}

}  // namespace shardstream::cli
