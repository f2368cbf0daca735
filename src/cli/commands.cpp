#include "cli/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"

namespace shardstream::cli {

// Each command is defined in the file of its name.
extern const Command about_run, about_scale, about_report, about_compare, about_bench,
    about_generate, about_info, about_completion, about_man;

std::span<const Command* const> commands() {
  static constexpr std::array all = {&about_run,     &about_scale,      &about_report,
                                     &about_compare, &about_bench,      &about_generate,
                                     &about_info,    &about_completion, &about_man};
  return all;
}

Printing printing_of(const CommandLine& line) {
  const bool is_quiet = line.switches.contains("quiet");
  if (!line.switches.contains("json")) return is_quiet ? Printing::none : Printing::text;
  const auto json_file = std::ranges::find_if(
      line.words, [](const std::string& word) { return word.ends_with(".json"); });
  if (json_file != line.words.end()) {
    throw UsageError(
        fmt::format("--json writes to standard output and takes no value: redirect it with > {}",
                    excerpt(*json_file)));
  }
  if (is_quiet) throw UsageError("--json prints the results and --quiet omits them: give one");
  return Printing::json;
}

}  // namespace shardstream::cli
