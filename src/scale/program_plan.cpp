#include "scale/program_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "scale/launch/words.hpp"
#include "scale/program/program_file.hpp"
#include "scale/program/program_result.hpp"
#include "study_folder/process_record.hpp"

namespace shardstream::scale {
namespace {

namespace fs = std::filesystem;

/// The folder for the records of an attempt's processes, beside its log.
fs::path records_of(const fs::path& log) {
  return fs::path(log).replace_extension("ranks");
}

/// The wall time of a launch, from the start of its first process; nothing if the clocks of the
/// hosts differ so much that it cannot be. If processes are on this host, only these count, since
/// they have its clock.
std::optional<double> wall_of(const std::vector<study_folder::ProcessRecord>& processes,
                              const LaunchEnd& ended) {
  constexpr double tolerance = 0.05;  // seconds
  const std::string here = study_folder::host_name();
  const bool has_local =
      std::ranges::find(processes, here, &study_folder::ProcessRecord::host) != processes.end();
  double start = ended.utc_end;
  for (const study_folder::ProcessRecord& each : processes) {
    if (!has_local || each.host == here) start = std::min(start, each.utc_start);
  }
  const bool is_possible = start < ended.utc_end && start > ended.utc_start - tolerance;
  return is_possible ? std::optional(ended.utc_end - start) : std::nullopt;
}

/// Throws Error unless all ranks have run the same program.
void expect_one_program(const std::vector<study_folder::ProcessRecord>& processes) {
  const study_folder::ProcessRecord& first = processes.front();
  for (const study_folder::ProcessRecord& each : processes) {
    if (each.bytes == first.bytes && each.checksum == first.checksum) continue;
    throw Error(fmt::format(
        "ranks 0 and {} have run different programs: '{}' with {} bytes and the checksum {} on {}, "
        "and '{}' with {} bytes and {} on {}",
        each.rank, first.program.string(), first.bytes, first.checksum, first.host,
        each.program.string(), each.bytes, each.checksum, each.host));
  }
}

}  // namespace

ProgramPlan::ProgramPlan(const Order& order) : StudyPlan(order) {
  omit_timelines();
  if (!order.rates.empty()) {
    throw UsageError("--rates is for studies of workloads, not of a command: leave it out");
  }
  if (!order.options.text("run.workload").empty()) {
    throw UsageError(fmt::format(
        "scale studies a workload or a command, not both: leave out {} or {}",
        excerpt(order.options.text("run.workload")), excerpt(order.options.text("scale.command"))));
  }
  execution_of(calibration(), {});  // checks the keys
  path_ = program::expect_program(request().program.command.front());
  predict(0, largest().ranks);
}

/// Before the calibration run, `wall`, its time, is 0. In a strong study, smaller sizes need at
/// most their share of the ranks longer.
void ProgramPlan::predict(double wall, std::uint64_t per_host) {
  const auto ratio = [](std::uint64_t a, std::uint64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  const bool is_known = !launcher().why_per_node().empty();
  for (PlannedSize& size : sizes()) {
    if (request().weak) size.work = ratio(size.ranks, request().ranks.front());
    const std::uint64_t on_host =
        is_known ? launcher().ranks_on_node(size.ranks) : std::min(size.ranks, per_host);
    size.predicted = {.seconds = request().weak ? wall : wall * ratio(largest().ranks, size.ranks),
                      .is_minimum = wall == 0,
                      .sampling = {.warmup = 0, .repetitions = 1},
                      .machine = {},
                      .hosts = ceil_div(size.ranks, on_host)};
  }
}

program::Execution ProgramPlan::execution_of(const PlannedLaunch& launch,
                                             const fs::path& records) const {
  Keys keys = launcher().keys(launch.size->ranks);
  keys["name"] = name_of(launch);
  keys["folder"] = fs::absolute(folder()).string();
  keys["replicate"] = std::to_string(launch.replicate);
  program::Execution execution{.records = records, .environment = {}, .command = {}};
  for (const std::string& variable : request().program.environment) {
    execution.environment.push_back(filled("scale.environment", variable, keys));
  }
  for (const std::string& word : request().program.command) {
    execution.command.push_back(filled("scale.command", word, keys));
  }
  return execution;
}

std::vector<std::string> ProgramPlan::listed_command(const PlannedLaunch& launch) const {
  std::vector<std::string> words = {program(), "scale"};
  for (const auto& [key, value] : chosen(options())) {
    if (key != "scale.command") words.push_back(fmt::format("--{}={}", key, value));
  }
  words.insert(words.end(), {"-o", folder().string(), "--only", name_of(launch), "--"});
  words.insert(words.end(), request().program.command.begin(), request().program.command.end());
  return words;
}

std::vector<std::string> ProgramPlan::command(const PlannedLaunch& launch,
                                              const fs::path& log) const {
  std::vector<std::string> words = launcher().words(launch.size->ranks);
  words.insert(words.end(), {program(), std::string(program::exec_command)});
  const std::vector<std::string> arguments =
      program::arguments_of(execution_of(launch, fs::absolute(records_of(log))));
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

fs::path ProgramPlan::output_of(const fs::path& log) const {
  return fs::path(log).replace_extension("out");
}

void ProgramPlan::prepare(const PlannedLaunch&, const fs::path& log) const {
  std::error_code error;
  if (fs::create_directory(records_of(log), error)) return;
  throw Error(fmt::format("cannot create the folder '{}' ({})", records_of(log).string(),
                          error ? error.message() : "it exists"));
}

std::uint64_t ProgramPlan::processes_of(const PlannedLaunch& launch) const {
  return launcher().is_none() ? 1 : launch.size->ranks;
}

std::string ProgramPlan::conclude(const PlannedLaunch& launch, const LaunchEnd& ended,
                                  const fs::path& log) const {
  std::string problem;
  try {
    if (ended.succeeded()) problem = problem_of(launch, ended, log);
  } catch (const Error& error) {
    problem = error.what();
  }
  study_folder::remove_records(records_of(log), processes_of(launch));
  return problem;
}

/// Evaluates a launch that has succeeded, and writes its result. Throws Error like its parts.
std::string ProgramPlan::problem_of(const PlannedLaunch& launch, const LaunchEnd& ended,
                                    const fs::path& log) const {
  const fs::path output = output_of(log);
  const ProgramRequest& request = this->request().program;
  program::LaunchFacts facts{
      .options = {{"run.workload", path_.filename().string()},
                  {"program", path_.string()},
                  {"study.name", name()},
                  {"study.mode", this->request().weak ? "weak" : "strong"},
                  {"study.point", label_of(launch)},
                  {"study.replicate", std::to_string(launch.replicate)}},
      .command = shell_line(command(launch, log)),
      .ranks = launch.size->ranks,
      .processes = study_folder::read_records(records_of(log), processes_of(launch)),
      .work = launch.size->work,
      .wall = 0,
      .utc_end = ended.utc_end,
      .metric = request.metric,
      .value = {},
      .is_checked = !request.expect.empty(),
      .inputs = inputs()};
  for (const auto& [key, value] : options_of_result(launch)) facts.options.emplace_back(key, value);
  expect_one_program(facts.processes);
  const std::optional<double> wall = wall_of(facts.processes, ended);
  if (!wall && !request.metric) {
    return fmt::format(
        "the clock of the host {} differs from that of this host by more than the launch: set the "
        "clocks, or measure a time that the program prints (--scale.metric)",
        facts.processes.front().host);
  }
  facts.wall = wall.value_or(ended.seconds);
  if (request.metric) facts.value = program::find_metric(*request.metric, output);
  if (!facts.value.problem.empty()) return facts.value.problem;
  if (facts.is_checked && !program::has_line(request.expect, output)) {
    return fmt::format("no line of '{}' matches scale.expect, {}", output.string(),
                       excerpt(request.expect));
  }
  program::write_result(result_of(launch), facts);
  return {};
}

std::vector<io::InputFile> ProgramPlan::inputs() const {
  io::InputFile file = io::state_of(path_);
  file.option = "program";
  return {file};
}

StoredOptions ProgramPlan::options_of_result(const PlannedLaunch&) const {
  StoredOptions values;
  for (const char* key : {"scale.command", "scale.environment", "scale.metric", "scale.expect"}) {
    values[key] = options().text(key);
  }
  return values;
}

double ProgramPlan::repetition_of(const report::RunFile& calibration) const {
  return calibration.step("store");
}

std::vector<std::string> ProgramPlan::notes_before_calibration() const {
  return {"The time of the program is unknown until then."};
}

void ProgramPlan::take_conditions(const report::RunFile& calibration) {
  predict(repetition_of(calibration), calibration.size.max_ranks_on_host);
}

}  // namespace shardstream::scale
