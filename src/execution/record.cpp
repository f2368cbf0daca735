#include "execution/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/statistics.hpp"
#include "core/text.hpp"
#include "execution/startup.hpp"
#include "execution/timeline_output.hpp"
#include "measure/gather.hpp"
#include "ranks/cpus.hpp"
#include "ranks/session.hpp"
#include "result/columns.hpp"
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

std::vector<result::Repetition> repetitions_of(const workloads::Outcome& outcome,
                                               const measure::RunTelemetry& telemetry) {
  std::vector<result::Repetition> repetitions;
  for (const auto& repetition : outcome.samples.repetitions) {
    const auto [min, max] = std::ranges::minmax_element(repetition.ranks);
    const std::size_t number = repetitions.size();
    repetitions.push_back({.rep = static_cast<std::int64_t>(number),
                           .wall = repetition.seconds,
                           .skew = *max - *min,
                           .elements = static_cast<std::int64_t>(outcome.elements),
                           .bytes = static_cast<std::int64_t>(outcome.bytes),
                           .throttled = telemetry.throttled[number],
                           .work = outcome.work.amount});
  }
  return repetitions;
}

std::vector<result::MetricSummary> summary_of(const workloads::Outcome& outcome,
                                              const measure::RunTelemetry& telemetry) {
  std::vector<result::MetricSummary> summary;
  const auto add = [&](const std::string& metric, const std::vector<double>& samples,
                       const std::string& unit) {
    const Summary s = summarize(samples);
    summary.push_back({.metric = metric,
                       .n = static_cast<std::int64_t>(s.n),
                       .median = s.median,
                       .ci_lo = s.ci_lo,
                       .ci_hi = s.ci_hi,
                       .min = s.min,
                       .q1 = s.q1,
                       .q3 = s.q3,
                       .max = s.max,
                       .unit = unit,
                       .sampling = measure::word_of(outcome.samples.convergence),
                       .autocorrelation = autocorrelation(samples)});
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
  return summary;
}

/// The phases of all ranks, in the order of ranks and tracks. Collective.
std::vector<result::RankPhase> gather_phases(const runtime::Runtime& runtime) {
  std::vector<result::RankPhase> mine;
  const auto list = [&](const measure::Track& track, bool on_device) {
    for (const auto& phase : track.phases()) {
      mine.push_back({{.rank = runtime.session.rank()},
                      {.track = track.name(),
                       .phase = phase.name,
                       .host_seconds = on_device ? 0 : phase.seconds,
                       .gpu_seconds = on_device ? phase.seconds : 0,
                       .calls = static_cast<std::int64_t>(phase.calls),
                       .bytes = static_cast<std::int64_t>(phase.bytes),
                       .kind = std::string(word_of(phase.kind)),
                       .timed_seconds = phase.timed}});
    }
  };
  const std::size_t host_tracks = runtime.recorder.host_tracks().size();
  std::size_t number = 0;
  for (const auto* track : measure::tracks_of(runtime.recorder)) {
    list(*track, number++ >= host_tracks);
  }
  return measure::gather(runtime.session, mine);
}

/// The phases of any rank, with the maximum times and calls of a rank and the bytes of all ranks.
std::vector<result::Phase> phases_of(const std::vector<result::RankPhase>& rank_phase) {
  std::vector<result::Phase> phases;
  for (const result::Phase& each : rank_phase) {
    const auto found = std::ranges::find_if(phases, [&](const result::Phase& phase) {
      return phase.track == each.track && phase.phase == each.phase && phase.kind == each.kind;
    });
    if (found == phases.end()) {
      phases.push_back(each);
      continue;
    }
    found->host_seconds = std::max(found->host_seconds, each.host_seconds);
    found->gpu_seconds = std::max(found->gpu_seconds, each.gpu_seconds);
    found->timed_seconds = std::max(found->timed_seconds, each.timed_seconds);
    found->calls = std::max(found->calls, each.calls);
    found->bytes += each.bytes;
  }
  return phases;
}

std::vector<result::PrintedMetric> metrics_of(const workloads::Outcome& outcome) {
  std::vector<result::PrintedMetric> metrics;
  for (const Metric& metric : outcome.metrics) {
    metrics.push_back({metric.key, to_text(metric.value, 17), number_of(metric), metric.unit});
  }
  return metrics;
}

/// The files that the inputs came from.
std::vector<result::InputFile> files_of(const io::Origin& inputs) {
  std::vector<result::InputFile> files;
  for (const io::InputFile& file : inputs.files) {
    files.push_back({file.option, file.path.string(), file.dataset,
                     static_cast<std::int64_t>(file.size), file.modified});
  }
  return files;
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
  outcome.metrics.push_back({"sampling", measure::word_of(outcome.samples.convergence)});
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
  auto rank_phase = gather_phases(runtime);
  auto phases = phases_of(rank_phase);
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
          .repetitions = repetitions_of(outcome, telemetry),
          .startup = gather_steps(runtime, outcome.samples),
          .summary = summary_of(outcome, telemetry),
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
  result::write(file, files_of(inputs));
  runtime::store(file, record.topology);
  result::write(file, record.phases);
  file.table("/timing", result::repetitions_table(record.repetitions, outcome.work.unit));
  result::write(file, record.rank_phase);
  result::write(file, record.startup);
  if (record.timeline) write_spans(file, *record.timeline, record.rank_phase);
  result::write(file, record.telemetry);
  file.attribute("/telemetry", "energy_from", record.energy_from);
  result::write(file, record.summary);
  result::write(file, metrics_of(outcome));
  file.table("/", measure::ceilings_table(outcome.ceilings));
  file.labelled("/results", outcome.labelled);
  for (const Table& table : outcome.results) file.table("/results", table);
  for (const auto& [name, value] : outcome.attributes) file.attribute("/results", name, value);
  file.attribute("/results", "verified",
                 std::int64_t{outcome.verified == workloads::Verification::passed});
  file.attribute("/results", "verdict", outcome.verdict);
}

}  // namespace shardstream::execution
