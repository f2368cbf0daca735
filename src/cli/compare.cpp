#include <fmt/format.h>

#include <array>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/comparison/benches.hpp"
#include "report/comparison/comparison.hpp"
#include "report/comparison/measurements.hpp"

namespace shardstream::cli {
namespace {

constexpr std::array<std::string_view, 3> switches_of_compare = {"json", "quiet", "markdown"};
constexpr std::array<std::string_view, 5> settings_of_compare = {"threshold", "launch-noise", "key",
                                                                 "value", "better"};

/// The fraction of a setting such as "2%" or "0.5 %"; `fallback` without the setting.
double fraction(const CommandLine& line, const std::string& name, double fallback) {
  const auto found = line.settings.find(name);
  if (found == line.settings.end()) return fallback;
  const std::string_view text = found->second;
  double value = 0;
  try {
    if (!text.ends_with('%')) throw UsageError("the sign % is missing");
    value = parse_number(text);
    if (!(value > 0 && value < 1)) throw UsageError("it is not above 0% and below 100%");
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{} {} is not possible ({}): pass for example {:g}%", name,
                                 excerpt(text), error.what(), 100 * fallback));
  }
  return value;
}

/// The value of a setting; empty without it.
std::string text_of(const CommandLine& line, const std::string& name) {
  const auto found = line.settings.find(name);
  if (found == line.settings.end()) return {};
  if (trim(found->second).empty()) {
    throw UsageError(fmt::format("--{} is empty: name a column of the table", name));
  }
  return std::string(trim(found->second));
}

report::Columns columns_of(const CommandLine& line) {
  report::Columns columns;
  columns.value = text_of(line, "value");
  columns.better = text_of(line, "better");
  if (!columns.better.empty() && columns.better != "less" && columns.better != "more") {
    throw UsageError(
        fmt::format("--better {} is not possible: pass less or more", excerpt(columns.better)));
  }
  const std::string keys = text_of(line, "key");
  if (keys.empty()) return columns;
  for (const std::string_view key : split(keys, ',')) columns.keys.emplace_back(key);
  return columns;
}

struct Output {
  Printing printing;
  bool as_markdown;  ///< instead of text
};

Output output_of(const CommandLine& line) {
  CommandLine switches = line;
  if (line.words.size() == 2) switches.words.clear();  // inputs may be JSON
  const Output output{printing_of(switches), line.switches.contains("markdown")};
  if (output.as_markdown && output.printing != Printing::text) {
    throw UsageError("--markdown, --json and --quiet exclude each other: give one");
  }
  return output;
}

/// Prints the comparison and returns its exit code.
int print(const Output& output, const auto& comparison) {
  if (output.printing == Printing::json) {
    print_output(to_json(comparison));
  } else if (output.printing == Printing::text) {
    print_output(output.as_markdown ? to_markdown(comparison) : to_text(comparison));
  }
  return exit_code(comparison);
}

int compare(const Arguments& arguments, const char* const*) {
  const OptionTable none(std::vector<std::span<const OptionRow>>{});
  const CommandLine line =
      none.parse_command_line(arguments, switches_of_compare, settings_of_compare);
  const Output output = output_of(line);
  if (line.words.size() != 2) {
    throw UsageError(
        fmt::format("compare needs two result files or folders, OLD and NEW, but {} {} given: see "
                    "shardstream compare --help",
                    line.words.size(), line.words.size() == 1 ? "is" : "are"));
  }
  const report::Judgement judgement{
      .threshold = fraction(line, "threshold", study::default_threshold),
      .launch_noise = fraction(line, "launch-noise", study::default_launch_noise),
      .is_noise_given = line.settings.contains("launch-noise")};
  const report::Columns columns = columns_of(line);
  if (report::holds_text(line.words[0]) || report::holds_text(line.words[1])) {
    return print(output,
                 report::compare_measurements(line.words[0], line.words[1], columns, judgement));
  }
  if (columns.are_given()) {
    throw UsageError("--key, --value and --better are for CSV tables: leave them out for results");
  }
  if (report::holds_benches(line.words[0])) {
    return print(output, report::compare_cases(report::read_benches(line.words[0]),
                                               report::read_benches(line.words[1]), judgement));
  }
  return print(output, report::make_comparison(line.words[0], line.words[1], judgement));
}

std::string compare_help(const Arguments&) {
  return fmt::format(
      R"(shardstream compare OLD NEW [--threshold {0:g}%] [--launch-noise {1:g}%]
                            [--json|--markdown]
shardstream compare OLD NEW [--key COLUMN,...] [--value COLUMN] [--better less|more]

  shardstream compare old-results/ new-results/
  shardstream compare hyperfine-old.json hyperfine-new.json
  shardstream compare old.csv new.csv --key size,mode --value seconds

Compares result files of run, files of bench, or measurements of other programs. OLD is the
reference. A side with results is a file or a folder of files. A point is the same work on
the same number of ranks. For each point, it shows the ratio NEW/OLD of the times with its
95 % confidence interval and, for information, the rate and the time to the result. For
points that differ, it also shows the phases and every other change between the sides.

Measurements of other programs are JSON of hyperfine or of google-benchmark, a CSV table
with a header, or a text file with one number a line. The kind is recognized from the
contents. A case is a command, a benchmark or a key. It has the role of a point, and each of
its values counts as a launch.

A point is slower if the interval lies above 1 + threshold, faster if it lies below
1 - threshold, the same if it lies between these, and unclear otherwise. A verdict needs
3 launches on each side, or 6 repetitions in each launch. The column change has the
ratio in percent, or ~ without a significant difference.

One launch on each side does not show how much launches scatter. Then the interval assumes
--launch-noise: with {1:g}%, changes below about 17 % are unclear. Three launches per side
measure their scatter and find smaller differences. Single values of other programs have a
verdict only if --launch-noise is given.

  --threshold     the largest change to ignore, above 0% and below 100% (default: {0:g}%)
  --launch-noise  the standard deviation between launches of one program, relative to their
                  time, if each side has one launch; above 0% and below 100% (default: {1:g}%)
  --value         the column of a CSV table that has the values
  --key           the columns of a CSV table whose values name a case; without it, all rows
                  are one case
  --better        whether less (the default) or more is better, in a CSV table or numbers
  --json          writes one JSON object to standard output instead of text
  --markdown      writes the verdict, sentences and folded tables, for a pull request
  --quiet         writes nothing: only the exit code tells

Exit codes, from the times of the work: 0 all points are the same or faster; 1 a file is
unreadable and no point is slower; 2 fix the command or the inputs; 4 a point is unclear
and none is slower; 5 a point is slower. Cases of bench and of other programs are judged
together: by Holm's method, equal cases give exit code 5 in at most 2.5 % of all
comparisons, however many cases there are. A case that is slower only alone gives 4.
)",
      100 * study::default_threshold, 100 * study::default_launch_noise);
}

}  // namespace

extern const Command about_compare = {.name = "compare",
                                      .arguments = "OLD NEW",
                                      .summary = "tells whether runs became slower",
                                      .switches = switches_of_compare,
                                      .settings = settings_of_compare,
                                      .help = compare_help,
                                      .run = compare};

}  // namespace shardstream::cli
