#include "scale/scale_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "scale/launch/words.hpp"
#include "study_folder/names.hpp"

namespace shardstream::scale {
namespace {

const std::string replicates_range = fmt::format("1..{}", study_folder::max_replicates);

const std::array rows = {
    OptionRow{"scale.ranks", OptionKind::text, "", "",
              "The numbers of ranks to measure, such as 1,2,4,8."},
    OptionRow{"scale.mode", OptionKind::choice, "strong", "strong|weak",
              "strong keeps the total work constant; weak keeps the work per rank constant."},
    OptionRow{
        "scale.replicates", OptionKind::count, "3", replicates_range,
        "Number of launches at each number of ranks; confidence intervals need at least two."},
    OptionRow{
        "scale.launcher", OptionKind::text, "auto", "",
        "The command that starts the ranks. {ranks}, {nodes}, {per-node} and {cpus} in it are "
        "replaced by numbers. Quotes keep words together; no shell reads the command. auto is srun "
        "inside a Slurm job, else mpirun; none starts one process without a launcher."},
    OptionRow{
        "scale.command", OptionKind::text, "", "",
        "The program to study in place of a workload, with its arguments; instead of this option, "
        "write -- and the command as the last words. It is read like scale.launcher. Its keys are "
        "also {replicate}, {name} (of the launch, such as p4-r2) and {folder} (of the study)."},
    OptionRow{
        "scale.environment", OptionKind::text, "", "",
        "Environment variables for the program of scale.command, as words KEY=VALUE with the same "
        "keys, such as 'OMP_NUM_THREADS={cpus}'."},
    OptionRow{
        "scale.metric", OptionKind::text, "wall", "",
        "The time of a launch of scale.command: wall, from the start of the program to the end of "
        "the launcher; or NAME=re:REGEX, the number in the group (...) of a regular expression "
        "that matches once on standard output. It is in seconds, or in the unit after a last "
        "colon: ns, us, ms, s, min or h, as in 'loop=re:loop took ([0-9.]+):ms'."},
    OptionRow{
        "scale.expect", OptionKind::text, "", "",
        "A regular expression that a line of the standard output of scale.command must match; "
        "otherwise the launch has failed. Without one, results are unchecked."},
    OptionRow{
        "scale.ranks-per-node", OptionKind::count, "auto", "auto|1..",
        "Ranks on each node, for {per-node}, {nodes} and predictions. auto is the number of tasks "
        "per node under Slurm. Elsewhere mpirun decides; before the calibration run, predictions "
        "assume the ranks per node of --rates, else one node."},
    OptionRow{"scale.oversubscribe", OptionKind::flag, "false", "",
              "Whether mpirun may start more ranks than there are cores; for tests, not for "
              "measurements."},
    OptionRow{"scale.timeout", OptionKind::duration, "auto", "auto|1s..",
              "The maximum time of one launch; auto is ten times the predicted time (with "
              "measure.repeat auto including measure.max-time) plus five minutes."},
    OptionRow{
        "scale.cache", OptionKind::choice, "warm", "warm|cold",
        "warm reads the input files into the page cache before each launch; cold drops them from "
        "it."},
    OptionRow{
        "scale.grow", OptionKind::text, "auto", "",
        "The dimension that weak scaling increases; auto is the workload's default. For a "
        "product of two matrices: m, n, k, or sizes (all three, the default). Prefer m: ranks "
        "then have equally many tiles."},
    OptionRow{"scale.seed", OptionKind::count, "1", "",
              "The seed of the random order of the launches."},
    OptionRow{"scale.timeline", OptionKind::flag, "true", "",
              "Whether each size gets one more run that records a timeline for the figures: one "
              "launch with a warm-up and one repetition, whose time is not part of the "
              "statistics."},
};

}  // namespace

std::span<const OptionRow> scale_options() {
  return rows;
}

std::vector<std::uint64_t> parse_ranks(std::string_view text) {
  constexpr std::uint64_t max = 1 << 24;
  std::vector<std::uint64_t> ranks;
  if (trim(text).empty()) {
    throw UsageError(
        "scale.ranks is empty: name the numbers of ranks to measure (--scale.ranks 1,2,4)");
  }
  for (const std::string_view word : split(text, ',')) {
    std::uint64_t count = 0;
    try {
      count = parse_count(trim(word));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format(
          "scale.ranks: {}; scale.ranks is a list with commas, for example 1,2,3,4", error.what()));
    }
    if (count == 0 || count > max) {
      throw UsageError(
          fmt::format("scale.ranks: {} is not a number of ranks: give 1 to {}", word, max));
    }
    ranks.push_back(count);
  }
  std::ranges::sort(ranks);
  const auto twice = std::ranges::adjacent_find(ranks);
  if (twice != ranks.end()) {
    throw UsageError(fmt::format("scale.ranks: {} is listed twice: leave one out", *twice));
  }
  return ranks;
}

namespace {

/// KEY=VALUE for each variable. Throws UsageError for a word that is none.
std::vector<std::string> variables_of(const Options& options) {
  constexpr std::string_view option = "scale.environment";
  std::vector<std::string> variables = command_words(option, options.text(option));
  for (const std::string& variable : variables) {
    const auto end = variable.find('=');
    if (end != variable.npos && end > 0) continue;
    throw UsageError(fmt::format("{}: {} is not KEY=VALUE: write for example OMP_NUM_THREADS=2",
                                 option, excerpt(variable)));
  }
  return variables;
}

/// Throws UsageError for options that only a program or only a workload takes.
void check_scope(const Options& options, bool is_program) {
  using Keys = std::vector<std::string_view>;
  const Keys of_others = is_program ? Keys{"scale.grow", "scale.cache", "scale.timeline"}
                                    : Keys{"scale.environment", "scale.metric", "scale.expect"};
  for (const std::string_view key : of_others) {
    if (options.is_default(key)) continue;
    throw UsageError(fmt::format("{} is for studies of {}: leave it out", key,
                                 is_program ? "workloads, not of a command"
                                            : "a command (scale.command), not of workloads"));
  }
}

ProgramRequest program_of(const Options& options) {
  constexpr std::string_view command = "scale.command", metric = "scale.metric";
  ProgramRequest program{.command = command_words(command, options.text(command))};
  check_scope(options, !program.command.empty());
  program.environment = variables_of(options);
  if (!options.is_default(metric)) program.metric = program::parse_metric(options.text(metric));
  program.expect = options.text("scale.expect");
  if (!program.expect.empty()) program::check_regex("scale.expect", program.expect);
  return program;
}

}  // namespace

StudyRequest request_of(const Options& options) {
  StudyRequest request{.ranks = parse_ranks(options.text("scale.ranks")),
                       .weak = options.text("scale.mode") == "weak",
                       .replicates = options.count("scale.replicates"),
                       .launcher = options.text("scale.launcher"),
                       .oversubscribe = options.flag("scale.oversubscribe"),
                       .cold = options.text("scale.cache") == "cold",
                       .grow = options.text("scale.grow"),
                       .seed = options.count("scale.seed"),
                       .timeline = options.flag("scale.timeline"),
                       .program = program_of(options)};
  if (!options.is_auto("scale.ranks-per-node")) {
    request.ranks_per_node = options.count("scale.ranks-per-node");
  }
  if (!options.is_auto("scale.timeout")) request.timeout = options.seconds("scale.timeout");
  return request;
}

}  // namespace shardstream::scale
