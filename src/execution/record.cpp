#include "execution/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <variant>

#include "core/statistics.hpp"
#include "core/text.hpp"
#include "execution/startup.hpp"
#include "execution/timeline.hpp"
#include "ranks/cpus.hpp"
#include "ranks/session.hpp"
#include "runtime/provenance.hpp"

namespace shardstream::execution {
namespace {

std::string origin_of(const measure::Energy& energy) {
  if (!std::isfinite(energy.joules)) return "nothing";
  return energy.counted ? "counter" : "power";
}

using workloads::Work;

std::string energy_key(const Work& work) {
  return "energy_per_" + work.name;
}

/// Joules per unit of work; NaN if the energy is unknown.
double energy_per_unit(const workloads::Outcome& outcome, const measure::RunTelemetry& telemetry) {
  return telemetry.energy.joules /
         (outcome.work.amount * static_cast<double>(outcome.samples.repetitions.size()));
}

Table reps_table(const workloads::Outcome& outcome, const measure::RunTelemetry& telemetry) {
  Table table("reps", {{"rep", ColumnType::integer},
                       {"wall", ColumnType::real, "s"},
                       {"skew", ColumnType::real, "s"},
                       {"elements", ColumnType::integer},
                       {"bytes", ColumnType::integer, "B"},
                       {"throttled", ColumnType::integer},
                       {"work", ColumnType::real, outcome.work.unit}});
  std::int64_t number = 0;
  for (const auto& repetition : outcome.samples.repetitions) {
    const auto [min, max] = std::ranges::minmax_element(repetition.ranks);
    const std::int64_t throttled = telemetry.throttled[static_cast<std::size_t>(number)];
    table.add({number++, repetition.seconds, *max - *min,
               static_cast<std::int64_t>(outcome.elements),
               static_cast<std::int64_t>(outcome.bytes), throttled, outcome.work.amount});
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
                          {"unit", ColumnType::text},
                          {"sampling", ColumnType::text},
                          {"autocorrelation", ColumnType::real}});
  const auto add = [&](const std::string& metric, const std::vector<double>& samples,
                       const std::string& unit) {
    const Summary s = summarize(samples);
    table.add({metric, static_cast<std::int64_t>(s.n), s.median, s.ci_lo, s.ci_hi, s.min, s.q1,
               s.q3, s.max, unit, measure::name_of(outcome.samples.convergence),
               autocorrelation(samples)});
  };
  const std::vector<double> seconds = outcome.samples.seconds();
  const Work& work = outcome.work;
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(work.amount / s);
  add("time", seconds, "s");
  add("rate_aggregate", rates, fmt::format("{}/s", work.unit));
  if (std::isfinite(telemetry.energy.joules)) {
    add("energy", {telemetry.energy.joules}, "J");
    add(energy_key(work), {energy_per_unit(outcome, telemetry)}, fmt::format("J/{}", work.unit));
  }
  return table;
}

std::vector<Column> phase_columns() {
  return {{"track", ColumnType::text},
          {"phase", ColumnType::text},
          {"host_seconds", ColumnType::real, "s"},
          {"gpu_seconds", ColumnType::real, "s"},
          {"calls", ColumnType::integer},
          {"bytes", ColumnType::integer, "B"},
          {"kind", ColumnType::text},
          {"timed_seconds", ColumnType::real, "s"}};
}

/// One row per phase of every rank, in the order of ranks and tracks.
Table rank_phase_table(const runtime::Runtime& runtime) {
  Table mine("rank_phase", phase_columns());
  const auto list = [&mine](const measure::Track& track, bool on_device) {
    for (const auto& phase : track.phases()) {
      mine.add({track.name(), phase.name, on_device ? 0 : phase.seconds,
                on_device ? phase.seconds : 0, static_cast<std::int64_t>(phase.calls),
                static_cast<std::int64_t>(phase.bytes), std::string(word_of(phase.kind)),
                phase.timed});
    }
  };
  const std::size_t host_tracks = runtime.recorder.host_tracks().size();
  std::size_t number = 0;
  for (const auto* track : measure::tracks_of(runtime.recorder)) {
    list(*track, number++ >= host_tracks);
  }
  return ranks::gather(runtime.session, mine);
}

/// One row per phase of any rank, with the maximum times and calls of a rank and the bytes of all
/// ranks.
Table phases_table(const Table& rank_phase) {
  struct Sum {
    std::string track, phase, kind;
    double host_seconds = 0, gpu_seconds = 0, timed_seconds = 0;
    std::int64_t calls = 0, bytes = 0;
  };
  std::vector<Sum> sums;
  for (const Row& row : rank_phase.rows()) {
    const auto& track = row.get<std::string>("track");
    const auto& phase = row.get<std::string>("phase");
    const auto& kind = row.get<std::string>("kind");
    auto sum = std::ranges::find_if(
        sums, [&](const Sum& s) { return s.track == track && s.phase == phase && s.kind == kind; });
    if (sum == sums.end()) sum = sums.insert(sum, {.track = track, .phase = phase, .kind = kind});
    sum->host_seconds = std::max(sum->host_seconds, row.get<double>("host_seconds"));
    sum->gpu_seconds = std::max(sum->gpu_seconds, row.get<double>("gpu_seconds"));
    sum->timed_seconds = std::max(sum->timed_seconds, row.get<double>("timed_seconds"));
    sum->calls = std::max(sum->calls, row.get<std::int64_t>("calls"));
    sum->bytes += row.get<std::int64_t>("bytes");
  }
  Table table("phases", phase_columns());
  for (const auto& sum : sums) {
    table.add({sum.track, sum.phase, sum.host_seconds, sum.gpu_seconds, sum.calls, sum.bytes,
               sum.kind, sum.timed_seconds});
  }
  return table;
}

/// The printed metrics.
Table metrics_table(const workloads::Outcome& outcome) {
  Table table("metrics", {{"metric", ColumnType::text},
                          {"value", ColumnType::text},
                          {"number", ColumnType::real},
                          {"unit", ColumnType::text}});
  for (const Metric& metric : outcome.metrics) {
    table.add({metric.key, to_text(metric.value, 17), number_of(metric), metric.unit});
  }
  return table;
}

/// The files that the inputs came from.
Table files_table(const io::Origin& inputs) {
  Table table("files", {{"option", ColumnType::text},
                        {"path", ColumnType::text},
                        {"dataset", ColumnType::text},
                        {"size", ColumnType::integer, "B"},
                        {"modified_ns", ColumnType::integer, "ns"}});
  for (const io::InputFile& file : inputs.files) {
    table.add({file.option, file.path.string(), file.dataset, static_cast<std::int64_t>(file.size),
               file.modified});
  }
  return table;
}

/// How certain the printed time is, with the names of the columns of /summary. Nothing for a single
/// repetition that was requested.
void describe_sampling(workloads::Outcome& outcome, const Summary& time) {
  if (time.n == 1 && outcome.samples.convergence == measure::Convergence::fixed) return;
  outcome.metrics.push_back({"time_n", static_cast<std::int64_t>(time.n)});
  if (std::isfinite(time.ci_lo)) {
    outcome.metrics.push_back({"time_ci_lo", time.ci_lo, "s", "{:.6g}"});
    outcome.metrics.push_back({"time_ci_hi", time.ci_hi, "s", "{:.6g}"});
  }
  outcome.metrics.push_back({"sampling", measure::name_of(outcome.samples.convergence)});
}

}  // namespace

double allocation_time(const runtime::Runtime& runtime) {
  double mine = 0;
  for (const measure::Phase& phase : runtime.recorder.host_tracks().front().phases()) {
    if (phase.name == "allocate") mine += phase.seconds;
  }
  return runtime.session.max(mine);
}

void describe_rates(workloads::Outcome& outcome, const measure::RunTelemetry& telemetry,
                    double allocation) {
  const Summary time = summarize(outcome.samples.seconds());
  outcome.metrics.push_back({"time", time.median, "s", "{:.6g}"});
  describe_sampling(outcome, time);
  if (allocation > time.median / 10) {
    outcome.metrics.push_back({"allocate", allocation, "s", "{:.4g}"});
  }
  const Work& work = outcome.work;
  outcome.metrics.push_back(
      {"rate_aggregate", work.amount / time.median, fmt::format("{}/s", work.unit), "{:.4g}"});
  for (const auto& ceiling : outcome.ceilings) {
    // Ceilings of arithmetic are in Gflop/s, but rate_aggregate is in Tflop/s.
    const bool is_arithmetic = ceiling.unit == "Gflop/s";
    outcome.metrics.push_back({ceiling.name + "_aggregate",
                               is_arithmetic ? ceiling.aggregate / 1000 : ceiling.aggregate,
                               is_arithmetic ? "Tflop/s" : ceiling.unit, "{:.4g}"});
  }
  if (const auto* bound = measure::binding(outcome.ceilings)) {
    outcome.metrics.push_back({"bound_by", bound->name});
    outcome.metrics.push_back(
        {"bound_share", bound->load / bound->aggregate / time.median, "", "{:.3f}"});
  }
  if (std::isfinite(telemetry.energy.joules)) {
    outcome.metrics.push_back({"energy", telemetry.energy.joules, "J", "{:.4g}"});
    outcome.metrics.push_back({energy_key(work), energy_per_unit(outcome, telemetry),
                               fmt::format("J/{}", work.unit), "{:.4g}"});
  }
  outcome.metrics.push_back({"verified", word_of(outcome.verified)});
}

Record gather(const runtime::Runtime& runtime, const workloads::Outcome& outcome,
              const measure::RunTelemetry& telemetry) {
  Table rank_phase = rank_phase_table(runtime);
  Table phases = phases_table(rank_phase);
  std::optional<measure::Timeline> timeline;
  if (runtime.recorder.keeps_spans()) {
    timeline = measure::gather_timeline(runtime.session, runtime.recorder, runtime.clock_at_start);
  }
  auto resolved = outcome.resolved;
  resolved.emplace_back("device.backend", runtime.device->info().backend);
  resolved.emplace_back("comm.transport", runtime.communicator->transport());
  resolved.emplace_back("launch.bind", ranks::granted_cpu_list());
  resolved.emplace_back("launch.cpus-per-rank", std::int64_t{runtime.resources.threads});
  resolved.emplace_back("launch.expect-ranks", std::int64_t{runtime.session.size()});
  return {.topology = *runtime.topology,
          .phases = std::move(phases),
          .rank_phase = std::move(rank_phase),
          .reps = reps_table(outcome, telemetry),
          .startup = startup_table(runtime, outcome.samples),
          .summary = summary_table(outcome, telemetry),
          .telemetry = telemetry.samples,
          .energy_from = origin_of(telemetry.energy),
          .timeline = std::move(timeline),
          .processes = runtime.session.gather(
              fmt::format("rank {} ({}, {})", runtime.session.rank(), runtime.session.host(),
                          runtime.device->info().name)),
          .provenance =
              runtime::provenance(runtime.device.get(), runtime.nvml, runtime.communicator.get()),
          .resolved = std::move(resolved)};
}

void store(io::ResultFile& file, const runtime::Runtime& runtime, const Record& record,
           const workloads::Outcome& outcome, const io::Origin& inputs) {
  for (const auto& [key, value] : runtime.options.all()) {
    file.attribute("/config", key, value.text);
    file.attribute("/config/origin", key, value.origin);
  }
  for (const auto& [key, value] : record.resolved) {
    file.attribute("/config/resolved", key, value);
  }
  file.attribute("/config/resolved", "output.file", file.path().string());
  const auto ranks = static_cast<std::int64_t>(runtime.session.size());
  file.attribute("/config", "ranks", ranks);
  file.attribute("/config", "work_total", static_cast<std::int64_t>(outcome.elements));
  file.attribute("/config", "work_per_gpu", static_cast<std::int64_t>(outcome.elements) / ranks);
  std::error_code unknown;  // the folder may have been removed since the start
  file.attribute("/config", "working_directory", std::filesystem::current_path(unknown).string());
  for (const auto& [name, value] : record.provenance) file.attribute("/provenance", name, value);
  for (const auto& [group, name, value] : outcome.input) file.attribute(group, name, value);
  if (!inputs.beyond.empty()) {
    file.attribute("/input", "selection_beyond", join(inputs.beyond, ", "));
  }
  if (!inputs.applied.empty()) {
    file.attribute("/input", "applied", join(inputs.applied, ", "));
  }
  if (!inputs.not_applied.empty()) {
    file.attribute("/input", "not_applied", io::not_applied_text(inputs));
  }
  file.table("/input", files_table(inputs));
  file.table("/topology", record.topology.ranks);
  file.table("/topology", record.topology.gpus);
  file.table("/topology", record.topology.peers);
  file.table("/timing", record.phases);
  file.table("/timing", record.reps);
  file.table("/timing", record.rank_phase);
  file.table("/timing", record.startup);
  if (record.timeline) file.table("/timeline", spans_table(*record.timeline, record.rank_phase));
  file.table("/telemetry", record.telemetry);
  file.attribute("/telemetry", "energy_from", record.energy_from);
  file.table("/", record.summary);
  file.table("/", metrics_table(outcome));
  file.table("/", measure::ceilings_table(outcome.ceilings));
  file.labelled("/results", outcome.labelled);
  for (const Table& table : outcome.results) file.table("/results", table);
  for (const auto& [name, value] : outcome.attributes) file.attribute("/results", name, value);
  file.attribute("/results", "verified",
                 std::int64_t{outcome.verified == workloads::Verification::passed});
  file.attribute("/results", "verdict", outcome.verdict);
}

}  // namespace shardstream::execution
