#include "report/page/details.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"

namespace shardstream::report::page {
namespace {

void read_phases(const io::ResultReader& file, Details& details) {
  for (const result::RankPhase& each : result::read<result::RankPhase>(file)) {
    details.knows_timed = !std::isnan(each.timed_seconds);
    details.phases.push_back({.rank = static_cast<int>(each.rank),
                              .track = each.track,
                              .phase = each.phase,
                              .kind = each.kind,
                              .seconds = each.host_seconds + each.gpu_seconds,
                              .timed = each.timed_seconds,
                              .on_device = each.gpu_seconds > 0});
  }
}

void read_telemetry(const io::ResultReader& file, const RunFile& run, Details& details) {
  const double end = run.wall();
  std::vector<double> power, clock, temperature;
  for (const result::GpuSample& sample : result::read<result::GpuSample>(file)) {
    if (sample.seconds < 0 || sample.seconds > end) continue;
    details.telemetry.samples += std::isfinite(sample.power) ? 1 : 0;
    power.push_back(sample.power);
    clock.push_back(sample.sm_clock);
    temperature.push_back(sample.temperature);
  }
  details.telemetry.power = median(std::move(power));
  details.telemetry.clock = median(std::move(clock));
  details.telemetry.temperature = median(std::move(temperature));
}

void read_spans(const io::ResultReader& file, Details& details) {
  for (const result::Span& span : result::read<result::Span>(file)) {
    const std::int64_t length = std::max<std::int64_t>(0, span.dur_ns);
    if (span.start_ns < 0 || span.start_ns > INT64_MAX - length) continue;
    details.spans.push_back({.rank = static_cast<int>(span.rank),
                             .track = span.track,
                             .phase = span.phase,
                             .start = span.start_ns,
                             .end = span.start_ns + length});
  }
}

}  // namespace

bool RankPhase::is_always_timed() const {
  constexpr double rounding = 1e-6;
  return timed > 0 && timed >= seconds * (1 - rounding);
}

PhaseIndex::PhaseIndex(const Details& details) {
  for (const RankPhase& each : details.phases) {
    phases_[{each.rank, each.track, each.phase}] = &each;
  }
}

const RankPhase* PhaseIndex::find(const Span& span) const {
  const auto found = phases_.find({span.rank, span.track, span.phase});
  return found == phases_.end() ? nullptr : found->second;
}

Details read_details(const RunFile& run, Spans spans) {
  Details details;
  const io::ResultReader file(run.path);
  const auto tried = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  tried([&] { read_phases(file, details); });
  tried([&] { read_telemetry(file, run, details); });
  details.provenance = file.texts("/provenance");
  if (spans == Spans::leave) return details;
  details.why_no_spans = tried([&] { read_spans(file, details); });
  if (details.spans.empty() && details.why_no_spans.empty()) {
    details.why_no_spans = "the timeline has no spans";
  }
  return details;
}

}  // namespace shardstream::report::page
