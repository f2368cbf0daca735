#include "cli/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "core/statistics.hpp"
#include "core/text.hpp"
#include "runtime/provenance.hpp"

namespace shardstream::cli {
namespace {

std::vector<double> seconds_of(const workloads::Outcome& outcome) {
  std::vector<double> seconds;
  for (const auto& repetition : outcome.repetitions) seconds.push_back(repetition.seconds);
  return seconds;
}

std::string origin_of(const measure::Energy& energy) {
  if (!std::isfinite(energy.joules)) return "nothing";
  return energy.counted ? "counter" : "power";
}

/// Joules for 10^9 bytes of work; NaN where energy is not known.
double energy_per_gigabyte(const workloads::Outcome& outcome,
                           const measure::RunTelemetry& telemetry) {
  return telemetry.energy.joules * 1e9 /
         (static_cast<double>(outcome.bytes) * static_cast<double>(outcome.repetitions.size()));
}

Table reps_table(const workloads::Outcome& outcome, const measure::RunTelemetry& telemetry) {
  Table table("reps", {{"rep", ColumnType::integer},
                       {"wall", ColumnType::real, "s"},
                       {"skew", ColumnType::real, "s"},
                       {"elements", ColumnType::integer},
                       {"bytes", ColumnType::integer, "B"},
                       {"throttled", ColumnType::integer}});
  std::int64_t number = 0;
  for (const auto& repetition : outcome.repetitions) {
    const auto [least, most] = std::ranges::minmax_element(repetition.ranks);
    const std::int64_t throttled = telemetry.throttled[static_cast<std::size_t>(number)];
    table.add({number++, repetition.seconds, *most - *least,
               static_cast<std::int64_t>(outcome.elements),
               static_cast<std::int64_t>(outcome.bytes), throttled});
  }
  return table;
}

Table summary_table(const workloads::Outcome& outcome, const measure::RunTelemetry& telemetry) {
  Table table("summary", {{"metric", ColumnType::text},
                          {"n", ColumnType::integer},
                          {"median", ColumnType::real},
                          {"ci_lo", ColumnType::real},
                          {"ci_hi", ColumnType::real},
                          {"min", ColumnType::real},
                          {"q1", ColumnType::real},
                          {"q3", ColumnType::real},
                          {"max", ColumnType::real},
                          {"unit", ColumnType::text}});
  const auto add = [&](const char* metric, const std::vector<double>& samples, const char* unit) {
    const Summary s = summarize(samples);
    table.add({metric, static_cast<std::int64_t>(s.n), s.median, s.ci_lo, s.ci_hi, s.min, s.q1,
               s.q3, s.max, unit});
  };
  const std::vector<double> seconds = seconds_of(outcome);
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(static_cast<double>(outcome.bytes) / s / 1e9);
  add("time", seconds, "s");
  add("rate_aggregate", rates, "GB/s");
  if (std::isfinite(telemetry.energy.joules)) {
    add("energy", {telemetry.energy.joules}, "J");
    add("energy_per_gigabyte", {energy_per_gigabyte(outcome, telemetry)}, "J/GB");
  }
  return table;
}

/// Every rank's phases, one row each, in rank order.
Table rank_phase_table(const runtime::Runtime& runtime) {
  std::string mine;
  for (const auto& phase : runtime.recorder.phases()) {
    mine += fmt::format("{}\t{}\t{}\t{}\n", phase.name, phase.seconds, phase.calls, phase.bytes);
  }
  Table table("rank_phase", {{"rank", ColumnType::integer},
                             {"phase", ColumnType::text},
                             {"host_seconds", ColumnType::real, "s"},
                             {"calls", ColumnType::integer},
                             {"bytes", ColumnType::integer, "B"}});
  std::int64_t rank = 0;
  for (const std::string& lines : runtime.session.gather(mine)) {
    for (const auto line : split(lines, '\n')) {
      if (line.empty()) continue;
      const auto field = split(line, '\t');
      table.add({rank, std::string(field[0]), std::stod(std::string(field[1])),
                 std::stoll(std::string(field[2])), std::stoll(std::string(field[3]))});
    }
    ++rank;
  }
  return table;
}

/// The phases in order, each with the slowest rank's time and all ranks' bytes.
Table phases_table(const runtime::Runtime& runtime, const Table& rank_phase) {
  Table table("phases", {{"phase", ColumnType::text},
                         {"seconds", ColumnType::real, "s"},
                         {"calls", ColumnType::integer},
                         {"bytes", ColumnType::integer, "B"}});
  for (const auto& phase : runtime.recorder.phases()) {
    double seconds = 0;
    std::int64_t calls = 0, bytes = 0;
    for (const auto& row : rank_phase.rows()) {
      if (std::get<std::string>(row[1]) != phase.name) continue;
      seconds = std::max(seconds, std::get<double>(row[2]));
      calls = std::max(calls, std::get<std::int64_t>(row[3]));
      bytes += std::get<std::int64_t>(row[4]);
    }
    table.add({phase.name, seconds, calls, bytes});
  }
  return table;
}

}  // namespace

Table ceilings_table(const std::vector<measure::Ceiling>& ceilings) {
  Table table("ceilings", {{"ceiling", ColumnType::text},
                           {"per_rank_min", ColumnType::real},
                           {"aggregate", ColumnType::real},
                           {"unit", ColumnType::text}});
  for (const auto& ceiling : ceilings) {
    table.add({ceiling.name, ceiling.least, ceiling.aggregate, ceiling.unit});
  }
  return table;
}

void describe_rates(workloads::Outcome& outcome, const measure::RunTelemetry& telemetry) {
  const Summary time = summarize(seconds_of(outcome));
  outcome.metrics.push_back({"time", fmt::format("{:.6g}", time.median), "s"});
  const double rate = static_cast<double>(outcome.bytes) / time.median / 1e9;
  outcome.metrics.push_back({"rate_aggregate", fmt::format("{:.4g}", rate), "GB/s"});
  for (const auto& ceiling : outcome.ceilings) {
    outcome.metrics.push_back(
        {ceiling.name + "_aggregate", fmt::format("{:.4g}", ceiling.aggregate), ceiling.unit});
    outcome.metrics.push_back(
        {ceiling.name + "_share", fmt::format("{:.3f}", rate / ceiling.aggregate)});
  }
  if (std::isfinite(telemetry.energy.joules)) {
    outcome.metrics.push_back({"energy", fmt::format("{:.4g}", telemetry.energy.joules), "J"});
    outcome.metrics.push_back({"energy_per_gigabyte",
                               fmt::format("{:.4g}", energy_per_gigabyte(outcome, telemetry)),
                               "J/GB"});
  }
  outcome.metrics.push_back({"verified", outcome.verified ? "true" : "false"});
}

Record gather(const runtime::Runtime& runtime, const io::Source& source,
              const workloads::Outcome& outcome, const measure::RunTelemetry& telemetry) {
  Table rank_phase = rank_phase_table(runtime);
  Table phases = phases_table(runtime, rank_phase);
  const auto as_integers = [](const std::vector<std::uint64_t>& extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  return {.topology = runtime::observe(runtime),
          .phases = std::move(phases),
          .rank_phase = std::move(rank_phase),
          .reps = reps_table(outcome, telemetry),
          .summary = summary_table(outcome, telemetry),
          .telemetry = telemetry.samples,
          .energy_from = origin_of(telemetry.energy),
          .provenance = runtime::provenance(runtime.device.get(), runtime.nvml),
          .input = {{"name", source.name()},
                    {"type", std::string(name_of(source.type()))},
                    {"shape", as_integers(source.order().shape())},
                    {"box", as_integers(source.order().box())},
                    {"access", source.access()},
                    {"stored_bytes", static_cast<std::int64_t>(source.stored_bytes())}}};
}

void store(io::ResultFile& file, const runtime::Runtime& runtime, const Record& record,
           const workloads::Outcome& outcome) {
  for (const auto& [key, value] : runtime.options.all()) {
    file.attribute("/config", key, value.text);
    file.attribute("/config/origin", key, value.origin);
  }
  const auto ranks = static_cast<std::int64_t>(runtime.session.size());
  file.attribute("/config", "ranks", ranks);
  file.attribute("/config", "work_total", static_cast<std::int64_t>(outcome.elements));
  file.attribute("/config", "work_per_gpu", static_cast<std::int64_t>(outcome.elements) / ranks);
  for (const auto& [name, value] : record.provenance) file.attribute("/provenance", name, value);
  for (const auto& [name, value] : record.input) file.attribute("/input", name, value);
  file.table("/topology", record.topology.ranks);
  file.table("/topology", record.topology.gpus);
  file.table("/topology", record.topology.peers);
  file.table("/timing", record.phases);
  file.table("/timing", record.reps);
  file.table("/timing", record.rank_phase);
  file.table("/telemetry", record.telemetry);
  file.attribute("/telemetry", "energy_from", record.energy_from);
  file.table("/", record.summary);
  file.table("/", ceilings_table(outcome.ceilings));
  for (const Table& table : outcome.results) file.table("/results", table);
  for (const auto& [name, value] : outcome.attributes) file.attribute("/results", name, value);
  file.attribute("/results", "verified", std::int64_t{outcome.verified});
  file.attribute("/results", "verdict", outcome.verdict);
}

}  // namespace shardstream::cli
