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

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::report {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void fail(const RunFile& run, const std::string& why) {
  throw UsageError(
      fmt::format("'{}' has implausible values ({}): leave it out", run.path.string(), why));
}

void read_times(const io::ResultReader& file, RunFile& run) {
  const Table reps = file.table(
      "/timing/reps",
      {{"wall", ColumnType::real}, {"throttled", ColumnType::integer}, {"work", ColumnType::real}});
  for (const Row& row : reps.rows()) {
    const double seconds = row.get<double>("wall");
    if (!(seconds > 0) || !std::isfinite(seconds)) {
      fail(run, fmt::format("a repetition of {} s", seconds));
    }
    run.repetitions.push_back(seconds);
    run.throttled += row.get<std::int64_t>("throttled") == 1 ? 1 : 0;
    run.work = row.get<double>("work");
    if (!(run.work > 0) || !std::isfinite(run.work)) fail(run, fmt::format("work of {}", run.work));
  }
  if (run.repetitions.empty()) fail(run, "no repetition");
  run.seconds = summarize(run.repetitions).median;
  const Table summary = file.table(
      "/summary",
      {{"metric", ColumnType::text}, {"unit", ColumnType::text}, {"sampling", ColumnType::text}});
  for (const Row& row : summary.rows()) {
    if (row.get<std::string>("metric") != "rate_aggregate") continue;
    const auto& unit = row.get<std::string>("unit");  // "Tflop/s"
    run.work_unit = unit.substr(0, unit.rfind('/'));
    run.sampling = row.get<std::string>("sampling");
  }
}

void read_tables(const io::ResultReader& file, RunFile& run) {
  const Table metrics = file.table("/metrics", {{"metric", ColumnType::text},
                                                {"value", ColumnType::text},
                                                {"number", ColumnType::real},
                                                {"unit", ColumnType::text}});
  for (const Row& row : metrics.rows()) {
    run.metrics[row.get<std::string>("metric")] = {
        row.get<std::string>("value"), row.get<double>("number"), row.get<std::string>("unit")};
  }
  if (file.has_column("/timing/phases", "timed_seconds")) {
    const Table phases = file.table("/timing/phases", {{"track", ColumnType::text},
                                                       {"phase", ColumnType::text},
                                                       {"kind", ColumnType::text},
                                                       {"timed_seconds", ColumnType::real}});
    for (const Row& row : phases.rows()) {
      run.phases.push_back({row.get<std::string>("track"), row.get<std::string>("phase"),
                            row.get<std::string>("kind"), row.get<double>("timed_seconds")});
    }
  }
  const Table startup = file.table("/timing/startup", {{"step", ColumnType::text},
                                                       {"first", ColumnType::real},
                                                       {"last", ColumnType::real},
                                                       {"utc", ColumnType::real}});
  for (const Row& row : startup.rows()) {
    run.startup.push_back({row.get<std::string>("step"), row.get<double>("first"),
                           row.get<double>("last"), row.get<double>("utc")});
  }
}

/// The bytes of the main track's useful phases. A repetition has one such phase with bytes, and a
/// warm-up another one.
void read_streamed(const io::ResultReader& file, RunFile& run) {
  const Table table = file.table("/timing/phases", {{"track", ColumnType::text},
                                                    {"phase", ColumnType::text},
                                                    {"kind", ColumnType::text},
                                                    {"calls", ColumnType::integer},
                                                    {"bytes", ColumnType::integer}});
  const auto repetitions = static_cast<std::int64_t>(run.repetitions.size());
  for (const Row& row : table.rows()) {
    const auto bytes = row.get<std::int64_t>("bytes"), calls = row.get<std::int64_t>("calls");
    const auto& phase = row.get<std::string>("phase");
    if (row.get<std::string>("track") != "main" || row.get<std::string>("kind") != "useful" ||
        phase == "warm-up" || phase == "load" || bytes <= 0 || calls < repetitions) {
      continue;
    }
    run.streamed = static_cast<double>(bytes) / static_cast<double>(repetitions);
  }
}

void read_ceilings(const io::ResultReader& file, RunFile& run) {
  const Table table = file.table("/ceilings", {{"ceiling", ColumnType::text},
                                               {"per_rank_min", ColumnType::real},
                                               {"aggregate", ColumnType::real},
                                               {"unit", ColumnType::text},
                                               {"on_path", ColumnType::integer}});
  for (const Row& row : table.rows()) {
    run.ceilings.push_back({.name = row.get<std::string>("ceiling"),
                            .per_rank = row.get<double>("per_rank_min"),
                            .aggregate = row.get<double>("aggregate"),
                            .unit = row.get<std::string>("unit"),
                            .on_path = row.get<std::int64_t>("on_path") != 0});
  }
}

/// Reads what rooflines need. A file without it is a complete result, too.
void read_limits(const io::ResultReader& file, RunFile& run) {
  for (const auto read : {read_streamed, read_ceilings}) {
    try {
      read(file, run);
    } catch (const UsageError&) {
      continue;  // the members stay empty
    }
  }
}

void read_inputs(const io::ResultReader& file, RunFile& run) {
  const std::vector<std::string> tables = file.tables("/input");
  if (std::ranges::find(tables, "/input/files") == tables.end()) return;  // of an old version
  const Table files = file.table("/input/files", {{"option", ColumnType::text},
                                                  {"path", ColumnType::text},
                                                  {"dataset", ColumnType::text},
                                                  {"size", ColumnType::integer},
                                                  {"modified_ns", ColumnType::integer}});
  for (const Row& row : files.rows()) {
    run.inputs.push_back({.option = row.get<std::string>("option"),
                          .path = row.get<std::string>("path"),
                          .dataset = row.get<std::string>("dataset"),
                          .size = static_cast<std::uint64_t>(row.get<std::int64_t>("size")),
                          .modified = row.get<std::int64_t>("modified_ns")});
  }
}

/// Reads the repeatable columns of a table of /results. The first column of text names the rows.
void read_values(const io::ResultReader& file, const std::string& path, RunFile& run) {
  std::vector<Column> columns;
  for (const std::string_view column : repeatable_columns) {
    if (file.has_column(path, std::string(column))) {
      columns.push_back({std::string(column), ColumnType::text});
    }
  }
  if (columns.empty()) return;
  const Table table = file.table(path);
  const auto name = std::ranges::find(table.columns(), ColumnType::text, &Column::type);
  if (name == table.columns().end()) return;
  const Table values = file.table(path, columns);
  for (std::size_t i = 0; i < values.rows().size(); ++i) {
    const auto& row = table.rows()[i].get<std::string>(name->name);
    for (const Column& column : columns) {
      const auto& value = values.rows()[i].get<std::string>(column.name);
      const std::string key =
          column.name == "exact" ? row : fmt::format("{} of {}", column.name, row);
      if (!value.empty()) run.values[key] = value;
    }
  }
}

void read_ranks(const io::ResultReader& file, RunFile& run) {
  const Table ranks = file.table("/topology/ranks", {{"host", ColumnType::text},
                                                     {"backend", ColumnType::text},
                                                     {"device", ColumnType::text},
                                                     {"gpu_uuid", ColumnType::text}});
  std::set<std::string> gpus;
  for (const Row& row : ranks.rows()) {
    const auto& gpu = row.get<std::string>("gpu_uuid");
    if (!gpu.empty()) gpus.insert(gpu);
    run.device = row.get<std::string>("device");
  }
  run.ranks = ranks.rows().size();
  if (run.ranks == 0) fail(run, "no rank");
  const auto ranks_by_host = count_values(ranks, "host");
  run.hosts = ranks_by_host.size();
  run.max_ranks_on_host = std::ranges::max(ranks_by_host | std::views::values);
  run.gpus = gpus.size();
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

std::string RunFile::option(const std::string& key) const {
  const auto found = config.find(key);
  return found == config.end() ? "" : found->second;
}

std::string RunFile::resolved_option(const std::string& key) const {
  const auto found = resolved.find(key);
  return found == resolved.end() ? option(key) : found->second;
}

const Ceiling* way_of(const std::vector<Ceiling>& ceilings) {
  const Ceiling* way = nullptr;
  for (const Ceiling& ceiling : ceilings) {
    if (!ceiling.on_path || !(ceiling.aggregate > 0) || ceiling.unit != "GB/s") continue;
    if (way == nullptr || ceiling.name == "link_up") way = &ceiling;
  }
  return way;
}

double RunFile::step(const std::string& name) const {
  const auto found = std::ranges::find(startup, name, &Step::name);
  return found == startup.end() ? unknown : found->last;
}

double RunFile::wall() const {
  return std::accumulate(repetitions.begin(), repetitions.end(), 0.0);
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
    phase.seconds /= static_cast<double>(repetitions.size());
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
  std::map<std::string, std::string> options;
  for (const auto& [key, value] : run.config) {
    const auto dot = key.find('.');
    const bool is_other =
        dot == key.npos ||
        std::ranges::find(other_sections, key.substr(0, dot)) != other_sections.end();
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
  run.config = file.texts("/config");
  run.origins = file.texts("/config/origin");
  run.workload = run.option("run.workload");
  if (run.workload.empty()) {
    throw UsageError(
        fmt::format("'{}' is not a result of a workload: name results of run", path.string()));
  }
  run.study = run.option("study.name");
  run.mode = run.option("study.mode");
  run.point = run.option("study.point");
  run.replicate = std::strtoull(run.option("study.replicate").c_str(), nullptr, 10);
  run.uuid = file.text("/", "run_uuid");
  run.command = file.text("/", "argv");
  run.created = file.text("/", "created_utc");
  run.commit = file.text("/provenance", "git_commit");
  run.resumed = file.integer("/", "restart_count").value_or(0) > 0;
  read_times(file, run);
  read_tables(file, run);
  read_ranks(file, run);
  read_limits(file, run);
  run.resolved = file.texts("/config/resolved");
  read_inputs(file, run);
  for (const std::string& table : file.tables("/results")) read_values(file, table, run);
  return run;
}

}  // namespace shardstream::report
