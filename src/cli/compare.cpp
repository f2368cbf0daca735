#include <fmt/format.h>

#include <array>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/comparison/benches.hpp"
#include "report/comparison/comparison.hpp"

namespace shardstream::cli {
namespace {

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

void print_in(Printing printing, const auto& comparison) {
  if (printing == Printing::none) return;
  print_output(printing == Printing::json ? to_json(comparison) : to_text(comparison));
}

}  // namespace

int compare(const Arguments& arguments, const char* const*) {
  const OptionTable none(std::vector<std::span<const OptionRow>>{});
  const CommandLine line =
      none.parse_command_line(arguments, switches_of_compare, settings_of_compare);
  const Printing printing = printing_of(line);
  if (line.words.size() != 2) {
    throw UsageError(
        fmt::format("compare needs two result files or folders, OLD and NEW, but {} {} given: see "
                    "shardstream compare --help",
                    line.words.size(), line.words.size() == 1 ? "is" : "are"));
  }
  const report::Judgement judgement{
      .threshold = fraction(line, "threshold", study::default_threshold),
      .launch_noise = fraction(line, "launch-noise", study::default_launch_noise)};
  if (report::holds_benches(line.words[0])) {
    const auto benches = report::make_bench_comparison(line.words[0], line.words[1], judgement);
    print_in(printing, benches);
    return exit_code(benches);
  }
  const report::ComparisonReport report =
      report::make_comparison(line.words[0], line.words[1], judgement);
  print_in(printing, report);
  return exit_code(report);
}

}  // namespace shardstream::cli
