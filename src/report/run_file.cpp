#include "report/run_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <ranges>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "result/columns.hpp"

namespace shardstream::report {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void fail(const RunFile& run, const std::string& why) {
  throw UsageError(
      fmt::format("'{}' has implausible values ({}): leave it out", run.path.string(), why));
}

void read_times(const io::ResultReader& file, RunFile& run) {
  for (const result::Repetition& each : result::read<result::Repetition>(file)) {
    if (!(each.wall > 0) || !std::isfinite(each.wall)) {
      fail(run, fmt::format("a repetition of {} s", each.wall));
    }
    run.timing.repetitions.push_back(each.wall);
    run.timing.throttled += each.throttled == 1 ? 1 : 0;
    run.work = each.work;
    if (!(run.work > 0) || !std::isfinite(run.work)) fail(run, fmt::format("work of {}", run.work));
  }
  if (run.timing.repetitions.empty()) fail(run, "no repetition");
  run.timing.median = median(run.timing.repetitions);
  for (const result::MetricSummary& each : result::read<result::MetricSummary>(file)) {
    if (each.metric != "rate_aggregate") continue;
    run.work_unit = each.unit.substr(0, each.unit.rfind('/'));  // of "Tflop/s"
    run.timing.sampling = each.sampling;
  }
}

/// `streamed` is that of the main track's useful phases. A repetition has one such phase with
/// bytes, and a warm-up another one.
void read_phases(const io::ResultReader& file, RunFile& run) {
  const auto repetitions = static_cast<std::int64_t>(run.timing.repetitions.size());
  for (const result::Phase& each : result::read<result::Phase>(file)) {
    if (!std::isnan(each.timed_seconds)) {
      run.phases.push_back({each.track, each.phase, each.kind, each.timed_seconds});
    }
    if (each.track == "main" && each.kind == "useful" && each.phase != "warm-up" &&
        each.phase != "load" && each.bytes > 0 && each.calls >= repetitions) {
      run.streamed = static_cast<double>(each.bytes) / static_cast<double>(repetitions);
    }
  }
}

/// Reads what rooflines need. A file without it is a complete result, too.
void read_ceilings(const io::ResultReader& file, RunFile& run) {
  try {
    run.ceilings = result::read_ceilings(file);
  } catch (const UsageError&) {
    return;
  }
}

void read_inputs(const io::ResultReader& file, RunFile& run) {
  const std::vector<std::string> tables = file.tables("/input");
  if (std::ranges::find(tables, result::InputFile::table) == tables.end())
    return;  // an old version
  for (const result::InputFile& each : result::read<result::InputFile>(file)) {
    run.inputs.push_back({.option = each.option,
                          .path = each.path,
                          .dataset = each.dataset,
                          .size = static_cast<std::uint64_t>(each.size),
                          .modified = each.modified_ns});
  }
}

/// Reads the repeatable columns of a table of /results. The first column of text names the rows.
void read_values(const io::ResultReader& file, const std::string& path, RunFile& run) {
  const std::vector<Column> stored = file.columns(path);
  const auto name = std::ranges::find(stored, ColumnType::text, &Column::type);
  if (name == stored.end()) return;
  std::vector<Column> columns = {*name};
  for (const std::string_view column : repeatable_columns) {
    if (column != name->name && std::ranges::find(stored, column, &Column::name) != stored.end()) {
      columns.push_back({std::string(column), ColumnType::text});
    }
  }
  if (columns.size() == 1) return;
  const Table table = file.table(path, columns);
  for (const Row& row : table.rows()) {
    for (std::size_t i = 1; i < columns.size(); ++i) {
      const std::string& column = columns[i].name;
      const auto& named = row.get<std::string>(name->name);
      const auto& value = row.get<std::string>(column);
      const std::string key = column == "exact" ? named : fmt::format("{} of {}", column, named);
      if (!value.empty()) run.values[key] = value;
    }
  }
}

void read_ranks(const io::ResultReader& file, RunFile& run) {
  const auto ranks = result::read<result::Rank>(file);
  if (ranks.empty()) fail(run, "no rank");
  std::set<std::string> gpus;
  for (const result::Rank& rank : ranks) {
    if (!rank.gpu_uuid.empty()) gpus.insert(rank.gpu_uuid);
  }
  run.device = ranks.back().device;
  run.size.ranks = ranks.size();
  const auto by_host = result::ranks_by_host(ranks);
  run.size.hosts = by_host.size();
  run.size.max_ranks_on_host = std::ranges::max(by_host | std::views::values);
  run.size.gpus = gpus.size();
}

}  // namespace

std::string RunFile::text(const std::string& metric) const {
  const auto found = metrics.find(metric);
  return found == metrics.end() ? "" : found->second.value;
}

double RunFile::number(const std::string& metric) const {
  const auto found = metrics.find(metric);
  return found == metrics.end() ? unknown : found->second.number;
}

std::string RunOptions::text(const std::string& key) const {
  const auto found = all.find(key);
  return found == all.end() ? "" : found->second;
}

std::string RunOptions::resolved_text(const std::string& key) const {
  const auto found = resolved.find(key);
  return found == resolved.end() ? text(key) : found->second;
}

const result::Ceiling* way_of(const std::vector<result::Ceiling>& ceilings) {
  const result::Ceiling* way = nullptr;
  for (const result::Ceiling& ceiling : ceilings) {
    if (!ceiling.on_path || !(ceiling.aggregate > 0) || ceiling.unit != "GB/s") continue;
    if (way == nullptr || ceiling.name == "link_up") way = &ceiling;
  }
  return way;
}

double RunFile::step(const std::string& name) const {
  const auto found = std::ranges::find(startup, name, &result::Step::step);
  return found == startup.end() ? unknown : found->last;
}

double RunFile::wall() const {
  return std::accumulate(timing.repetitions.begin(), timing.repetitions.end(), 0.0);
}

double RunFile::to_result() const {
  const double run = step("store");
  return std::isfinite(launcher.start) && std::isfinite(launcher.end)
             ? launcher.start + run + launcher.end
             : run;
}

std::string kind_of_track(const std::string& track) {
  return track.substr(0, track.find_last_not_of("0123456789 ") + 1);
}

std::vector<PhaseTime> RunFile::phases_of_repetition() const {
  std::vector<PhaseTime> kinds;
  for (const PhaseTime& each : phases) {
    if (each.phase == "stream") continue;
    PhaseTime phase = each;
    phase.track = kind_of_track(each.track);
    phase.seconds /= static_cast<double>(timing.repetitions.size());
    const auto known = std::ranges::find_if(kinds, [&](const PhaseTime& kind) {
      return kind.track == phase.track && kind.phase == phase.phase && kind.kind == phase.kind;
    });
    if (known == kinds.end()) {
      kinds.push_back(std::move(phase));
    } else {
      known->seconds = std::max(known->seconds, phase.seconds);
    }
  }
  return kinds;
}

std::map<std::string, std::string> options_of_result(const RunFile& run) {
  constexpr std::array<std::string_view, 9> other_sections = {
      "comm", "device", "launch", "measure", "output", "pipeline", "run", "scale", "study"};
  constexpr std::array<std::string_view, 4> of_programs = {"scale.command", "scale.environment",
                                                           "scale.expect", "scale.metric"};
  std::map<std::string, std::string> options;
  for (const auto& [key, value] : run.options.all) {
    const auto dot = key.find('.');
    const bool is_other =
        dot == key.npos ||
        (std::ranges::find(other_sections, key.substr(0, dot)) != other_sections.end() &&
         std::ranges::find(of_programs, key) == of_programs.end());
    const bool names_file =
        std::ranges::find(run.inputs, key, &io::InputFile::option) != run.inputs.end();
    if (!is_other && !names_file) options[key] = value;
  }
  return options;
}

RunFile read_run_file(const std::filesystem::path& path) {
  return read_run_file(io::ResultReader(path), path);
}

RunFile read_run_file(const io::ResultReader& file, const std::filesystem::path& path) {
  RunFile run;
  run.path = path;
  run.options.all = file.texts("/config");
  run.options.origins = file.texts("/config/origin");
  run.workload = run.options.text("run.workload");
  if (run.workload.empty()) {
    throw UsageError(
        fmt::format("'{}' is not a result of a workload: name results of run", path.string()));
  }
  run.study.name = run.options.text("study.name");
  run.study.mode = run.options.text("study.mode");
  run.study.point = run.options.text("study.point");
  run.study.replicate = std::strtoull(run.options.text("study.replicate").c_str(), nullptr, 10);
  run.provenance.uuid = file.text("/", "run_uuid");
  run.provenance.command = file.text("/", "argv");
  run.provenance.created = file.text("/", "created_utc");
  run.provenance.commit = file.text("/provenance", "git_commit");
  run.provenance.program = file.text("/provenance", "program_checksum");
  run.provenance.resumed = file.integer("/", "restart_count").value_or(0) > 0;
  read_times(file, run);
  for (auto& each : result::read<result::PrintedMetric>(file)) {
    run.metrics[each.metric] = std::move(each);
  }
  read_phases(file, run);
  run.startup = result::read<result::Step>(file);
  read_ranks(file, run);
  read_ceilings(file, run);
  run.options.resolved = file.texts("/config/resolved");
  read_inputs(file, run);
  for (const std::string& table : file.tables("/results")) read_values(file, table, run);
  return run;
}

}  // namespace shardstream::report
