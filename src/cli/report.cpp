#include <fmt/format.h>
#include <malloc.h>

#include <array>
#include <fstream>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "report/formats.hpp"

namespace shardstream::cli {

int report(const Arguments& arguments, const char* const*) {
  constexpr std::array<std::string_view, 1> switches = {"json"};
  constexpr std::array<std::string_view, 2> settings = {"csv", "extra-p"};
  const OptionTable none(std::vector<std::span<const OptionRow>>{});
  const CommandLine line = none.parse_command_line(arguments, switches, settings);
  if (line.words.empty()) {
    throw UsageError("report needs result files or folders of them: see shardstream report --help");
  }
  // libhdf5 takes and frees a megabyte for each file. Without this, giving it back to the system
  // takes three quarters of the time of a thousand files.
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  const report::Report report = report::make_report(report::result_files(line.words));
  if (report.studies.empty() && report.unreadable.size() == 1) {
    throw UsageError(report.unreadable.front().reason);
  }
  if (const auto folder = line.settings.find("csv"); folder != line.settings.end()) {
    report::write_csv(report, folder->second);
  }
  if (const auto path = line.settings.find("extra-p"); path != line.settings.end()) {
    std::ofstream file(path->second);
    file << report::to_extra_p(report);
    if (!file.flush()) throw Error(fmt::format("cannot write '{}'", path->second));
  }
  print_output(line.switches.contains("json") ? report::to_json(report) : report::to_text(report));
  return report::exit_code(report);
}

}  // namespace shardstream::cli
