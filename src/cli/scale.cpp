#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/workload_arguments.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/formats.hpp"
#include "scale/launch/launcher.hpp"
#include "scale/launch/words.hpp"
#include "scale/program/program_file.hpp"
#include "scale/scale_options.hpp"
#include "scale/study.hpp"
#include "study/laws/prediction.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {

OptionTable scale_table() {
  std::vector<std::span<const OptionRow>> components = {scale::scale_options()};
  const OptionTable run_table = all_options();
  components.emplace_back(run_table.rows());
  return OptionTable(components);
}

namespace {

constexpr std::array<std::string_view, 3> switches_of_scale = {"list", "json", "quiet"};
constexpr std::array<std::string_view, 3> settings_of_scale = {"predict", "only", "rates"};

/// The first word of the arguments that is neither an option nor its value; empty if there is none.
std::string first_word(const OptionTable& table, const Arguments& arguments) {
  const auto takes = [&](std::string_view word, const std::string& next) {
    if (word == "-o") return true;
    if (!word.starts_with("--") || word.find('=') != word.npos) return false;
    word.remove_prefix(2);
    const auto row = std::ranges::find(table.rows(), word, &OptionRow::key);
    if (row != table.rows().end()) {
      return row->kind != OptionKind::flag || next == "true" || next == "false";
    }
    return std::ranges::find(settings_of_scale, word) != settings_of_scale.end();
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i + 1 < arguments.size() && takes(arguments[i], arguments[i + 1])) {
      ++i;
    } else if (!arguments[i].starts_with('-')) {
      return arguments[i];
    }
  }
  return {};
}

/// Throws UsageError if the first word of arguments without -- is likely to be a program.
void reject_program_without_dashes(const OptionTable& table, const Arguments& arguments) {
  const std::string word = first_word(table, arguments);
  if (word.empty() || word.ends_with(".ini") || names_data(word) || workloads::find(word)) return;
  const std::string program = scale::program::likely_program(word);
  if (program.empty()) return;
  throw UsageError(
      fmt::format("scale: {} is neither a workload nor a configuration file (NAME.ini): to study a "
                  "program, write -- before it, as in shardstream scale --scale.ranks 1,2 -- {}",
                  excerpt(word), shell_line({program})));
}

/// Warns of options of `scale` among the words after --.
void warn_of_options_after_dashes(const Arguments& arguments, Log& log) {
  for (auto word = std::ranges::find(arguments, "--"); word != arguments.end(); ++word) {
    const std::string option = word->substr(0, word->find('='));
    for (const OptionRow& row : scale::scale_options()) {
      if (option != fmt::format("--{}", row.key)) continue;
      return log.warn(fmt::format(
          "{} after -- is passed to the program: write options of scale before --", option));
    }
  }
}

/// The command line. The words after -- become scale.command.
CommandLine parse_scale(const OptionTable& table, const Arguments& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes == arguments.end()) reject_program_without_dashes(table, arguments);
  CommandLine line =
      table.parse_command_line({arguments.begin(), dashes}, switches_of_scale, settings_of_scale);
  if (dashes == arguments.end()) return line;
  const Arguments command(dashes + 1, arguments.end());
  if (command.empty()) {
    throw UsageError("there is no command after --: name the program to study and its arguments");
  }
  line.values["scale.command"] = scale::command_line_of(command);
  return line;
}

/// The options of the study of a workload or, if there is a scale.command, of this command.
Options resolve_study(const OptionTable& table, CommandLine line, const char* const* environment) {
  std::optional<std::filesystem::path> ini;
  if (line.words.size() == 1 && line.words[0].ends_with(".ini")) ini = line.words[0];
  const Options options = table.resolve(line, environment, ini);
  if (options.text("scale.command").empty()) {
    std::filesystem::path file;
    const Options of_workload =
        resolve_workload("scale", table, std::move(line), environment, file);
    reject_options_of_other_workloads(of_workload, {});
    return of_workload;
  }
  if (!ini && !line.words.empty()) {
    throw UsageError(fmt::format(
        "scale studies a workload or a command, not both: leave out {}, or the command {} (after "
        "--, or in scale.command)",
        excerpt(line.words[0]), excerpt(options.text("scale.command"))));
  }
  constexpr std::array<std::string_view, 2> own = {"scale", "output.file"};
  reject_options_of_run(options, "scale -- COMMAND", own, {}, {});
  return options;
}

/// The serial shares in a list with commas. Throws UsageError.
std::vector<double> serial_shares(const std::string& list) {
  std::vector<double> shares;
  for (const std::string_view word : split(list, ',')) {
    double share = 0;
    try {
      share = parse_number(trim(word));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--predict {}: {}", list, error.what()));
    }
    if (!(share >= 0 && share <= 1)) {
      throw UsageError(fmt::format(
          "--predict {}: {} is not a serial share: give numbers from 0 to 1", list, word));
    }
    if (std::ranges::count(shares, share) > 0) {
      throw UsageError(fmt::format("--predict {}: {} is listed twice: leave one out", list, share));
    }
    shares.push_back(share);
  }
  return shares;
}

/// Throws UsageError if a command line of --predict has options that launches or files need.
void reject_options_of_launches(const CommandLine& line) {
  std::vector<std::string> others;
  for (const auto& [name, value] : line.settings) {
    if (name != "predict") others.push_back("--" + name);
  }
  for (const std::string& name : line.switches) {
    if (name != "json" && name != "quiet") others.push_back("--" + name);
  }
  for (const auto& [key, value] : line.values) {
    if (key != "scale.ranks") others.push_back("--" + key);
  }
  if (others.empty()) return;
  throw UsageError(fmt::format("--predict launches nothing and writes no file: leave out {}",
                               join(others, ", ")));
}

/// The speed-ups that the scaling laws predict for serial shares, without any run.
std::string predicted(const std::string& shares, const OptionTable& table, const CommandLine& line,
                      const char* const* environment, Printing printing) {
  const std::vector<double> serial = serial_shares(shares);
  if (!line.words.empty()) {
    throw UsageError(
        fmt::format("--predict takes no workload: leave out {}", excerpt(line.words[0])));
  }
  reject_options_of_launches(line);
  std::vector<int> ranks;
  for (const auto p :
       scale::parse_ranks(table.resolve(line, environment, std::nullopt).text("scale.ranks"))) {
    ranks.push_back(static_cast<int>(p));
  }
  Table sizes("predicted", {{"serial", ColumnType::real},
                            {"ranks", ColumnType::integer},
                            {"amdahl_speedup", ColumnType::real},
                            {"amdahl_efficiency", ColumnType::real},
                            {"gustafson_speedup", ColumnType::real},
                            {"gustafson_efficiency", ColumnType::real}});
  std::vector<std::string> limits;
  for (const double share : serial) {
    for (const study::PredictedSize& size : study::predict(share, ranks)) {
      sizes.add({share, std::int64_t{size.ranks}, size.amdahl, size.amdahl / size.ranks,
                 size.gustafson, size.gustafson / size.ranks});
    }
    limits.push_back(share > 0 ? fmt::format("at most {:.6g} for {}", 1 / share, share)
                               : fmt::format("unlimited for {}", share));
  }
  if (printing == Printing::none) return {};
  if (printing == Printing::json) return to_json(std::span(&sizes, 1));
  return fmt::format(
      "{}\nAmdahl: fixed work; serial is a part of the time of a run on one rank. The speed-up is "
      "{}.\nGustafson: growing work; serial is a part of the time of the parallel run.\n",
      to_text(sizes), fmt::join(limits, ", "));
}

int scale(const Arguments& arguments, const char* const* environment) {
  const OptionTable table = scale_table(), run_table = all_options();
  CommandLine line = parse_scale(table, arguments);
  const Printing printing = printing_of(line);
  if (const auto share = line.settings.find("predict"); share != line.settings.end()) {
    print_output(predicted(share->second, table, line, environment, printing));
    return static_cast<int>(ExitCode::done);
  }
  scale::reject_many_copies();
  const bool lists = line.switches.contains("list");
  const std::string only = line.settings["only"], rates = line.settings["rates"];
  if (!rates.empty() && !lists) {
    throw UsageError(fmt::format(
        "--rates {} is only for the predictions of --list, and no part of the study: leave it out, "
        "since the study measures its rates, or fix them for all runs with --measure.rates",
        excerpt(rates)));
  }
  const Options options = resolve_study(table, std::move(line), environment);
  Log log;
  for (const std::string& warning : options.warnings()) log.warn(warning);
  warn_of_options_after_dashes(arguments, log);
  const scale::Order order{options, run_table, environment, scale::folder_of(options), only, rates};
  if (printing == Printing::none) log.omit_information();
  if (lists) {
    const scale::StudyList list = scale::list_study(order);
    if (printing != Printing::none) {
      print_output(printing == Printing::json ? to_json(list) : to_text(list));
    }
    return static_cast<int>(ExitCode::done);
  }
  const ExitCode code = scale::run_study(order, log);
  if (code == ExitCode::checkpointed || !only.empty()) return static_cast<int>(code);
  const std::array<std::string, 1> folder = {order.folder.string()};
  const report::Report report = report::make_report(report::result_files(folder));
  if (printing != Printing::none) {
    print_output(printing == Printing::json ? report::to_json(report) : report::to_text(report));
  }
  return code == ExitCode::done ? report::exit_code(report) : static_cast<int>(code);
}

std::string scale_help(const Arguments&) {
  constexpr std::array<std::string_view, 1> sections = {"scale"};
  return fmt::format(
      R"(shardstream scale WORKLOAD|CONFIG.ini --scale.ranks 1,2,4 [OPTIONS] [-o FOLDER]
shardstream scale --scale.ranks 1,2,4 [OPTIONS] [-o FOLDER] -- COMMAND ARGUMENTS...
shardstream scale --predict S,... --scale.ranks 1,2,4

Measures how a workload scales. Launches shardstream run several times at each number of
ranks, in random order, and keeps the results in one folder. One more run of each size
records a timeline for the figures. All options of run are passed on to these runs. Start
scale itself once, without mpirun or srun. The same command again launches only the runs
that are missing.

With -- COMMAND, it launches any other program in the same way, and measures its wall time
or a time that it prints (scale.metric). No shell reads the command:

  shardstream scale --scale.ranks 1,2,4 -o heat/ -- ./heat 4096
  shardstream scale --scale.ranks 1,2,4 -o sum/ --scale.launcher none -- ./sum -j {{ranks}}

  --list      lists the missing launches with names, predicted times and commands, their
              node-hours and GPU-hours, and suggests a time limit for jobs. A shell can run
              this list
  --rates FILE with --list: predicts with the rates that the result FILE has measured, until
              the calibration run exists; it does not become part of the study
  --only NAME does one launch of that list (calibration first), so that each can be a job
              of its own; several jobs may run at the same time
  --predict S,...
              shows the speed-ups of Amdahl's and Gustafson's laws for one or more serial
              shares S from 0 to 1, such as 0.05,10%, and launches nothing
  --json      prints the report, or the list, as one JSON object
  --quiet     prints nothing but warnings and errors

{})",
      options_help(scale_table(), IniFile::accepted, sections));
}

}  // namespace

extern const Command about_scale = {.name = "scale",
                                    .arguments = "[OPTIONS] WORKLOAD|-- COMMAND",
                                    .summary = "runs a scaling study, also of any program",
                                    .switches = switches_of_scale,
                                    .settings = settings_of_scale,
                                    .options = [] { return scale_table().rows(); },
                                    .words = workloads::names,
                                    .help = scale_help,
                                    .run = scale};

}  // namespace shardstream::cli
