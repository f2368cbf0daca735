#include "scale/program/program_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/uuid.hpp"
#include "execution/output.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"
#include "runtime/provenance.hpp"

namespace shardstream::scale::program {
namespace {

constexpr const char* unit_of_work = "run";

double seconds_of(const LaunchFacts& facts) {
  return facts.metric ? facts.value.seconds : facts.wall;
}

/// Without a launcher, one process stands for all ranks.
std::vector<result::Rank> ranks_of(const LaunchFacts& facts) {
  std::vector<result::Rank> ranks;
  std::map<std::string, std::int64_t> on_host;
  for (std::uint64_t rank = 0; rank < facts.ranks; ++rank) {
    const study_folder::ProcessRecord& process =
        facts.processes[std::min(rank, facts.processes.size() - 1)];
    ranks.push_back({.rank = static_cast<std::int64_t>(rank),
                     .host = process.host,
                     .local_rank = on_host[process.host]++,
                     .pid = process.pid,
                     .cpus = process.cpus,
                     .cpu_nodes = process.cpu_nodes,
                     .threads = process.cpu_count,
                     .backend = "program",
                     .device = process.processor,
                     .pinned_nodes = "unknown"});
  }
  return ranks;
}

result::MetricSummary summary_of(const std::string& metric, double value, const std::string& unit) {
  return {.metric = metric,
          .n = 1,
          .median = value,
          .ci_lo = std::nan(""),
          .ci_hi = std::nan(""),
          .min = value,
          .q1 = value,
          .q3 = value,
          .max = value,
          .unit = unit,
          .sampling = "fixed"};
}

std::vector<result::PrintedMetric> metrics_of(const LaunchFacts& facts) {
  const auto number = [](const std::string& name, double value, const std::string& unit) {
    return result::PrintedMetric{name, fmt::format("{:.17g}", value), value, unit};
  };
  std::vector<result::PrintedMetric> metrics;
  if (facts.metric) {
    metrics.push_back(
        {facts.metric->name, facts.value.text, facts.value.number, facts.metric->unit});
  }
  const bool has_time = facts.metric && facts.metric->name == "time";
  if (!has_time) metrics.push_back(number("time", seconds_of(facts), "s"));
  metrics.push_back(number("wall", facts.wall, "s"));
  metrics.push_back({.metric = "verified", .value = facts.is_checked ? "true" : "unchecked"});
  return metrics;
}

void write_provenance(io::ResultFile& file, const LaunchFacts& facts) {
  const study_folder::ProcessRecord& first = facts.processes.front();
  file.attribute("/provenance", "program", first.program.string());
  file.attribute("/provenance", "program_bytes", static_cast<std::int64_t>(first.bytes));
  file.attribute("/provenance", "program_checksum", first.checksum);
  file.attribute("/provenance", "studied_by", runtime::version_line());
  file.attribute("/provenance", "operating_system", first.operating_system);
  file.attribute("/provenance", "environment", first.environment);
}

void write_verdict(io::ResultFile& file, bool is_checked) {
  file.attribute("/results", "verified", std::int64_t{is_checked});
  file.attribute("/results", "verdict",
                 is_checked ? "a line of the standard output matches scale.expect"
                            : "there is no check: --scale.expect names a line that only a correct "
                              "run prints");
}

}  // namespace

void write_result(const std::filesystem::path& path, const LaunchFacts& facts) {
  io::ResultFile file(path, io::Overwrite::never, random_uuid(), execution::reserved_bytes);
  file.attribute("/", "argv", facts.command);
  file.attribute("/", "restart_count", std::int64_t{0});
  for (const auto& [key, value] : facts.options) file.attribute("/config", key, value);
  file.attribute("/config", "ranks", static_cast<std::int64_t>(facts.ranks));
  std::error_code unknown;
  file.attribute("/config", "working_directory", std::filesystem::current_path(unknown).string());
  write_provenance(file, facts);
  std::vector<result::InputFile> inputs;
  for (const io::InputFile& each : facts.inputs) {
    inputs.push_back({each.option, each.path.string(), each.dataset,
                      static_cast<std::int64_t>(each.size), each.modified});
  }
  result::write(file, inputs);
  result::write(file, ranks_of(facts));
  const double seconds = seconds_of(facts);
  file.table("/timing",
             result::repetitions_table({{.wall = seconds, .work = facts.work}}, unit_of_work));
  result::write(file, std::vector<result::Phase>{});
  result::write(file, std::vector<result::Step>{{"work", facts.wall, facts.wall, facts.utc_end},
                                                {"store", facts.wall, facts.wall, facts.utc_end}});
  result::write(
      file, std::vector<result::MetricSummary>{summary_of("time", seconds, "s"),
                                               summary_of("rate_aggregate", facts.work / seconds,
                                                          fmt::format("{}/s", unit_of_work))});
  result::write(file, metrics_of(facts));
  write_verdict(file, facts.is_checked);
  file.publish();
}

}  // namespace shardstream::scale::program
