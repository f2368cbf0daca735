#include <array>
#include <filesystem>
#include <string>

#include "cli/commands.hpp"
#include "cli/option_scope.hpp"
#include "cli/workload_arguments.hpp"
#include "core/standard_output.hpp"
#include "report/formats.hpp"
#include "scale/launcher.hpp"
#include "scale/options.hpp"
#include "scale/study.hpp"

namespace shardstream::cli {

OptionTable scale_table() {
  std::vector<std::span<const OptionRow>> rooms = {scale::scale_options()};
  const OptionTable run_table = all_options();
  rooms.emplace_back(run_table.rows());
  return OptionTable(rooms);
}

int scale(const Arguments& arguments, const char* const* environment) {
  constexpr std::array<std::string_view, 1> switches = {"list"};
  scale::reject_many_copies();
  const OptionTable table = scale_table(), run_table = all_options();
  CommandLine line = table.parse_command_line(arguments, switches);
  const bool lists = line.switches.contains("list");
  std::filesystem::path ini;
  const Options options = resolve_workload("scale", table, std::move(line), environment, ini);
  reject_options_of_other_workloads(options, {});
  Log log;
  for (const std::string& warning : options.warnings()) log.warn(warning);
  const scale::Order order{options, run_table, environment, scale::folder_of(options)};
  if (lists) {
    print_output(scale::list_study(order));
    return static_cast<int>(ExitCode::done);
  }
  const ExitCode code = scale::run_study(order, log);
  if (code == ExitCode::checkpointed) return static_cast<int>(code);
  const std::array<std::string, 1> folder = {order.folder.string()};
  const report::Report report = report::make_report(report::result_files(folder));
  print_output(report::to_text(report));
  return code == ExitCode::done ? report::exit_code(report) : static_cast<int>(code);
}

}  // namespace shardstream::cli
